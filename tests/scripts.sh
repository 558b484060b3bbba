#!/bin/bash
# tests/scripts.sh [--full]: what scripts/demo does from beginning to end, when it is killed, and when something is missing;
# with --full also stock, benchmarks, and how a Debian 13 root is made. Called by scripts/test, outside of the container, with
# a build at hand. Exit status: 0 all passed, 1 something did not.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
mkdir -p target
work=$(mktemp -d -p "$PWD/target")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# check WHAT COMMAND...: the test WHAT is passed if COMMAND returns 0.
check() {
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "test $what ... ok"
    else
        failed=$((failed + 1))
        echo "test $what ... FAILED: status $status and"
        sed 's/^/    /' "$work/out"
    fi
}

# run COMMAND...: its output goes to a file, its exit status to $status.
status=
run() {
    "$@" >"$work/out" 2>&1 </dev/null
    status=$?
}

says() { grep -q -- "$1" "$work/out"; }

# refused SENTENCE: exit status 2, and the last line is the one that has these words.
refused() { ((status == 2)) && tail -n 1 "$work/out" | grep -q -- "$1"; }

# Everything that a run may leave behind.
traces() {
    grep -c . /proc/self/mountinfo
    ls /dev/shm /run/netns 2>/dev/null
    ip -o link | wc -l
    # The processes of containers, all of which are in other namespaces.
    local process own
    own=$(readlink /proc/self/ns/mnt)
    for process in /proc/[0-9]*; do
        [[ $(readlink "$process/ns/mnt" 2>/dev/null) == "$own" || ! -e $process/cmdline ]] ||
            [[ $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null) != *ringwatch* ]] || echo "${process##*/}"
    done
}

left_nothing() {
    local until=$((SECONDS + 10))
    while [[ $(traces) != "$before" ]] && ((SECONDS < until)); do sleep 0.1; done
    [[ $(traces) == "$before" ]]
}

before=$(traces)

# Who asks for help gets it on standard output, and nothing else happens: there is no Debian 13 root to begin with.
helps() {
    local script
    for script in scripts/*; do
        [[ -f $script ]] || continue
        XDG_CACHE_HOME="$work/none" "$script" --help >"$work/out" 2>"$work/said" </dev/null
        status=$?
        ((status == 0)) && says "scripts/${script##*/}" && [[ ! -s $work/said && ! -e $work/none ]] || return 1
    done
}
check every_script_prints_help_and_starts_nothing helps

whole() { ((status == 0)) && says 'without a fault: result' && says 'the survivors went on: all held' && says 'nobody saw an error: all held'; }
run scripts/demo --fault kill-rank --fault replace-rank
check a_demonstration_runs_from_beginning_to_end whole
check a_demonstration_leaves_nothing left_nothing

# Without ringwatch the same fault is a sight, not a failure.
compared() { ((status == 0)) && says 'Stock Open MPI, without ringwatch' && says 'SIGKILL to rank 5' && says 'stock Open MPI (\*'; }
if [[ ${1:-} == --full ]]; then
    run scripts/demo --stock --fault kill-rank
    check a_demonstration_of_stock_shows_what_happens_there compared
fi

# ended SIGNAL STATUS PROGRAM COMMAND...: a script that gets this signal as soon as this program of its job runs ends with this
# status, and leaves nothing.
ended() {
    # A job in the background ignores SIGINT otherwise.
    env --default-signal=INT "${@:4}" >"$work/out" 2>&1 </dev/null &
    local script=$!
    until grep -qsx "$3" /proc/[0-9]*/comm || ! kill -0 $script 2>/dev/null; do sleep 0.1; done
    kill -"$1" $script
    wait $script 2>/dev/null
    status=$?
    ((status == $2)) && left_nothing
}
check a_demonstration_that_is_killed_leaves_nothing ended KILL 137 heat scripts/demo --fault cut-link
check a_demonstration_that_is_interrupted_leaves_nothing ended INT 130 heat scripts/demo --fault cut-link
check a_demonstration_of_stock_that_is_ended_leaves_nothing ended TERM 143 heat scripts/demo --stock --fault cut-link
check tests_that_are_killed_leave_nothing ended KILL 137 survivor scripts/test ranks
check tests_that_are_interrupted_leave_nothing ended INT 130 survivor scripts/test ranks

run scripts/demo --fault nothing
usage() { ((status == 2)) && says 'scripts/demo'; }
check an_unknown_fault_is_refused usage

mkdir "$work/bin"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/unshare"
chmod 755 "$work/bin/unshare"
run env PATH="$work/bin:$PATH" scripts/demo
check without_rights_one_sentence_says_what_to_do refused 'run as root, or allow user namespaces'

# In namespaces of the test's own: no network, a full disk.
alone=(unshare --mount --net)
unshare --mount --net true 2>/dev/null || alone=(unshare --user --map-root-user --mount --net)
run "${alone[@]}" env RINGWATCH_ROOT_ALWAYS=1 XDG_CACHE_HOME="$work/cache" scripts/demo
check without_a_mirror_one_sentence_says_what_to_do refused 'No mirror with Debian 13 answers'
mkdir "$work/small"
# shellcheck disable=SC2016
run "${alone[@]}" bash -c 'mount -t tmpfs -o size=8m small "$0" && XDG_CACHE_HOME=$0 RINGWATCH_ROOT_ALWAYS=1 exec scripts/demo' "$work/small"
check without_space_one_sentence_says_what_to_do refused 'MiB are needed'
check refusals_leave_nothing left_nothing

# What a build lacks it names, with the package that has it.
run scripts/container env RINGWATCH_PMIX_INCLUDE=/nonexistent \
    cargo build --quiet --offline --target-dir "/src/${work#"$PWD/"}/build" -p c-shims
named() { ((status != 0)) && says 'ringwatch: no PMIx headers in /nonexistent: install the package libpmix-dev'; }
check a_build_without_pmix_names_the_package named

# Who installs as root runs nothing that lies in the current folder.
mkdir "$work/current"
echo 'open("has-run", "w")' >"$work/current/sysconfig.py"
# shellcheck disable=SC2016
run scripts/container bash -c 'cd "$0" && /src/scripts/install --destdir /tmp/root && /src/scripts/uninstall --destdir /tmp/root' \
    "/src/${work#"$PWD/"}/current"
untouched() { ((status == 0)) && [[ ! -e $work/current/has-run ]]; }
check nothing_in_the_current_folder_runs_when_it_is_installed untouched

# What is installed is removed again, whatever else is there.
# shellcheck disable=SC2016
run scripts/container bash -c 'mkdir -p /tmp/root/usr/share/man/man1 && touch /tmp/root/usr/share/man/man1/other.1 &&
    /src/scripts/install --destdir /tmp/root 2>/dev/null && cd /tmp/root && find . -type f | grep -c . &&
    find . -name "ringwatch-events.1" && find . -name _ringwatch && /src/scripts/uninstall --destdir /tmp/root 2>/dev/null &&
    find . ! -type d'
exactly() {
    ((status == 0)) && [[ $(tail -n 1 "$work/out") == ./usr/share/man/man1/other.1 ]] &&
        (($(wc -l <"$work/out") == 4)) && says man1/ringwatch-events.1 && says zsh/
}
check exactly_what_was_installed_is_removed exactly

# Real-time priority is for the members of a group, and the others' jobs run without it.
# shellcheck disable=SC2016
run scripts/container bash -c 'groupadd staff2 && useradd -m -G staff2 member && useradd -m other &&
    /src/scripts/install --priority staff2 && for user in member other; do
        setpriv --reuid $user --regid $user --init-groups env HOME=/home/$user timeout -k 1 -s KILL 30 \
            mpirun --with-ft ulfm -n 1 sh -c "until ps -C ringwatchd -o pid= >/dev/null; do :; done
                until ps -C ringwatchd -o user=,cls= | grep -E \"member +FF|other +TS\"; do :; done"
    done'
by_group() { ((status == 0)) && says '^member *FF' && says '^other *TS'; }
check only_members_of_the_group_have_real_time_priority by_group

# Nobody has a library of his own loaded into what has that right.
run scripts/container /src/tests/drivers.sh
kept_out() {
    ((status == 0)) && (($(grep -c '^member none$' "$work/out") == 2)) && (($(grep -c '^other /tmp/own$' "$work/out") == 2))
}
check nobody_has_a_library_loaded_into_what_has_the_right kept_out

# Whoever changes the kernel's autogroups puts them back, however it ends.
autogroups=/proc/sys/kernel/sched_autogroup_enabled
come_back() {
    local were until=$((SECONDS + 60))
    were=$(<$autogroups)
    echo 1 >$autogroups
    env -u RINGWATCH_AUTOGROUPS scripts/chaos --jobs 1 >"$work/out" 2>&1 </dev/null &
    local chaos=$! back=1
    while [[ $(<$autogroups) == 1 ]] && ((SECONDS < until)); do sleep 0.1; done
    [[ $(<$autogroups) == 0 ]] && kill -KILL $chaos && back=0
    wait $chaos 2>/dev/null
    status=$?
    left_nothing || back=1
    while [[ $(<$autogroups) == 0 ]] && ((SECONDS < until)); do sleep 0.1; done
    [[ $(<$autogroups) == 1 ]] || back=1
    echo "$were" >$autogroups
    return $back
}
if [[ -w $autogroups ]]; then
    check autogroups_that_were_switched_off_are_on_again_after_a_kill come_back
else
    echo "skipped: autogroups_that_were_switched_off_are_on_again_after_a_kill: only root may switch them"
fi

# Benchmarks give figures, whatever these are.
measured() { ((status == 0)) && says "$1"; }
if [[ ${1:-} == --full ]]; then
    run scripts/bench daemon --seconds 1
    check a_benchmark_of_the_daemon_gives_its_share_and_memory measured 'Goals'
    run scripts/bench faults --fault kill-one-of-two --fault kill-rank --runs 1
    check a_benchmark_of_a_fault_gives_figures_of_both measured 'Goals'
    run scripts/bench transports --transport shared --transport udp-loopback --seconds 1 --survive 2 --silences 3
    check a_benchmark_of_transports_gives_their_costs measured 'one check of a flag'
fi

came_back() { ((status == $1)); }
if [[ $(uname -m) == x86_64 ]]; then
    # shellcheck disable=SC2016
    run scripts/rdma-vm --guests 2 -- bash -c '((RW_GUEST == 1)) || exit 7'
    check the_status_of_a_virtual_machine_comes_back came_back 7
    run scripts/rdma-vm --time 1 -- sleep 60
    check virtual_machines_are_switched_off_when_their_time_is_up came_back 124
    check virtual_machines_leave_nothing left_nothing
else
    echo "skipped: the_status_of_a_virtual_machine_comes_back: the virtual machines are made for x86-64 only"
fi

# Packages come and go; with --full those for rpm, too, and lintian looks at them. These two programs are downloaded.
packed() { ((status == 0)) && says 'packages checked'; }
looked_at() { packed && says 'lintian checked' && says 'rpm checked'; }
if [[ ${1:-} != --full ]]; then
    DEBEMAIL=packages@example.org scripts/package --deb --out "$work/packages" >/dev/null
    run scripts/container /src/tests/packages.sh --deb "/src/${work#"$PWD/"}/packages"
    check a_deb_is_installed_upgraded_and_removed_without_a_trace packed
else
    for revision in 1 2; do DEBEMAIL=packages@example.org scripts/package --revision $revision --out "$work/packages" >/dev/null; done
    run scripts/container --net /src/tests/packages.sh "/src/${work#"$PWD/"}/packages"
    check packages_are_installed_upgraded_and_removed_without_a_trace looked_at
fi

# A root from nothing, where the first try is killed in the midst of it.
made() { ((status == 0)) && says '^13\.' && left_nothing; }
if [[ ${1:-} == --full ]]; then
    elsewhere=(env RINGWATCH_ROOT_ALWAYS=1 XDG_CACHE_HOME="$work/elsewhere")
    "${elsewhere[@]}" scripts/container cat /etc/debian_version >"$work/out" 2>&1 </dev/null &
    container=$!
    until compgen -G "$work/elsewhere/ringwatch/trixie*/usr" >/dev/null || ! kill -0 $container 2>/dev/null; do sleep 0.1; done
    kill -KILL $container
    wait $container 2>/dev/null
    run "${elsewhere[@]}" scripts/container cat /etc/debian_version
    check a_root_is_made_also_after_a_try_that_was_killed made

    if [[ $(uname -m) == x86_64 ]]; then
        run "${alone[@]}" "${elsewhere[@]}" scripts/rdma-vm -- true
        check virtual_machines_without_a_mirror_say_what_to_do refused 'No mirror with Debian 13 answers'
        began=$SECONDS
        run "${elsewhere[@]}" scripts/rdma-vm -- rdma link show rxe0/1
        check a_virtual_machine_with_rdma_is_made_from_nothing says 'state ACTIVE'
        echo "a virtual machine with its kernel from nothing: $((SECONDS - began)) s"
    fi

    run scripts/demo
    check the_whole_demonstration_holds whole
fi

echo "$passed passed, $failed failed"
((failed == 0))
