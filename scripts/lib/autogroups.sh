# shellcheck shell=bash
# The kernel's autogroups are off while ranks of several virtual hosts share few processors. Linux 6.18 keeps ranks that
# poll and yield in such groups from every processor for up to 40 s (docs/decisions.md, Tests).
# Sourced after container.sh, never run; needs the right to set the kernel's parameter, else the groups stay on.

rw_autogroups=/proc/sys/kernel/sched_autogroup_enabled
# There while they are off for us: of one that was killed the next one puts them on again.
rw_autogroups_mark=$rw_source/target/autogroups-off
# Whether they are this script's to put on.
rw_autogroups_ours=

# autogroups_off: until the caller's trap calls autogroups_on, unless a script that has called this one has done so.
autogroups_off() {
    [[ -z ${RINGWATCH_AUTOGROUPS:-} ]] || return 0
    rw_autogroups_ours=yes
    autogroups_on
    [[ -e $rw_autogroups && $(<$rw_autogroups) == 1 ]] || return 0
    if [[ ! -w $rw_autogroups ]]; then
        say "the kernel's autogroups stay on, as only root may change them: on Linux 6.18 ranks may wait long for a processor"
        return 0
    fi
    mkdir -p "${rw_autogroups_mark%/*}"
    : >"$rw_autogroups_mark"
    export RINGWATCH_AUTOGROUPS=off
    echo 0 >$rw_autogroups
}

# Whether ranks of other sessions may be run beside each other.
autogroups_are_off() { [[ ! -e $rw_autogroups || $(<$rw_autogroups) == 0 ]]; }

autogroups_on() {
    [[ -n $rw_autogroups_ours && -e $rw_autogroups_mark ]] || return 0
    echo 1 >$rw_autogroups
    rm -f "$rw_autogroups_mark"
}
