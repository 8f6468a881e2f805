# Copyright 2026 The frugal authors
#
# SPDX-License-Identifier: Apache-2.0

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Frugal(CMakePackage):
    """Benchmarks and paper replication for training large transformers in little memory: it
    regenerates the tables and figures of three papers on processors and described machines."""

    # Sources have no address that Spack could know: spack develop builds those of a checkout,
    # and a mirror may have an archive of this name.
    manual_download = True
    url = "frugal-1.0.0.tar.gz"

    license("Apache-2.0")

    version("1.0.0")

    variant("mpi", default=True, description="Ranks that are processes, by MPI")
    variant(
        "page",
        default="/usr/share/frugal-page",
        values=lambda folder: True,
        description="Folder of d3.min.js, jquery.min.js and jquery.dataTables.min.js, which Spack has not",
    )
    variant("plots", default=True, description="matplotlib, which draws figures")

    depends_on("c", type="build")
    depends_on("cxx", type="build")

    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")

    # Headers of the libraries are in the interfaces of the installed ones. oneDNN 3 has another
    # interface than 2; OpenCL is what the package of Debian asks CMake for, and not needed here.
    depends_on("onednn@2.5:2 cpu_runtime=omp")
    depends_on("boost@1.74: +context")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.11:")
    depends_on("cli11@2.1:")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("mpi", when="+mpi")
    depends_on("python@3.11:", type="run", when="+plots")
    depends_on("py-matplotlib", type="run", when="+plots")

    requires("%gcc@12:", msg="frugal is C++20 and is built with g++ 12 or later")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define_from_variant("FRUGAL_WITH_MPI", "mpi"),
            self.define("FRUGAL_PAGE_LIBRARIES", self.spec.variants["page"].value),
            self.define("FRUGAL_WITH_CUDA", False),
            self.define("FRUGAL_BUILD_TESTS", False),
            self.define("FRUGAL_BUILD_BENCH", False),
        ]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def install_test(self):
        frugal = Executable(self.prefix.bin.frugal)
        with working_dir("check", create=True):
            frugal("reproduce", "korthikanti2022/table4", "--on", "virtual")
