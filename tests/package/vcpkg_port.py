# SPDX-License-Identifier: MIT
"""A port of vcpkg, installed by substitutes for vcpkg's functions, and a program linked with it."""

from __future__ import annotations

from pathlib import Path

from bare_system import run_ok

HERE = Path(__file__).parent


def install_port(port: Path, work: Path) -> Path:
    """The folder of the packages, with which a program was linked that runs."""
    packages, build = work / "packages", work / "consumer"
    run_ok("cmake", f"-DWORK={work}", f"-DCURRENT_PACKAGES_DIR={packages}", f"-DPORT={port}",
           "-P", HERE / "vcpkg_stand_in.cmake")  # fmt: skip
    run_ok("cmake", "-S", HERE / "conan", "-B", build, f"-DCMAKE_PREFIX_PATH={packages}")
    run_ok("cmake", "--build", build)
    assert run_ok(build / "program") == "1 blocks\n"
    return packages
