# shellcheck shell=bash
# The kernel's autogroups are off while ranks of several virtual hosts share few processors. Linux 6.18 keeps ranks that
# poll and yield in such groups from every processor for up to 40 s (docs/decisions/README.md, Tests).
# Sourced after container.sh, never run; needs the right to set the kernel's parameter, else the groups stay on.

rw_autogroups=/proc/sys/kernel/sched_autogroup_enabled

# autogroups_off: until this script is gone, unless one that has called it has done so.
autogroups_off() {
    [[ -z ${RINGWATCH_AUTOGROUPS:-} && -e $rw_autogroups && $(<$rw_autogroups) == 1 ]] || return 0
    if [[ ! -w $rw_autogroups ]]; then
        say "the kernel's autogroups stay on, as only root may change them: on Linux 6.18 ranks may wait long for a processor"
        return 0
    fi
    export RINGWATCH_AUTOGROUPS=off
    afterwards autogroups_on
    echo 0 >$rw_autogroups
}

# Whether ranks of other sessions may be run beside each other.
autogroups_are_off() { [[ ! -e $rw_autogroups || $(<$rw_autogroups) == 0 ]]; }

# shellcheck disable=SC2317  # called by afterwards
autogroups_on() { echo 1 >$rw_autogroups; }
