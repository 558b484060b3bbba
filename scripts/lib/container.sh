#!/bin/bash
# The disposable container in which everything is built, installed and run.
#
# It is made of namespaces only (mount, net, pid, uts, ipc, and user where the
# caller is not root): an overlay of the Debian 13 root whose upper layer is a
# tmpfs. All of it exists as long as the container's first process and goes
# with it, so whatever interrupts a run, nothing is left behind.
#
# Sourced by scripts/container for container_run; run by itself as the
# container's first process (container.sh --inside ...).
set -euo pipefail

rw_lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rw_source=$(cd "$rw_lib/../.." && pwd)
# shellcheck source=scripts/lib/say.sh
. "$rw_lib/say.sh"

# Certificates: a minimal root has none, so the host's bundle is lent to it.
rw_inside_bundle=/etc/ssl/certs/ca-certificates.crt

# Prints the host's certificate bundle, if one is found.
host_bundle() {
    local file
    for file in "${SSL_CERT_FILE:-}" "${CARGO_HTTP_CAINFO:-}" "${CURL_CA_BUNDLE:-}" \
        /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
        /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        if [[ -n $file && -r $file ]]; then
            printf '%s\n' "$file"
            return
        fi
    done
}

# --- outside -----------------------------------------------------------------

# Sets rw_unshare to the options that this caller needs: user namespaces only
# where the real rights are missing.
container_rights() {
    have unshare || give_up "The command unshare is missing: install the package util-linux."
    setpriv --pdeathsig KILL true 2>/dev/null ||
        give_up "The command setpriv is missing or has no --pdeathsig: install the package util-linux, 2.33 or newer."
    env --default-signal=INT true 2>/dev/null ||
        give_up "The command env has no --default-signal: install GNU coreutils, 8.31 or newer."
    if unshare --mount --net --pid --fork true 2>/dev/null; then
        rw_unshare=()
    elif unshare --user --map-root-user --mount --net --pid --fork true 2>/dev/null; then
        rw_unshare=(--user --map-root-user)
    else
        give_up "Neither root rights nor user namespaces are available: run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces=10000)."
    fi
}

# The containers that were started and not waited for yet.
rw_containers=()

# container_run ROOT own|host COMMAND...: runs COMMAND in a container over
# ROOT, with a network of its own or the host's, and returns its status.
container_run() {
    container_start "$@"
    container_wait
}

# container_start ROOT own|host COMMAND...: the same, and does not wait for it.
container_start() {
    local root=$1 network=$2
    shift 2
    # shellcheck disable=SC2154  # rw_cache: root.sh
    local mount_point=$rw_cache/mnt
    local spaces=(--mount --pid --uts --ipc --fork --kill-child)
    [[ $network == own ]] && spaces+=(--net)

    # unshare ignores SIGINT and SIGTERM while it waits, so this shell takes
    # the signals and kills it; --kill-child then ends the container's first
    # process and the kernel all others. --pdeathsig does the same should this
    # shell itself be killed.
    trap 'container_end 129' HUP
    trap 'container_end 130' INT
    trap 'container_end 143' TERM
    # A background job would get /dev/null as input and ignore SIGINT: undo both.
    setpriv --pdeathsig KILL unshare "${rw_unshare[@]}" "${spaces[@]}" \
        env --default-signal=INT --default-signal=QUIT \
        "$BASH" "$rw_lib/container.sh" --inside "$root" "$network" "$mount_point" "$PWD" "$@" \
        <&0 9>&- &
    rw_containers+=($!)
}

# container_wait: waits for all that were started; returns 0 if all have, else the status of the last that has not.
container_wait() {
    local container status=0
    for container in "${rw_containers[@]}"; do
        wait "$container" || status=$?
    done
    rw_containers=()
    trap - HUP INT TERM
    return "$status"
}

# Whether the kernel lets a container be made, before something runs in one whose output nobody sees.
container_trial() {
    local status=0
    container_run "$rw_root" own true || status=$?
    # It has said why.
    ((status != 2)) || exit 2
    ((status == 0)) ||
        give_up "The kernel refuses a container (see above): run as root, or outside of another container."
}

container_end() {
    trap '' HUP INT TERM
    kill -KILL "${rw_containers[@]}" 2>/dev/null || true
    wait "${rw_containers[@]}" 2>/dev/null || true
    exit "$1"
}

# --- inside ------------------------------------------------------------------

# mount_all ROOT NETWORK DIR: builds the container's file system below DIR.
mount_all() {
    local root=$1 network=$2 dir=$3 options=
    mount -t tmpfs -o mode=755 ringwatch "$dir"
    mkdir "$dir/upper" "$dir/work" "$dir/root"
    # trusted.* attributes belong to real root; in a user namespace overlay
    # must keep its marks in user.* ones.
    [[ $(cat /proc/self/uid_map) =~ ^\ *0\ +0\ +4294967295 ]] || options=,userxattr
    cd "$dir"
    # Names relative to the current folder, so that no comma or colon of a
    # user's path can end up in the options.
    local lower=/
    if [[ $root != / ]]; then
        mkdir lower
        mount --rbind "$root" lower
        lower=lower
    fi
    mount -t overlay -o "lowerdir=$lower,upperdir=upper,workdir=work$options" overlay root 2>/dev/null ||
        give_up "The kernel refuses an overlay file system: load it with 'modprobe overlay' as root (without root rights Linux 5.11 or newer is needed)."
    root=$dir/root
    cd "$root"

    mkdir -p proc sys dev tmp run root src opt/rust opt/cargo usr/local/bin
    mount -t proc proc proc ||
        give_up "The kernel refuses a /proc of its own to the container: run as root, or outside of another container."
    mount_sys "$network" sys
    mount_dev dev
    mount -t tmpfs -o mode=1777 tmp tmp
    mount -t tmpfs -o mode=755 run run
    mkdir -p run/lock run/netns
    mount --rbind "$rw_source" src
    mount_rust
    mount_kernel

    rm -f etc/hosts etc/resolv.conf etc/hostname
    printf '127.0.0.1 localhost\n127.0.1.1 ringwatch\n' >etc/hosts
    echo ringwatch >etc/hostname
    chroot . hostname ringwatch
    if [[ $network == host ]]; then
        [[ ! -e /etc/resolv.conf ]] || cat /etc/resolv.conf >etc/resolv.conf
    else
        chroot . ip link set lo up
    fi
    local bundle
    bundle=$(host_bundle)
    if [[ -n $bundle ]]; then
        mkdir -p "$root${rw_inside_bundle%/*}"
        cat "$bundle" >"$root$rw_inside_bundle"
    fi
    # The commands of the virtual hosts, where every shell finds them.
    ln -sf /src/scripts/lib/hosts.sh usr/local/bin/rw-hosts
    ln -sf /src/scripts/lib/rw-on usr/local/bin/rw-on
    ln -sf /src/scripts/lib/guests.sh usr/local/bin/rw-guests
}

# sysfs shows the network of the process that mounts it, and only the owner of
# a network may mount it; elsewhere the host's has to do.
mount_sys() {
    { [[ $1 == own ]] && mount -t sysfs sysfs "$2" 2>/dev/null; } ||
        mount --rbind /sys "$2"
}

# A /dev with what programs expect and no disk. Nodes are bound, not made: a
# user namespace may not make any.
mount_dev() {
    local node
    mount -t tmpfs -o mode=755 dev "$1"
    for node in null zero full random urandom tty; do
        : >"$1/$node"
        mount --bind "/dev/$node" "$1/$node"
    done
    # For the long links of `bench scopes --delay` only.
    if [[ -e /dev/net/tun ]]; then
        mkdir "$1/net"
        : >"$1/net/tun"
        mount --bind /dev/net/tun "$1/net/tun"
    fi
    mkdir "$1/pts" "$1/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$1/pts"
    mount -t tmpfs -o mode=1777 shm "$1/shm"
    ln -s pts/ptmx "$1/ptmx"
    ln -s /proc/self/fd "$1/fd"
    ln -s /proc/self/fd/0 "$1/stdin"
    ln -s /proc/self/fd/1 "$1/stdout"
    ln -s /proc/self/fd/2 "$1/stderr"
}

# The host's compiler, if root.sh found a usable one, and the folder in which
# cargo keeps what it downloaded.
mount_rust() {
    if [[ -n ${RINGWATCH_RUST:-} ]]; then
        mount --rbind "$RINGWATCH_RUST" opt/rust
        mount -o remount,bind,ro opt/rust
    fi
    [[ -z ${RINGWATCH_CARGO_HOME:-} ]] || mount --rbind "$RINGWATCH_CARGO_HOME" opt/cargo
}

# The kernel of the virtual machines with RDMA, if kernel.sh made one.
mount_kernel() {
    [[ -n ${RINGWATCH_KERNEL:-} ]] || return 0
    mkdir -p opt/kernel
    mount --bind "$RINGWATCH_KERNEL" opt/kernel
}

# environment NETWORK: prints the environment of the container's commands, one NUL-ended setting each.
environment() {
    local name
    printf '%s\0' HOME=/root USER=root SHELL=/bin/bash LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        RINGWATCH_CONTAINER=1 RINGWATCH_NETWORK="$1" CARGO_HOME=/opt/cargo CARGO_TARGET_DIR=/src/target/trixie \
        RUSTC_WRAPPER= RUSTFLAGS= OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        OMPI_MCA_mpi_yield_when_idle=1
    # Settings of the caller that reach the network or the build.
    for name in $(compgen -e); do
        case $name in
        CARGO_HTTP_CAINFO) ;;
        *_proxy | *_PROXY | CARGO_HTTP_* | CARGO_NET_* | CARGO_REGISTR* | CARGO_SOURCE_* | CARGO_TERM_* | \
            CARGO_PROFILE_* | CARGO_INCREMENTAL | CARGO_BUILD_JOBS | RUSTFLAGS | RUST_* | SOURCE_DATE_EPOCH | RW_*)
            printf '%s=%s\0' "$name" "${!name}" ;;
        esac
    done
    [[ -z $(host_bundle) ]] || printf '%s\0' SSL_CERT_FILE=$rw_inside_bundle CARGO_HTTP_CAINFO=$rw_inside_bundle
}

inside() {
    local root=$1 network=$2 dir=$3 from=$4 settings
    shift 4
    mapfile -d '' -t settings < <(environment "$network")
    mount_all "$root" "$network" "$dir"
    # Commands start where the caller stands in the source tree, else at its top.
    case $from/ in
    "$rw_source"/*) from=/src${from#"$rw_source"} ;;
    *) from=/src ;;
    esac
    # The shell stays as process 1: it reaps orphans, and the command gets the
    # default treatment of signals, which process 1 does not have.
    # shellcheck disable=SC2016
    exec chroot "$dir/root" env -i "${settings[@]}" \
        /bin/bash -c 'cd "$1" && shift && "$@"; exit $?' container "$from" "$@"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    [[ ${1:-} == --inside ]] || { say "This file is a part of scripts/container."; exit 2; }
    shift
    inside "$@"
fi
