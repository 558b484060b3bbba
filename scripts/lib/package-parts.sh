# shellcheck shell=bash disable=SC2154
# How a .deb and a .rpm are made. Sourced by package.sh, whose variables it uses.
# cargo-deb and cargo-generate-rpm take a list of files from a crate's manifest; where these files belong is asked of the
# installed Open MPI, so the list is that of scripts/install.

summary='fault tolerance for Open MPI'
# description PREFIX
description() {
    printf "$1%s\n" 'ringwatch detects killed and stopped ranks, lost nodes and cut links in jobs of' \
        'mpirun --with-ft ulfm, and reports them to the survivors as errors of MPI. It' \
        'is a plugin: nothing of Open MPI is changed.'
}
# Members of this group have ringwatchd run at real-time priority.
group=ringwatch

# upstream PACKAGE: its version without what Debian adds.
upstream() { dpkg-query -W -f '${Version}' "$1" | sed 's/^[0-9]*://; s/-[^-]*$//'; }

# maker: name and address of who makes the package.
maker() {
    local name=${DEBFULLNAME:-} address=${DEBEMAIL:-}
    if [[ ${RW_MAKER:-} =~ ^(.*)\ \<(.*)\>$ ]]; then
        name=${BASH_REMATCH[1]:-$name} address=${BASH_REMATCH[2]:-$address}
    fi
    printf '%s <%s>' "${name:-ringwatch packager}" "${address:-root@$(hostname -f 2>/dev/null || hostname)}"
}

# licence: for both formats.
licence() {
    printf '%s\n' 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/' 'Upstream-Name: ringwatch' '' \
        'Files: *' 'Copyright: 2026 the ringwatch contributors' 'License: Apache-2.0 or Expat' '' 'License: Apache-2.0' \
        ' On Debian systems the text of the Apache License 2.0 is in' ' /usr/share/common-licenses/Apache-2.0.' '' 'License: Expat'
    sed '1,2d; s/^$/./; s/^/ /' "$source/LICENSE-MIT"
}

make_deb() {
    local root=$1 pmix next doc name
    have dpkg-deb || give_up "dpkg-deb is missing: a .deb is made on Debian and its derivatives"
    tree "$root" /usr/lib/python3/dist-packages
    doc=$root/usr/share/doc/ringwatch
    mkdir -p "$doc" "$root/DEBIAN"
    find "$root/usr/share/man" -type f -exec gzip -9n {} +
    # A page that only names another one is a link.
    local page
    for page in MPIX_Comm_iaccept MPIX_Comm_iconnect; do
        ln -sfn MPIX_Comm_ispawn.3.gz "$root/usr/share/man/man3/$page.3.gz"
    done
    for page in set_test barrier members round returned lost state leave; do
        ln -sfn RW_Group_join.3.gz "$root/usr/share/man/man3/RW_Group_$page.3.gz"
    done
    licence >"$doc/copyright"
    gzip -9nc "$source/CHANGELOG.md" >"$doc/changelog.gz"
    printf 'ringwatch (%s-%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" "$revision" "$(maker)" \
        "$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")" | gzip -9nc >"$doc/changelog.Debian.gz"
    pmix=$(upstream libpmix2t64)
    next=${pmix%.*}.$((${pmix##*.} + 1))
    cat >"$root/DEBIAN/control" <<TXT
Package: ringwatch
Version: $version-$revision
Section: net
Priority: optional
Architecture: $(dpkg --print-architecture)
Maintainer: $(maker)
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)
Depends: libc6 (>= $(upstream libc6)), libgcc-s1, libpmix2t64 (>= $pmix), libpmix2t64 (<< $next~), openmpi-bin (>= 5.0), openmpi-bin (<< 5.1~), libcap2-bin, passwd, python3:any
Suggests: python3-mpi4py, libopenmpi-dev
Description: $summary
$(description ' ')
TXT
    printf 'libringwatch 0 ringwatch (>= %s)\n' "$version" >"$root/DEBIAN/shlibs"
    echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
    cat >"$root/DEBIAN/postinst" <<TXT
#!/bin/sh
set -e
if [ "\$1" = configure ]; then
$(give_right "$program_folder")
fi
TXT
    printf '%s\n' '#!/bin/sh' 'set -e' "$(forget_module /usr/lib/python3/dist-packages)" >"$root/DEBIAN/prerm"
    chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
    (cd "$root" && find usr -type f -printf '%P\0' | sort -z | sed -z 's/^/usr\//' | xargs -0 md5sum >DEBIAN/md5sums)
    name=ringwatch_$version-${revision}_$(dpkg --print-architecture).deb
    dpkg-deb --root-owner-group -Zxz --build "$root" "$out/$name" >/dev/null
    echo "$name"
}

# forget_module FOLDER: a line that removes what Python has made of the module there.
forget_module() { echo "rm -f $1/__pycache__/ringwatch.*.pyc"; }

# give_right FOLDER: lines of a maintainer's script that let members of the group run ringwatchd at real-time priority.
give_right() {
    cat <<TXT
    getent group $group >/dev/null || groupadd --system $group
    chgrp $group $1/ringwatchd-priority
    chmod 750 $1/ringwatchd-priority
    setcap cap_sys_nice=ep $1/ringwatchd-priority ||
        echo "ringwatch: without real-time priority, since the file system of $1 takes no capabilities" >&2
TXT
}

make_rpm() {
    local root=$1 name python spec=$work/ringwatch.spec
    if ! have rpmbuild; then
        [[ -n ${RINGWATCH_CONTAINER:-} && -n ${RW_MIRROR:-} ]] || give_up "rpmbuild is missing: install the package rpm-build"
        echo "deb $RW_MIRROR trixie main" >/etc/apt/sources.list
        { apt-get -qq update && apt-get -y -qq install --no-install-recommends rpm; } >"$work/apt" 2>&1 ||
            { tail -n 5 "$work/apt" >&2; give_up "rpmbuild cannot be downloaded (see above): check the network"; }
    fi
    python=$(python3 -I -c 'import sys; print("/usr/lib/python%d.%d/site-packages" % sys.version_info[:2])')
    tree "$root" "$python"
    mkdir -p "$root/usr/share/doc/ringwatch"
    cp "$source"/{LICENSE-APACHE,LICENSE-MIT,CHANGELOG.md} "$root/usr/share/doc/ringwatch"
    {
        cat <<TXT
Name: ringwatch
Version: $version
Release: $revision
Summary: $summary
License: Apache-2.0 OR MIT
Packager: $(maker)
# Debian's Open MPI is no package that rpm knows.
$([ -e /etc/debian_version ] || echo 'Requires: openmpi >= 5.0, pmix, libcap, shadow-utils')
AutoReqProv: no
%global __os_install_post %{nil}
%global _build_id_links none
%description
$(description '')
%install
mkdir -p %{buildroot}
cp -a $root/. %{buildroot}/
%post
$(give_right "$program_folder")
/sbin/ldconfig || :
%preun
$(forget_module "$python")
%postun
/sbin/ldconfig || :
%files
%dir /usr/share/doc/ringwatch
TXT
        (cd "$root" && find . ! -type d -printf '/%P\n')
    } >"$spec"
    rpmbuild -bb --quiet --buildroot "$work/buildroot" --define "_topdir $work/rpmbuild" \
        --define "_rpmdir $out" --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' \
        --define "_tmppath $work" "$spec" >"$work/rpm.log" 2>&1 ||
        { cat "$work/rpm.log" >&2; exit 1; }
    name=$(cd "$out" && ls ringwatch-"$version-$revision".*.rpm)
    echo "$name"
}
