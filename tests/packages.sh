#!/bin/bash
# packages.sh [--deb] FOLDER: installs the packages of FOLDER in a clean root that has Open MPI, upgrades them from an older
# version (.deb) or revision (.rpm: 1 and 2), removes them, and has lintian look at one; rpm and lintian are downloaded.
# --deb: the .deb alone, and nothing is downloaded. Called by tests/scripts.sh, as root of a container. Exit status: 0 all as
# it must be, 1 something is not.
set -euo pipefail
only_deb=''
[[ $1 != --deb ]] || { only_deb=yes; shift; }
folder=$1
cd /
if [[ -z $only_deb ]] && ! command -v rpm >/dev/null; then
    echo "deb ${RW_MIRROR:-http://deb.debian.org/debian} trixie main" >/etc/apt/sources.list
    { apt-get -qq update && apt-get -y -qq install --no-install-recommends rpm lintian; } >/tmp/apt 2>&1 || tail -n 3 /tmp/apt
fi
wrong() { echo "packages.sh: $*" >&2; exit 1; }
files() { find / -xdev \( -path /src -o -path /proc -o -path /tmp -o -path /root/.local/state \) -prune -o -name '*ringwatch*' -print | grep -v '^/var/lib/dpkg\|^/var/lib/rpm\|^/usr/local/bin' | sort; }

# works: ringwatch is there, and a job of it runs; who is in the group has the right.
works() {
    local version
    ringwatchd --version && ringwatch version
    [[ $(getcap /usr/bin/ringwatchd-priority) == *cap_sys_nice=ep ]] || wrong "no capability: $(getcap /usr/bin/ringwatchd-priority)"
    [[ $(stat -c '%G %a' /usr/bin/ringwatchd-priority) == 'ringwatch 750' ]] || wrong "anybody may run ringwatchd-priority"
    readelf -d /usr/lib/*/libringwatch.so.0 | grep -q 'SONAME.*libringwatch.so.0' || wrong 'no SONAME'
    version=$(sed -n 's/^Version: //p' /usr/lib/*/pkgconfig/ringwatch.pc)
    [[ -n $version ]] || wrong 'no pkg-config file'
    printf '%s\n' '#include <ringwatch.h>' 'int main(int c, char **v) { MPI_Init(&c, &v); MPI_Comm n; MPI_Request r;
        MPIX_Comm_ishrink(MPI_COMM_WORLD, &n, &r); MPI_Wait(&r, MPI_STATUS_IGNORE); return MPI_Finalize(); }' >/tmp/app.c
    mpicc -o /tmp/app /tmp/app.c -lringwatch
    timeout -k 1 -s KILL 60 mpirun --with-ft ulfm -n 2 /tmp/app || wrong 'a job does not run'
    pmix_info --param psensor ringwatch | grep -q psensor_ringwatch_period || wrong 'PMIx does not find its component'
    MODULE=$1 python3 -c 'import os, sys; sys.path.insert(0, os.environ["MODULE"]); import ringwatch; assert ringwatch.__file__.startswith(os.environ["MODULE"])'
}

# older VERSION DEB OUT: the same package with another number.
older() {
    local tree
    tree=$(mktemp -d)
    dpkg-deb -R "$2" "$tree"
    sed -i "s/^Version: .*/Version: $1/" "$tree/DEBIAN/control"
    dpkg-deb -b -z1 "$tree" "$3" >/dev/null
    rm -rf "$tree"
}

before=$(files)
deb=("$folder"/ringwatch_*-1_*.deb)
older 0.0.9-3 "${deb[0]}" /tmp/older.deb
dpkg -i /tmp/older.deb 2>&1 | tail -n 3
dpkg-query -W ringwatch | grep -q '0.0.9-3$' || wrong 'the older version is not installed'
works /usr/lib/python3/dist-packages
(($(du -ck $(dpkg -L ringwatch | while read -r f; do [ ! -f "$f" ] || echo "$f"; done) | tail -n 1 | cut -f 1) < 16384)) || wrong 'more than 16 MB'
dpkg -i "${deb[0]}" 2>&1 | tail -n 2
[[ $(dpkg-query -W -f '${Status} ${Version}' ringwatch) == "install ok installed $(dpkg-deb -f "${deb[0]}" Version)" ]] || wrong 'no upgrade'
works /usr/lib/python3/dist-packages
dpkg -P ringwatch 2>&1 | tail -n 1
[[ $(files) == "$before" ]] || wrong "left by the .deb: $(files)"

if [[ -z $only_deb ]] && command -v rpm >/dev/null; then
    rpm=("$folder"/ringwatch-*-1.*.rpm) newer=("$folder"/ringwatch-*-2.*.rpm)
    rpm -i --nodeps "${rpm[0]}"
    works /usr/lib/python3.*/site-packages
    rpm -U --nodeps "${newer[0]}"
    works /usr/lib/python3.*/site-packages
    rpm -e ringwatch
    [[ $(files) == "$before" ]] || wrong "left by the .rpm: $(files)"
    echo 'rpm checked'
fi
if [[ -z $only_deb ]] && command -v lintian >/dev/null; then
    lintian --profile debian --fail-on error --allow-root "${deb[0]}"
    echo 'lintian checked'
fi
echo 'packages checked'
