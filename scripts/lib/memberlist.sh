# shellcheck shell=bash
# Builds a member of a group of memberlist's (SWIM with Lifeguard, in Go) from Debian's packages, for `scripts/bench ring`.
# Sourced; memberlist_prepare is the entry. Needs root.sh sourced and root_prepare run.
# shellcheck disable=SC2154

# memberlist_prepare: makes target/trixie/memberlist of this source; returns 1 if it is not to be had.
memberlist_prepare() {
    local dir=$rw_source/target/trixie/go program=$rw_source/target/trixie/memberlist code=$rw_lib/bench/memberlist.go
    [[ ! -e $program || $program -ot $code ]] || return 0
    have apt-get && have dpkg-deb || return 1
    rm -rf "$dir"
    mkdir -p "$dir"
    (
        set -e
        export_proxies
        find_mirror "$log"
        # shellcheck source=scripts/lib/root-make.sh
        . "$rw_lib/root-make.sh"
        export -f apt_of_its_own
        stage "packages of Go and memberlist" "$log" isolated fetch_go "$dir" "$mirror" "$rw_root/var/lib/dpkg/status"
        # shellcheck disable=SC2016
        stage "building a member of memberlist" "$log" container_run "$rw_root" own bash -c 'cd /src/target/trixie/go &&
            GOROOT=$(echo "$PWD"/usr/lib/go-1.*) && export GOROOT &&
            GO111MODULE=off GOPATH=$PWD/usr/share/gocode GOCACHE=$PWD/cache GOFLAGS=-trimpath CGO_ENABLED=0 \
                "$GOROOT/bin/go" build -o ../memberlist.new /src/scripts/lib/bench/memberlist.go'
        mv "$program.new" "$program"
    ) || { rm -rf "$dir"; return 1; }
    rm -rf "$dir"
}

# fetch_go DIR MIRROR STATUS: unpacks what the packages named in STATUS leave out.
fetch_go() {
    local dir=$1 deb
    apt_of_its_own "$dir/apt" "$2"
    cp "$3" "$dir/apt/var/lib/dpkg/status"
    apt-get install -y --no-install-recommends --download-only golang-go golang-github-hashicorp-memberlist-dev
    for deb in "$dir"/apt/var/cache/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --no-same-owner --keep-directory-symlink --exclude=./usr/share/doc
    done
    rm -rf "$dir/apt"
}
