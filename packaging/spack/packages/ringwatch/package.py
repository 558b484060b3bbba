# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ringwatch for Spack; packaging/README.md has the commands."""

import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *

ACTIVATE = """#!/bin/sh
# Puts ringwatch beside the Open MPI, PRRTE and PMIx with which it was built, which look for components in their own folders only.
# --remove takes it away. Other options are those of scripts/install.
PATH={path}:$PATH
case $1 in
--remove) shift; exec {share}/scripts/uninstall --prefix {mpi} "$@" ;;
*) exec {share}/scripts/install --prefix {mpi} --from {built} "$@" ;;
esac
"""


class Ringwatch(Package):
    """Fault tolerance for Open MPI 5 as it is: detection of killed and stopped ranks, lost nodes and cut links, reported to the
    survivors as errors of MPI. A plugin of PMIx, PRRTE and Open MPI, which are not changed."""

    # The tree that this file is in.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))

    license("Apache-2.0 OR MIT")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("rust@1.85:", type="build")
    depends_on("openmpi@5.0", type=("build", "link", "run"))
    depends_on("prrte@3.0", type=("build", "run"))
    # The one of packaging/spack: built with --with-devel-headers. ringwatch serves the very release that it was built with.
    depends_on("pmix@5.0", type=("build", "link", "run"))

    def setup_build_environment(self, env):
        env.set("RINGWATCH_PMIX_INCLUDE", self.spec["pmix"].prefix.include)
        # The crates are downloaded into the build's own folder.
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))

    def install(self, spec, prefix):
        which("cargo", required=True)("build", "--release", "--locked")
        built, share = prefix.lib.ringwatch, prefix.share.ringwatch
        mkdirp(built, prefix.bin, share)
        for name in ("libringwatch_pmix.so", "libringwatch_clocks.so", "libringwatch_mpi.so", "libringwatch.so",
                     "ringwatchd", "ringwatch"):
            install(join_path("target", "release", name), built)
        # What scripts/install reads.
        install("Cargo.toml", share)
        for folder in ("scripts", join_path("ishrink", "include"), join_path("ishrink", "python")):
            install_tree(folder, join_path(share, folder))
        mpi = spec["openmpi"].prefix
        path = ":".join(spec[name].prefix.bin for name in ("openmpi", "prrte", "pmix"))
        script = join_path(prefix.bin, "ringwatch-activate")
        with open(script, "w") as out:
            out.write(ACTIVATE.format(path=path, share=share, mpi=mpi, built=built))
        os.chmod(script, 0o755)
