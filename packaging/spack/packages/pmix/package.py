# SPDX-License-Identifier: Apache-2.0 OR MIT
"""PMIx as Spack's own repository has it, with the internal headers that components are compiled against."""

from spack_repo.builtin.packages.pmix.package import Pmix as BuiltinPmix

from spack.package import *


class Pmix(BuiltinPmix):
    __doc__ = BuiltinPmix.__doc__

    def configure_args(self):
        return super().configure_args() + ["--with-devel-headers"]
