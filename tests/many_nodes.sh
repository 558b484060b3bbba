#!/bin/bash
# tests/many_nodes.sh: of more nodes than PRRTE connects with mpirun by itself, one with others behind it loses its prted;
# all others go on. Called by scripts/test --full, in a container of its own, with a build at hand.
# Exit status: 0 passed, 1 not.
set -euo pipefail
nodes=140 victim=h2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "test a_lost_daemon_of_many_takes_no_other_along ... FAILED: $1"
    sed 's/^/    /' "$work/out" "$work/err"
    exit 1
}

# wrote COUNT LINE: the diaries of so many ranks have this line; waits for it as long as mpirun runs.
wrote() {
    until (($(cat "$work"/diaries/rank.* 2>/dev/null | cut -d ' ' -f 1,3- | sort -u | grep -c " $2\$") >= $1)); do
        kill -0 $job 2>/dev/null || fail "mpirun ended before $1 ranks wrote '$2'"
        sleep 0.2
    done
}

/src/scripts/install --from /src/target/trixie/release >/dev/null
rw-hosts up $nodes
mpicc -std=gnu11 -O2 -o "$work/survivor" /src/tests/programs/survivor.c -lpthread
mkdir "$work/diaries"
timeout -k 1 -s KILL 300 rw-on h1 mpirun --prtemca plm_ssh_agent /usr/local/bin/rw-ssh --with-ft ulfm --bind-to none \
    -H "$(seq -s , -f h%g 1 $nodes)" -n $nodes "$work/survivor" --events "$work/diaries" --op allreduce --hold \
    >"$work/out" 2>"$work/err" </dev/null &
job=$!
wrote $nodes 'blocked allreduce'
for process in $(rw-hosts pids $victim); do
    [[ $(cat "/proc/$process/comm" 2>/dev/null) != ringwatchd ]] || runtime=$(awk '$1 == "PPid:" { print $2 }' "/proc/$process/status")
done
kill -KILL "${runtime:?there is a ringwatchd on the host}"
left=$((nodes - 1))
wrote $left "carries-on $left"
touch "$work/diaries/end"
wait $job || fail "mpirun's status is $?"
(($(grep -c " is done, $left are left\$" "$work/out") == left)) || fail "not all of $left survivors came to their end"
echo "test a_lost_daemon_of_many_takes_no_other_along ... ok"
