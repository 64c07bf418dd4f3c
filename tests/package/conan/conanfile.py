# SPDX-License-Identifier: MIT
"""Links a program with the package that Conan has made, and runs it."""

from __future__ import annotations

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Consumer(ConanFile):  # type: ignore[misc]
    """The project in this folder."""

    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self) -> None:
        self.requires(self.tested_reference_str)

    def layout(self) -> None:
        cmake_layout(self)

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self) -> None:
        if not can_run(self):
            return
        folder = Path(self.build_folder) / self.cpp.build.bindir
        self.run(f"{folder}/program", env="conanrun")
        if (folder / "linked").exists():  # its report is malloc's
            self.run(f"POOLSHIM_STATS=1 {folder}/linked 2>&1 | grep 'statistics of process'")
