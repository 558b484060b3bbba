# shellcheck shell=bash
# Makes the kernel and the initial RAM disk of the virtual machines with RDMA.
# Sourced after container.sh and root.sh for kernel_prepare; run by itself it
# makes them in a folder (--fetch), or, inside the container and with the
# network, prints both as a tar archive.
# shellcheck disable=SC2154

# Raise the number when anything below changes: kernels made by an older recipe
# are then made anew.
rw_kernel_recipe=2
# What the machines need before they see their file system, soft-RoCE, and what
# drops packets. rdma_rxe asks for crc32 by name, so its dependencies do not
# tell.
rw_kernel_modules=(virtio_pci virtio_net 9pnet_virtio 9p overlay crc32_generic rdma_rxe ib_uverbs
    sch_ingress cls_u32 act_gact)

# Sets RINGWATCH_KERNEL to the folder with 'kernel' and 'initrd'; the container
# shows it as /opt/kernel.
kernel_prepare() {
    local log=$rw_cache/log new=$rw_cache/kernel.new
    export RINGWATCH_KERNEL=$rw_cache/kernel
    [[ $(uname -m) == x86_64 ]] ||
        give_up "Virtual machines with RDMA are made for x86-64 only, this is $(uname -m)."
    [[ $(cat "$RINGWATCH_KERNEL/recipe" 2>/dev/null) != "$rw_kernel_recipe" ]] || return 0
    : >"$log"
    rm -rf "$new"
    mkdir "$new"
    export_proxies
    find_mirror "$log"
    stage "Debian 13's kernel from $mirror" "$log" kernel_fetch "$mirror" "$new" ||
        give_up "Debian's kernel could not be had (the reason is at the end of $log): check network and disk, and run this again."
    echo "$rw_kernel_recipe" >"$new/recipe"
    rm -rf "$RINGWATCH_KERNEL"
    mv "$new" "$RINGWATCH_KERNEL"
}

# Takes the place of the subshell that stage makes, so that it dies with the script itself.
kernel_fetch() {
    exec setpriv --pdeathsig KILL "$BASH" "$rw_lib/kernel.sh" --fetch "$1" "$2"
}

# fetch MIRROR FOLDER
fetch() {
    local status=0
    RINGWATCH_KERNEL='' container_run "$rw_root" host bash /src/scripts/lib/kernel.sh "$1" >"$2/tar" || status=$?
    ((status == 0)) || return "$status"
    tar -x -C "$2" -f "$2/tar"
    rm "$2/tar"
}

# --- inside ------------------------------------------------------------------

# download_package DIR: the package of the kernel that linux-image-amd64 stands for.
download_package() {
    local package
    apt-get -qq -o APT::Sandbox::User=root update
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p')
    (cd "$1" && apt-get -qq -o APT::Sandbox::User=root download "$package")
}

# add_module NAME: unpacks a module and what it depends on into initrd/modules,
# and appends them to initrd/order; one that is not there is built in.
add_module() {
    local file dependency
    [[ ! -e initrd/modules/$1.ko ]] || return 0
    file=$(find tree -name "$1.ko.xz" -o -name "${1//_/-}.ko.xz")
    [[ -n $file ]] || return 0
    busybox xzcat "$file" >"initrd/modules/$1.ko"
    for dependency in $(tr '\0' '\n' <"initrd/modules/$1.ko" | sed -n 's/^depends=//p' | tr ',-' ' _'); do
        add_module "$dependency"
    done
    echo "$1" >>initrd/order
}

make_kernel() {
    local module
    cd "$(mktemp -d)"
    echo "deb $1 trixie main" >/etc/apt/sources.list
    download_package "$PWD" >&2
    mkdir -p tree initrd/bin initrd/modules
    dpkg-deb --fsys-tarfile linux-image-*.deb | tar -x -C tree
    for module in "${rw_kernel_modules[@]}"; do add_module "$module"; done
    [[ -e initrd/modules/rdma_rxe.ko ]] || { echo "the kernel has no rdma_rxe" >&2; return 1; }
    cp /bin/busybox initrd/bin/busybox
    ln -s busybox initrd/bin/sh
    install -m 755 /src/scripts/lib/guest-init initrd/init
    cp tree/boot/vmlinuz-* kernel
    (cd initrd && find . | busybox cpio -o -H newc 2>/dev/null) >initrd.cpio
    mv initrd.cpio initrd.file
    tar -c --transform 's/initrd.file/initrd/' kernel initrd.file
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    set -euo pipefail
    if [[ $1 == --fetch ]]; then
        rw_lib=$(cd "$(dirname "$0")" && pwd)
        # shellcheck source=scripts/lib/container.sh
        . "$rw_lib/container.sh"
        # shellcheck source=scripts/lib/root.sh
        . "$rw_lib/root.sh"
        container_rights
        root_prepare
        fetch "$2" "$3"
    else
        make_kernel "$1"
    fi
fi
