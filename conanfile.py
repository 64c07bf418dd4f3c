# SPDX-License-Identifier: MIT
"""Recipe for Conan 2: the libraries and headers, from this checkout.

    conan create . --build=missing
    conan create . -o "&:shared=True" -o "&:shim=False"
"""

from __future__ import annotations

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir


class PoolshimConan(ConanFile):  # type: ignore[misc]
    """poolshim::pools, static or shared; poolshim::poolshim, the malloc, which is shared, and
    poolshim::static, the malloc as a part of the program."""

    name = "poolshim"
    license = "MIT"
    description = "Drop-in malloc for Linux programs and memory pools as a library"
    topics = ("malloc", "allocator", "memory-pool", "arena")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "shim": [True, False]}  # noqa: RUF012 - Conan's interface
    default_options = {"shared": False, "shim": True}  # noqa: RUF012
    exports_sources = (
        "CMakeLists.txt", "LICENSE", "*.md", "cmake/*", "docs/*", "pools/*", "shim/*",
        "scripts/CMakeLists.txt", "scripts/native/*",
    )  # fmt: skip

    def set_version(self) -> None:
        """That of CMakeLists.txt."""
        project = load(self, Path(self.recipe_folder) / "CMakeLists.txt")
        found = re.search(r"^project\(\w+ VERSION ([0-9.]+)", project, re.MULTILINE)
        self.version = found[1] if found else None

    def configure(self) -> None:
        """It is C."""
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self) -> None:
        """64-bit Linux."""
        if self.settings.os != "Linux" or str(self.settings.arch) not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("poolshim is for 64-bit Linux")

    def layout(self) -> None:
        cmake_layout(self)

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["POOLSHIM_BUILD_SHIM"] = bool(self.options.shim)
        toolchain.cache_variables["POOLSHIM_BUILD_COMMAND"] = False
        toolchain.cache_variables["POOLSHIM_BUILD_MANUALS"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        """Of the two kinds of the pools library the one that was chosen; Conan makes the rest."""
        CMake(self).install()
        folder = Path(self.package_folder)
        copy(self, "LICENSE", self.source_folder, folder / "licenses")
        for name in ("lib/cmake", "lib/pkgconfig", "share"):
            rmdir(self, folder / name)
        unwanted = "libpoolshim-pools.a" if self.options.shared else "libpoolshim-pools.so*"
        rm(self, unwanted, folder / "lib")

    def package_info(self) -> None:
        pools = self.cpp_info.components["pools"]
        pools.set_property("cmake_target_name", "poolshim::pools")
        pools.set_property("pkg_config_name", "poolshim-pools")
        pools.libs = ["poolshim-pools"]
        pools.system_libs = ["pthread"]
        if self.options.shim:
            shim = self.cpp_info.components["poolshim"]
            shim.set_property("cmake_target_name", "poolshim::poolshim")
            shim.set_property("pkg_config_name", "poolshim")
            shim.libs = ["poolshim"]
            static = self.cpp_info.components["static"]
            static.set_property("cmake_target_name", "poolshim::static")
            static.system_libs = [":libpoolshim.a", "pthread"]  # not libpoolshim.so beside it
            static.exelinkflags = ["-Wl,--undefined=malloc", "-Wl,--eh-frame-hdr"]
