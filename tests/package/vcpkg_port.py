# SPDX-License-Identifier: MIT
"""A port of vcpkg, installed by substitutes for vcpkg's functions, and a program linked with it."""

from __future__ import annotations

import os
from pathlib import Path

from bare_system import run_ok
from conftest import run_captured

HERE = Path(__file__).parent


def install_port(port: Path, work: Path, features: str = "core;shim") -> Path:
    """The folder of the packages, with which a program was linked that runs; with malloc also as
    one file."""
    packages, build = work / "packages", work / "consumer"
    run_ok("cmake", f"-DWORK={work}", f"-DCURRENT_PACKAGES_DIR={packages}", f"-DPORT={port}",
           f"-DFEATURES={features}", "-P", HERE / "vcpkg_stand_in.cmake")  # fmt: skip
    run_ok("cmake", "-S", HERE / "conan", "-B", build, f"-DCMAKE_PREFIX_PATH={packages}")
    run_ok("cmake", "--build", build)
    assert run_ok(build / "program") == "1 blocks\n"
    if "shim" in features:
        report = run_captured([build / "linked"], env={**os.environ, "POOLSHIM_STATS": "1"})
        assert report.returncode == 0 and "statistics of process" in report.stderr
    return packages
