# shellcheck shell=bash
# Where the parts of ringwatch belong, asked of the installed Open MPI, PMIx and PRRTE. Sourced by install and uninstall.
# Sets: plugin_folder, mpi_folder, library_folder, header_folder, program_folder, parameter_file; python_folder, which is
# empty where there is no Python; manual_folder and completions, a list of folder and name for each file of them.

# ask PROGRAM ITEM LABEL: a folder that an *_info program prints, e.g. ask pmix_info pkglibdir Pkglibdir
ask() {
  "$1" --path "$2" 2>/dev/null | sed -n "s/^ *$3: *//p" | head -n 1
}

# pmix_of PROGRAM: the library of PMIx that it loads.
pmix_of() {
  ldd "$1" 2>/dev/null | sed -n 's|.* => \(/.*/libpmix\.so[^ ]*\).*|\1|p' | head -n 1 | xargs -r readlink -f
}

# find_places [PREFIX OF THE MPI]
find_places() {
  local prefix=${1:-}
  local path=$PATH
  [ -z "$prefix" ] || path=$prefix/bin:$PATH
  # Not the system's own, which would be another one than was named.
  [ -z "$prefix" ] || [ -x "$prefix/bin/ompi_info" ] || give_up "there is no ompi_info in $prefix/bin: name the folder that Open MPI was installed into"
  local program
  for program in pmix_info:libpmix-bin ompi_info:openmpi-bin prted:openmpi-bin; do
    if ! PATH=$path command -v "${program%%:*}" >/dev/null; then
      give_up "${program%%:*} is not installed${prefix:+ in $prefix/bin}: install the package ${program##*:} (Debian), or name the MPI's folder with --prefix"
    fi
  done
  local ours theirs
  ours=$(pmix_of "$(PATH=$path command -v pmix_info)") theirs=$(pmix_of "$(PATH=$path command -v prted)")
  [ "$ours" = "$theirs" ] || give_up "pmix_info belongs to $ours, and prted to $theirs: put the pmix_info of the same PMIx first in PATH"
  plugin_folder=$(PATH=$path ask pmix_info pkglibdir Pkglibdir)
  mpi_folder=$(PATH=$path ask ompi_info pkglibdir Pkglibdir)
  # Where the loader finds libmpi; Debian's Libdir is another folder.
  library_folder=$(ldd "$(PATH=$path command -v ompi_info)" | sed -n 's|.* => \(/.*\)/libopen-pal\.so.*|\1|p' | head -n 1)
  header_folder=$(PATH=$path ask ompi_info incdir Incdir)
  parameter_file=$(PATH=$path ask pmix_info sysconfdir Sysconfdir)/pmix-mca-params.conf
  program_folder=$(dirname "$(PATH=$path command -v prted)")
  # By their own names: a package must not bring a file through a link such as /lib or /bin.
  [ -z "$library_folder" ] || library_folder=$(readlink -f "$library_folder")
  program_folder=$(readlink -f "$program_folder")
  local share=${program_folder%/*}/share zsh=site-functions
  manual_folder=$share/man
  # Debian's zsh does not look in /usr/share/zsh/site-functions.
  [ "$share" != /usr/share ] || [ ! -e /etc/debian_version ] || zsh=vendor-completions
  completions=("$share/bash-completion/completions/ringwatch" "$share/zsh/$zsh/_ringwatch"
    "$share/fish/vendor_completions.d/ringwatch.fish")
  # Isolated: a module of the current folder must not run in place of Python's own.
  # RINGWATCH_PYTHON: that of packages, which is another one on Debian.
  python_folder=${RINGWATCH_PYTHON:-$(python3 -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null || true)}
  [ -n "$plugin_folder" ] || give_up "pmix_info does not say where PMIx keeps its components: is this PMIx 4.2 or newer?"
  [ -n "$library_folder" ] && [ -n "$header_folder" ] || give_up "ompi_info does not say where Open MPI keeps its libraries and headers: is this Open MPI 5?"
  [ -n "$mpi_folder" ] || give_up "ompi_info does not say where Open MPI keeps its components: is this Open MPI 5?"
}

# Files that make up an installation, relative to nothing, one per line.
installed_files() {
  printf '%s\n' "$plugin_folder"/{pmix_mca_psensor_ringwatch,pmix_mca_pnet_ringwatch,ringwatch/clocks}.so \
    "$mpi_folder"/mca_{hook,coll,osc,io}_ringwatch.so \
    "$library_folder"/libringwatch.so{.0,} "$library_folder/pkgconfig/ringwatch.pc" "$header_folder"/{ringwatch,ringwatchf,ringwatchf08}.h \
    ${python_folder:+"$python_folder/ringwatch.py"} "$program_folder"/ringwatchd{,-priority} "$program_folder/ringwatch" \
    "$manual_folder"/man1/ringwatch{,-{events,status,top,metrics,group,check,calibrate,simulate,reproduce,version}}.1 \
    "$manual_folder"/man3/MPIX_Comm_{ishrink,ispawn,iaccept,iconnect}.3 \
    "$manual_folder"/man3/RW_Group_{join,set_test,barrier,members,round,returned,lost,state,leave}.3 \
    "$manual_folder/man7/ringwatch-parameters.7" "$manual_folder/man8/ringwatchd.8" "${completions[@]}"
}
