#!/bin/bash
# Virtual hosts inside the container: h1, h2, ... are network namespaces
# joined by one bridge, 10.77.0.0/24.
#
#   hosts.sh up N        make h1..hN            hosts.sh down        remove them
#   hosts.sh list        their names            hosts.sh pids HOST   its processes
#   hosts.sh kill HOST   SIGKILL to everything that runs on HOST (a node dies)
#   hosts.sh cut HOST    take its link away     hosts.sh heal HOST   give it back
set -euo pipefail

bridge=rw0
# So many hosts may learn each other's addresses by themselves.
FEW=24
here=$(dirname "$(readlink -f "$0")")

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }

make_link() {
    ip link add "$@" || {
        echo "hosts.sh: the kernel cannot make this link: as root, on the host itself, run 'modprobe -a bridge veth'." >&2
        exit 2
    }
}

up() {
    local count=$1 i
    [[ $count =~ ^[0-9]+$ ]] && ((count >= 1 && count <= 200)) || usage
    # Not by its interfaces: some kernels put tunnels of theirs (sit0, tunl0) into every new network.
    if [[ ${RINGWATCH_NETWORK:-} != own || -e /sys/class/net/$bridge ]]; then
        echo "hosts.sh: this container shares a network (--net) or has its hosts already; run rw-hosts up once, in one without --net." >&2
        exit 2
    fi
    make_link $bridge type bridge
    ip address add 10.77.0.254/24 dev $bridge
    ip link set $bridge up
    for ((i = 1; i <= count; i++)); do
        ip netns add "h$i"
        make_link "v$i" type veth peer name eth0 netns "h$i"
        ip link set "v$i" master $bridge up
        # No neighbour discovery delays: the addresses never change.
        ip -n "h$i" address add "10.77.0.$i/24" dev eth0
        ip -n "h$i" link set eth0 up
        ip -n "h$i" link set lo up
        grep -q " h$i\$" /etc/hosts || echo "10.77.0.$i h$i" >>/etc/hosts
    done
    ((count <= FEW)) || give_addresses "$count"
    # A copy at a fixed place: mpirun takes the launch agent as one word.
    ln -sf "$here/rw-ssh" /usr/local/bin/rw-ssh
    ln -sf "$here/rw-on" /usr/local/bin/rw-on
}

# Has all hosts know the others: the kernel asks for, and keeps, no more than a
# thousand addresses for all of them together (neigh/default/gc_thresh3).
give_addresses() {
    local i j addresses=()
    for ((i = 1; i <= $1; i++)); do addresses[i]=$(ip -n "h$i" -brief link show eth0 | awk '{ print $3 }'); done
    for ((i = 1; i <= $1; i++)); do
        for ((j = 1; j <= $1; j++)); do
            ((i == j)) || echo "neighbour replace 10.77.0.$j lladdr ${addresses[j]} dev eth0 nud permanent"
        done | ip -n "h$i" -batch -
    done
}

hosts() { ip netns list | awk '{print $1}' | sort -V; }

down() {
    local host
    for host in $(hosts); do
        kill_host "$host"
        ip netns delete "$host"
    done
    ip link delete $bridge
    sed -i '/^10\.77\.0\./d' /etc/hosts
}

# A node dies at once: all are stopped before the first is killed, and nobody
# gets a processor between two of them, where that is allowed; the kernel lets
# a stopped ringwatchd go on when its prted is dead, and it would tell the
# other nodes. Again until nothing is left: a process may fork meanwhile.
kill_host() {
    local pids first=()
    chrt --fifo 99 true 2>/dev/null && first=(chrt --fifo 99)
    while pids=$(ip netns pids "$1") && [[ -n $pids ]]; do
        # shellcheck disable=SC2016,SC2086
        "${first[@]}" bash -c 'kill -STOP "$@"; kill -KILL "$@"; true' - $pids 2>/dev/null
    done
}

# Without what any host has asked in vain about the others' addresses: it would
# drop what it sends next ("No route to host").
heal_host() {
    local host
    ip link set "v${1#h}" up
    for host in $(hosts); do ip -n "$host" neighbour flush all; done
}

known() { [[ -n ${1:-} && -e /run/netns/$1 ]] || { echo "hosts.sh: there is no virtual host ${1:-}" >&2; exit 2; }; }

[[ -n ${RINGWATCH_CONTAINER:-} ]] || { echo "hosts.sh: run this inside scripts/container" >&2; exit 2; }
case ${1:-} in
up) up "${2:-4}" ;;
down) down ;;
list) hosts ;;
pids) known "${2:-}"; ip netns pids "$2" ;;
kill) known "${2:-}"; kill_host "$2" ;;
cut) known "${2:-}"; ip link set "v${2#h}" down ;;
heal) known "${2:-}"; heal_host "$2" ;;
*) usage ;;
esac
