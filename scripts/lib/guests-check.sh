#!/bin/bash
# What scripts/rdma-vm --check runs in two guests: each raises flags in the
# other's memory by RDMA writes, in turn, and sees those of the other by plain
# loads. That is what the program ib_write_lat does.
set -euo pipefail

flags=100 log=/tmp/check port=18515
check=(ib_write_lat -d rxe0 -s 8 -n "$flags" -p "$port")
status=0
if [[ $RW_GUEST == 1 ]]; then
    "${check[@]}" >"$log" 2>&1 &
    until [[ -n $(ss -Hltn "sport = $port") ]] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
    : >/run/guests/listens
    wait $! || status=$?
else
    until [[ -e /run/guests/listens ]]; do sleep 0.1; done
    "${check[@]}" 10.78.0.1 >"$log" 2>&1 || status=$?
fi
if ((status)); then
    cat "$log" >&2
    echo "The RDMA writes failed (status $status, see above)." >&2
    exit "$status"
fi
echo "passed: $flags flags raised by RDMA writes, $flags seen by plain loads"
