# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ringwatch for Spack; packaging/README.md has the commands."""

import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


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
        # Components stay in this package's own folders, where Open MPI and PMIx find them by the variables below.
        which("scripts/install", required=True)("--apart", prefix)

    def setup_run_environment(self, env):
        for name, project in (("PMIX", "pmix"), ("OMPI", "openmpi")):
            own = join_path(self.prefix.lib, project)
            env.set(f"{name}_MCA_mca_base_component_path", f"SYSTEM_DEFAULT:USER_DEFAULT:{own}")
        env.set("PMIX_MCA_psensor_ringwatch_daemon", self.prefix.bin.ringwatchd)
