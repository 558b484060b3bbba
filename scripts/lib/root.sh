# shellcheck shell=bash
# Chooses or makes the Debian 13 root that is the container's lower layer, and
# the Rust toolchain that builds in it. Sourced; root_prepare is the entry and
# sets rw_root. Needs container.sh sourced before, and its container_rights run.
# shellcheck disable=SC2154

# Where system tools are, also for those whose PATH leaves it out.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

rw_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringwatch
rw_arch_lib=/usr/lib/$(uname -m)-linux-gnu

# What a root must hold. Raise the number when the list changes: roots made
# by an older recipe are then made anew.
rw_recipe=8
rw_packages=(openmpi-bin libopenmpi-dev libpmix-dev libpmix-bin gcc g++ libc6-dev make
    procps iproute2 python3-mpi4py gdb cargo libclang1-19
    libibverbs-dev ibverbs-providers qemu-system-x86 busybox-static perftest hpcc lammps
    slurmctld slurmd slurm-client)
rw_needed_kib=$((3400 * 1024))
# What a release build of the source takes.
rw_built_kib=$((1500 * 1024))
# What the builds of scripts/test take, and the space for its test of swapping jobs.
rw_tested_kib=$((6000 * 1024))

root_prepare() {
    rust_choose
    mkdir -p "$rw_cache/mnt" 2>/dev/null && [[ -w $rw_cache ]] ||
        give_up "The folder $rw_cache cannot be written: set XDG_CACHE_HOME to one that can."
    # Held until this shell ends: shared while a container uses the root,
    # exclusive while it is made. Descriptor 9 is closed for the container.
    exec 9>>"$rw_cache/lock"
    if system_is_root; then
        rw_root=/
        return
    fi
    rw_root=$rw_cache/trixie
    have flock || give_up "The command flock is missing: install the package util-linux."
    flock -s 9
    if ! root_is_complete; then
        flock -n -x 9 || { say "Waiting for another run that uses or makes the Debian 13 root."; flock -x 9; }
        root_is_complete || root_make
        flock -s 9
    fi
}

# The system itself serves if its own packages are Open MPI 5 and nothing else
# is missing; installing packages on it is not this script's business.
system_is_root() {
    [[ -z ${RINGWATCH_ROOT_ALWAYS:-} ]] &&
        [[ $(/usr/bin/ompi_info --version 2>/dev/null) == *' v5.'* ]] &&
        [[ -x /usr/bin/mpicc && -x /usr/bin/gcc && -x /usr/bin/g++ && -x /usr/bin/make && -x /usr/bin/gdb && -x /usr/bin/pmix_info ]] &&
        [[ -x /usr/bin/qemu-system-x86_64 && -x /usr/bin/busybox && -e /usr/include/infiniband/verbs.h ]] &&
        [[ -x /usr/bin/python3 && -d /usr/lib/python3/dist-packages/mpi4py ]] &&
        [[ -d $rw_arch_lib/pmix2/include/pmix && -d $rw_arch_lib/openmpi/include/openmpi ]] &&
        [[ -e $rw_arch_lib/libclang-19.so.1 ]] && have ip && ! mountpoint -q /usr && [[ -x /usr/bin/cargo ]] && new_enough /usr/bin/rustc
}

# space_for_build KIB: whether the clone takes a build that is that large in the end.
space_for_build() {
    local folder built=0
    for folder in "$rw_source" "$rw_source/target" "$rw_source/target/trixie"; do
        [[ ! -e $folder || -w $folder ]] ||
            give_up "The folder $folder cannot be written, it belongs to $(stat -c %U "$folder"): give it to $(id -un), or clone anew."
    done
    [[ ! -d $rw_source/target/trixie ]] || built=$(du -sk "$rw_source/target/trixie" 2>/dev/null | cut -f 1)
    ((built >= $1)) || enough_space "$rw_source" $(($1 - built)) "move the clone to a folder elsewhere"
}

# enough_space FOLDER KIB REMEDY
enough_space() {
    local free
    free=$(df -Pk "$1" | awk 'NR == 2 {print $4}')
    ((free >= $2)) ||
        give_up "The file system of $1 has $((free / 1024)) MiB free, $(($2 / 1024)) MiB are needed: free some, or $3."
}

root_is_complete() {
    local recipe=''
    [[ -r $rw_root/etc/ringwatch-root ]] || return
    # shellcheck disable=SC1091
    . "$rw_root/etc/ringwatch-root"
    [[ $recipe == "$rw_recipe" ]]
}

# --- Rust --------------------------------------------------------------------

# The workspace's rust-version, which is also what Debian 13 has.
new_enough() {
    local version
    version=$("$1" --version 2>/dev/null | awk '{print $2}') && [[ -n $version ]] &&
        [[ $(printf '%s\n' 1.85 "$version" | sort -V | head -n 1) == 1.85 ]]
}

# A toolchain that lives in one folder (rustup's do) is lent to the container;
# one in /usr is not, for it needs the system's own libraries. Without one the
# root's own, Debian's, is used.
rust_choose() {
    local rustc sysroot
    export RINGWATCH_RUST='' RINGWATCH_CARGO_HOME=$rw_cache/cargo
    for rustc in "$(command -v rustc || true)" "${CARGO_HOME:-${HOME:-}/.cargo}/bin/rustc"; do
        [[ -x $rustc ]] || continue
        sysroot=$(cd "$rw_source" && "$rustc" --print sysroot 2>/dev/null) || continue
        if [[ $sysroot != /usr && -x $sysroot/bin/cargo ]] && new_enough "$sysroot/bin/rustc" &&
            [[ $("$sysroot/bin/rustc" -vV) == *host:*-linux-gnu* ]]; then
            RINGWATCH_RUST=$sysroot
            break
        fi
    done
    # Share what cargo already downloaded, if it is ours to share.
    local home=${CARGO_HOME:-${HOME:-}/.cargo}
    [[ ! -d $home || ! -w $home ]] || RINGWATCH_CARGO_HOME=$home
    mkdir -p "$RINGWATCH_CARGO_HOME" 2>/dev/null || true
}

# --- making a root -----------------------------------------------------------

root_make() {
    local new=$rw_cache/trixie.new log=$rw_cache/log mirror
    : >"$log"
    # What an interrupted run left behind.
    chmod -R u+rwX "$new" 2>/dev/null || true
    rm -rf --one-file-system "$new" "$rw_cache/trixie.old"
    enough_space "$rw_cache" "$rw_needed_kib" "set XDG_CACHE_HOME to a folder elsewhere"
    export_proxies
    find_mirror "$log"
    say "Making a Debian 13 root with Open MPI 5 in $rw_cache (once, 1.8 GB)"

    # shellcheck source=scripts/lib/root-make.sh
    . "$rw_lib/root-make.sh"
    if have apt-get && have dpkg && have dpkg-deb; then
        make_by_apt "$new" "$mirror" "$log" "${rw_packages[@]}"
    elif ((${#rw_unshare[@]})); then
        give_up "There is no apt and dpkg here, without root rights they are needed to make the root: run as root, or install them."
    elif ! have debootstrap; then
        give_up "debootstrap is missing: install it with your system's package manager."
    else
        make_by_debootstrap "$new" "$mirror" "$log" "${rw_packages[@]}"
    fi
    # Links into /etc/alternatives: they lead somewhere only from inside.
    [[ -L $new/etc/alternatives/mpirun && -L $new/usr/bin/mpicc && -e $new/usr/bin/opal_wrapper ]] ||
        give_up "The Debian 13 root came out without Open MPI: see $log, and run this again."
    printf 'recipe=%s\n' "$rw_recipe" >"$new/etc/ringwatch-root"
    # A root is complete when it has its name.
    [[ ! -e $rw_root ]] || mv "$rw_root" "$rw_cache/trixie.old"
    mv "$new" "$rw_root"
    rm -rf --one-file-system "$rw_cache/trixie.old"
}

# apt may know a proxy that the environment does not name.
export_proxies() {
    local scheme proxy
    have apt-config || return 0
    for scheme in http https; do
        proxy=
        eval "$(apt-config shell proxy "Acquire::$scheme::Proxy")"
        if [[ -n $proxy && $proxy != DIRECT && -z $(printenv "${scheme}_proxy") ]]; then
            export "${scheme}_proxy=$proxy"
        fi
    done
}

# download URL FILE, with whatever the system has.
download() {
    if have curl; then
        curl -fsSL --connect-timeout 10 -m 60 -o "$2" "$1"
    elif have wget; then
        wget -q -T 10 -t 1 -O "$2" "$1"
    else
        /usr/lib/apt/apt-helper -o Acquire::http::Timeout=10 -o Acquire::Retries=0 download-file "$1" "$2"
    fi
}

# Sets mirror to the first of apt's own mirrors that carries Debian 13, else
# Debian's own.
find_mirror() {
    local uri tried=() release=$rw_cache/Release
    have curl || have wget || [[ -x /usr/lib/apt/apt-helper ]] ||
        give_up "None of curl, wget and apt is there to download with: install curl."
    while read -r uri; do
        [[ $uri =~ ^https?:// ]] || continue
        tried+=("$uri")
        rm -f "$release"
        if download "${uri%/}/dists/trixie/Release" "$release" >>"$1" 2>&1 &&
            grep -q '^Origin: Debian$' "$release" && grep -q '^Label: Debian$' "$release"; then
            mirror=${uri%/}
            rm -f "$release"
            return
        fi
    done < <(
        printf '%s\n' "${RINGWATCH_MIRROR:-}"
        # apt reads both formats of its sources; it need not be root for that.
        # shellcheck disable=SC2016
        ! have apt-get || apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | sort -u
        echo http://deb.debian.org/debian
    )
    rm -f "$release"
    give_up "No mirror with Debian 13 answers (tried ${tried[*]}): check the network and the proxy, or set RINGWATCH_MIRROR to a mirror's address."
}
