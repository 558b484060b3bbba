#!/bin/bash
# Open MPI across two virtual machines with ringwatch on: one of them is
# switched off, and the ranks of the other go on. scripts/test --full runs it,
# in a container where ringwatch is built.
#   guests-mpi.sh            makes the machines and judges
#   guests-mpi.sh guest      what runs in each of them
#   guests-mpi.sh HOST COMMAND...    the launch agent of mpirun: what ssh is on
#                            a real cluster; guest 2 has a shell at its port
set -euo pipefail

port=7022
traces=/run/guests/diaries
ranks=4

# What a real node would have got from its administrator.
prepare() {
    /src/scripts/install --from "$CARGO_TARGET_DIR/release"
    mpicc -std=gnu11 -O2 -o /usr/local/bin/survivor /src/tests/programs/survivor.c -lpthread
    printf '10.78.0.%d g%d\n' 1 1 2 2 >>/etc/hosts
}

fail() {
    echo "guests-mpi: $*"
    tail -n 40 "$traces"/rank.* /run/guests/mpirun 2>/dev/null || true
    # The other guest need not wait any more.
    touch /run/guests/switch-off
    exit 1
}

# until_true SECONDS WHAT COMMAND...: waits for what is bound to happen.
until_true() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ((SECONDS < deadline)) || fail "$what: not in time"
        [[ -z ${mpirun:-} ]] || kill -0 $mpirun 2>/dev/null || fail "mpirun ended before $what"
        sleep 0.2
    done
}

# all EVENT: whether every rank has come to it.
all() { (($(cat "$traces"/rank.* 2>/dev/null | grep -c " $1") >= ranks)); }

# The job, on guest 1. An emulated machine takes its time.
first() {
    local status=0 agent
    agent=$(readlink -f "$0")
    mkdir -p "$traces"
    export PRTE_MCA_prte_if_include=10.78.0.0/24 OMPI_MCA_btl_tcp_if_include=10.78.0.0/24
    timeout -k 1 -s KILL 300 mpirun --prtemca plm_ssh_agent "$agent" --with-ft ulfm --bind-to none \
        --pmixmca psensor_ringwatch_period 200ms --pmixmca psensor_ringwatch_timeout 5s \
        --pmixmca psensor_ringwatch_log "/run/guests/ringwatchd.%h" --pmixmca psensor_ringwatch_log_level info \
        -H g1:2,g2:2 -n $ranks survivor --events "$traces" --op ring --victims 2,3 >/run/guests/mpirun 2>&1 &
    mpirun=$!
    until_true 150 "every rank is at work" all blocked
    touch /run/guests/switch-off
    wait $mpirun || status=$?
    ((status == 0)) || fail "mpirun returned $status instead of 0"
    for rank in 0 1; do
        grep -q "^survivor $rank is done, 2 are left" /run/guests/mpirun || fail "rank $rank did not go on"
        grep -q "^survivor $rank has finalized" /run/guests/mpirun || fail "rank $rank did not finalize"
    done
    ! grep corrupt "$traces"/rank.* || fail "a collective lied"
    grep -h 'are flags from now on.*means="verbs"' /run/guests/ringwatchd.g1 || fail "heartbeats were no RDMA writes"
    grep -hE ' (error|shrunk|carries-on) ' "$traces"/rank.[01]
    echo "guest 2 was switched off, both ranks of guest 1 went on, mpirun returned 0"
}

# The machine that dies. What it would return it has to say before.
second() {
    busybox nc -ll -p $port -e /bin/bash &
    until_true 250 "every rank is at work" test -e /run/guests/switch-off
    echo 0 >/run/guests/status.2
    echo b >/proc/sysrq-trigger
    sleep 600
}

# launch HOST COMMAND...: the connection stays open as long as the command runs.
launch() {
    local host=$1
    shift
    until_true 60 "$host answers" busybox nc -w 1 "$host" $port -e /bin/true
    printf 'exec </dev/null; %s\n' "$*" | exec busybox nc "$host" $port
}

case ${1:-} in
'')
    prepare
    exec rw-guests --guests 2 --time 400 -- "$(readlink -f "$0")" guest
    ;;
guest) if [[ $RW_GUEST == 1 ]]; then first; else second; fi ;;
*) launch "$@" ;;
esac
