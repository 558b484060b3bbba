# shellcheck shell=bash
# The two ways of making a Debian 13 root. Sourced by root.sh when one is
# needed. Both take: DIR MIRROR LOG PACKAGE...
# shellcheck disable=SC2154

# isolated FUNCTION ARGUMENT...: in a shell with mounts and processes of its
# own, so that neither outlives an interruption, and that stops at the first
# error (which a function called in a condition would not). Takes the place of
# the subshell that stage makes, so that it dies with the script itself.
isolated() {
    # shellcheck disable=SC2163
    export -f "$1"
    # shellcheck disable=SC2016
    exec setpriv --pdeathsig KILL unshare "${rw_unshare[@]}" --mount --pid --fork --kill-child --mount-proc \
        "$BASH" -c 'set -euo pipefail; "$@"' isolated "$@"
}

# --- by apt: the packages' files, and the few maintainer scripts that matter ---

# No dpkg installs them: it insists on giving files to other owners, of which a
# user namespace with a single user id has none, and it unpacks one package
# after the other. So apt resolves and downloads with a state of its own, and
# the packages are unpacked as what they are: archives.
make_by_apt() {
    local dir=$1 mirror=$2 log=$3
    shift 3
    mkdir "$dir"
    export -f fetch_headers apt_of_its_own
    stage "packages from $mirror" "$log" isolated fetch_packages "$dir" "$mirror" "$@" ||
        give_up "Downloading packages failed (the reason is at the end of $log): check network and disk, and run this again."
    export -f unpack_package
    stage "unpacking them" "$log" isolated unpack_packages "$dir" ||
        give_up "Unpacking packages failed (the reason is at the end of $log): check the disk, and run this again."
    stage "setting them up" "$log" isolated set_up_packages "$dir" ||
        give_up "Setting up the new root failed (the reason is at the end of $log): run this again."
    rm -rf "$dir/apt"
}

fetch_packages() {
    local dir=$1 mirror=$2 apt=$1/apt
    shift 2
    apt_of_its_own "$apt" "$mirror"
    apt-get install -y --no-install-recommends --download-only '?priority(required)' "$@"
    sed 's/^deb /deb-src /' "$apt/etc/apt/sources.list" >>"$apt/etc/apt/sources.list.d/sources.list"
    fetch_headers "$dir" || echo "$mirror has no source of Open MPI: the layout test of openmpi-internals will say so"
}

# apt_of_its_own DIR MIRROR: an apt whose state is below DIR, and which knows of no package that is installed.
apt_of_its_own() {
    local apt=$1 mirror=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$apt"/etc/apt/{apt.conf.d,preferences.d,trusted.gpg.d,sources.list.d} \
        "$apt"/var/lib/{apt/lists/partial,dpkg} "$apt"/var/cache/apt/archives/partial
    : >"$apt/var/lib/dpkg/status"
    if [[ ! -e $keyring ]]; then
        # A derivative: its own mirror still carries Debian's keys.
        (cd "$apt" && apt-get download debian-archive-keyring && dpkg-deb -x debian-archive-keyring_*.deb keyring)
        keyring=$apt/keyring$keyring
    fi
    echo "deb [signed-by=$keyring] $mirror trixie main" >"$apt/etc/apt/sources.list"
    # Read before any other configuration, so the system's own (which may
    # delete archives, for instance) is never seen.
    cat >"$apt/apt.conf" <<END
Dir "$apt";
Dir::State::status "$apt/var/lib/dpkg/status";
APT::Architecture "$(dpkg --print-architecture)";
APT::Architectures { "$(dpkg --print-architecture)"; };
APT::Sandbox::User "root";
END
    export APT_CONFIG=$apt/apt.conf LC_ALL=C
    apt-get update
}

# fetch_headers DIR: below DIR/usr/src what Open MPI's development package
# leaves out and the layout test of openmpi-internals compiles. The folder in
# the archive, which apt has checked, bears the release.
fetch_headers() {
    local source=$1/usr/src/archive
    mkdir -p "$source" && apt-get update &&
        (cd "$source" && apt-get source --download-only openmpi) &&
        tar -xf "$source"/openmpi_*.orig.tar.* -C "$1/usr/src" --no-same-owner --wildcards --exclude='*/3rd-party/*' \
            '*/ompi/*.h' '*/opal/*.h' '*/ompi/mca/coll/ftagree/*.c' '*/ompi/communicator/comm_request.c' &&
        rm -rf "$source"
}

unpack_packages() {
    local dir=$1 archives=$1/apt/var/cache/apt/archives
    mkdir -p "$dir/var/lib/dpkg/info" "$archives/fields"
    # base-files first: it makes /bin, /lib and /sbin the links that they are.
    unpack_package "$dir" "$archives"/base-files_*.deb
    # The others side by side, and those that take long at once.
    # shellcheck disable=SC2016
    find "$archives" -maxdepth 1 -name '*.deb' -printf '%s %p\0' | sort -zrn | cut -zd ' ' -f 2- |
        xargs -0 -n 1 -P "$(nproc)" "$BASH" -c 'set -euo pipefail; unpack_package "$@"' unpack_package "$dir"
    cat "$archives/fields"/* >"$dir/var/lib/dpkg/status"
}

# unpack_package DIR PACKAGE: the package is gone afterwards.
unpack_package() {
    local dir=$1 deb=$2 name script
    # Nobody reads manuals there.
    dpkg-deb --fsys-tarfile "$deb" |
        tar -x -C "$dir" --no-same-owner --keep-directory-symlink \
            --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale
    name=${deb##*/}
    name=${name%%_*}
    # Only what set_up_packages runs.
    script=$dir/var/lib/dpkg/info/$name.postinst
    dpkg-deb -I "$deb" postinst >"$script" 2>/dev/null || rm "$script"
    {
        dpkg-deb -f "$deb"
        printf 'Status: install ok installed\n\n'
    } >"${deb%/*}/fields/$name"
    rm "$deb"
}

set_up_packages() {
    local dir=$1 script name
    mount -t proc proc "$dir/proc"
    mount --rbind /dev "$dir/dev"
    cp "$dir/usr/share/base-passwd/passwd.master" "$dir/etc/passwd"
    cp "$dir/usr/share/base-passwd/group.master" "$dir/etc/group"
    export DEBIAN_FRONTEND=noninteractive DPKG_MAINTSCRIPT_NAME=postinst DPKG_ROOT='' LC_ALL=C \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    mkdir -p "$dir"/usr/local/{bin,sbin,lib,share} "$dir/root" "$dir/var/tmp"
    chroot "$dir" ldconfig
    # The links behind mpicc, mpirun, cc, awk and the like; users and services
    # are not needed here.
    for script in "$dir"/var/lib/dpkg/info/*.postinst; do
        # One that only wants to give files to groups fails, and may.
        grep -q update-alternatives "$script" || continue
        name=${script##*/}
        name=${name%.postinst}
        chmod +x "$script"
        DPKG_MAINTSCRIPT_PACKAGE=$name chroot "$dir" "/var/lib/dpkg/info/$name.postinst" configure ||
            echo "the set-up script of $name failed"
    done
    # Its script fails for want of a user; the programs look at their own names.
    for name in slurmctld slurmd slurmstepd; do
        [[ -e $dir/usr/sbin/$name ]] || ln -s "$name-wlm" "$dir/usr/sbin/$name"
    done
}

# --- by debootstrap, as root, where there is no apt ----------------------------

make_by_debootstrap() {
    local dir=$1 mirror=$2 log=$3
    shift 3
    mkdir "$dir"
    stage "Debian 13 base system from $mirror" "$log" isolated bootstrap "$dir" "$mirror" ||
        give_up "debootstrap failed (the reason is at the end of $log): check network and disk, and run this again."
    export -f fetch_headers
    stage "Open MPI, PMIx, PRRTE, compiler, tools" "$log" isolated add_packages "$dir" "$mirror" "$@" ||
        give_up "Installing packages in the new root failed (the reason is at the end of $log): check network and disk, and run this again."
}

bootstrap() {
    local dir=$1 mirror=$2 script=/usr/share/debootstrap/scripts/trixie
    # Home folders are often mounted nodev, but a base system has devices.
    mount --bind "$dir" "$dir"
    mount -o remount,bind,dev,exec,suid "$dir"
    # A debootstrap older than Debian 13 does not know its name.
    [[ -e $script ]] || script=/usr/share/debootstrap/scripts/sid
    debootstrap --variant=minbase trixie "$dir" "$mirror" "$script"
}

add_packages() {
    local dir=$1 mirror=$2
    shift 2
    mount --bind "$dir" "$dir"
    mount -o remount,bind,dev,exec,suid "$dir"
    cat /etc/resolv.conf >"$dir/etc/resolv.conf"
    # For a mirror or proxy that speaks https.
    if [[ -r /etc/ssl/certs/ca-certificates.crt ]]; then
        mkdir -p "$dir/etc/ssl/certs"
        cat /etc/ssl/certs/ca-certificates.crt >"$dir/etc/ssl/certs/ca-certificates.crt"
    fi
    mount -t proc proc "$dir/proc"
    # Not by debootstrap --include: it cannot resolve libltdl-dev's alternatives.
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C
    chroot "$dir" apt-get update
    chroot "$dir" apt-get install -y --no-install-recommends "$@"
    echo "deb-src $mirror trixie main" >>"$dir/etc/apt/sources.list"
    chroot "$dir" /bin/bash -c "$(declare -f fetch_headers); fetch_headers ''" ||
        echo "$mirror has no source of Open MPI: the layout test of openmpi-internals will say so"
    chroot "$dir" apt-get clean
    rm -rf "$dir"/var/lib/apt/lists/* "$dir/debootstrap"
}
