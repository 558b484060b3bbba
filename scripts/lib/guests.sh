#!/bin/bash
# Virtual machines with RDMA inside the container; see scripts/rdma-vm, which
# makes the container for them.
set -euo pipefail

usage() { echo "usage: rw-guests [--guests 1|2] [--time SECONDS] -- COMMAND..." >&2; exit 2; }

guests=1 limit=120
while (($# > 0)); do
    case $1 in
    --guests) [[ ${2:-} == [12] ]] || usage; guests=$2; shift ;;
    --time) [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage; limit=$2; shift ;;
    --) shift; break ;;
    *) usage ;;
    esac
    shift
done
(($# > 0)) || usage
[[ -n ${RINGWATCH_CONTAINER:-} && -e /opt/kernel/kernel ]] ||
    { echo "rw-guests: run this by scripts/rdma-vm or scripts/test" >&2; exit 2; }

# What the guests share with each other and with this script.
shared=$(mktemp -d /tmp/guests.XXXXXX)
machines=() printers=()
switch_off() {
    ((${#machines[@]} == 0)) || kill -TERM "${machines[@]}" 2>/dev/null || true
    rm -rf "$shared"
}
trap switch_off EXIT
trap 'exit 143' HUP INT TERM

{
    export -p
    printf 'export RW_GUEST=$1 RW_GUESTS=$2\ncd %q\n' "$PWD"
    printf '%q ' "$@"
    echo
} >"$shared/script"
echo 'exec /bin/bash /run/guests/script "$RW_GUEST" "$RW_GUESTS"' >"$shared/command"

# Prints the options of guest N. The link is a pair of datagram sockets in the
# file system: nothing of it is seen by any network. TCG, whatever the machine
# could do: a KVM inside of another virtual machine may be a broken one.
options() {
    local peer=$((3 - $1))
    printf '%s\n' -accel tcg,thread=multi -M q35 -cpu max -smp 1 -m 512 \
        -nodefaults -no-user-config -display none -no-reboot -serial stdio \
        -kernel /opt/kernel/kernel -initrd /opt/kernel/initrd \
        -append "console=ttyS0 loglevel=3 panic=-1 mitigations=off no_timer_check cryptomgr.notests net.ifnames=0 RW_GUEST=$1 RW_GUESTS=$guests" \
        -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
        -virtfs "local,path=$shared,mount_tag=guests,security_model=none" \
        -netdev "dgram,id=link,local.type=unix,local.path=$shared/link$1,remote.type=unix,remote.path=$shared/link$peer" \
        -device "virtio-net-pci,netdev=link,mac=52:54:00:00:00:0$1,romfile="
}

# stoppable N PID: guest N stands still while there is the file stop.N. Who makes the file removes it: a file that is removed
# here may be gone before the guest that makes it has it open.
stoppable() {
    while kill -0 "$2" 2>/dev/null; do
        if [[ -e $shared/stop.$1 ]]; then
            kill -STOP "$2"
            while [[ -e $shared/stop.$1 ]]; do sleep 0.1; done
            kill -CONT "$2"
        fi
        sleep 0.1
    done
}

# Runs guest N, and again if it left the file restart.N when it went down.
machine() {
    local number=$1 running=
    shift
    trap 'kill -KILL $running 2>/dev/null; exit 143' TERM
    while :; do
        rm -f "$shared/restart.$number"
        qemu-system-x86_64 "$@" </dev/null &
        running=$!
        stoppable "$number" "$running" &
        wait "$running" || true
        [[ -e $shared/restart.$number ]] || return 0
    done
}

for ((guest = 1; guest <= guests; guest++)); do
    mapfile -t arguments < <(options "$guest")
    prefix=
    ((guests == 1)) || prefix="[guest $guest] "
    exec {output}> >(exec sed -u "/reboot: Power down/d; s/\r*\$//; s/^/$prefix/")
    printers+=($!)
    machine "$guest" "${arguments[@]}" >&"$output" 2>&1 &
    machines+=($!)
    exec {output}>&-
done

for ((waited = 0; waited < limit * 10; waited++)); do
    jobs -r | grep -q . || break
    sleep 0.1
done
status=0
if jobs -r | grep -q .; then
    echo "rw-guests: not finished within $limit s; the machines are switched off" >&2
    kill -TERM "${machines[@]}" 2>/dev/null || true
    wait "${machines[@]}" 2>/dev/null || true
    status=124
fi
wait "${printers[@]}" || true
for ((guest = 1; guest <= guests && status == 0; guest++)); do
    status=$(cat "$shared/status.$guest" 2>/dev/null || echo 125)
done
exit "$status"
