# SPDX-License-Identifier: MIT
"""Builds from nothing with both compilers at -O2 and -O3, warnings being errors; and the build that
is tested had none.

    scripts/test tests/repo/test_build.py
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

COMPILERS = {"gcc": ("gcc-12", "g++-12"), "clang": ("clang-16", "clang++-16")}


@pytest.mark.nightly
@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_builds_without_a_warning(compiler: str, level: str, tmp_path: Path) -> None:
    """The library; and by clang at -O2 all of it, which scripts/build does by gcc."""
    c_compiler, cxx_compiler = COMPILERS[compiler]
    if not (shutil.which(c_compiler) and shutil.which(cxx_compiler)):
        pytest.skip(f"{c_compiler} or {cxx_compiler} is not installed")
    has_tests = "ON" if (compiler, level) == ("clang", "-O2") else "OFF"
    options = {
        "CMAKE_C_COMPILER": c_compiler,
        "CMAKE_CXX_COMPILER": cxx_compiler,
        "CMAKE_C_FLAGS_RELEASE": level,
        "CMAKE_CXX_FLAGS_RELEASE": level,
        "POOLSHIM_BUILD_TESTS": has_tests,
        "POOLSHIM_BUILD_BENCH": has_tests,
    }
    defines = [f"-D{name}={value}" for name, value in options.items()]
    command = ["cmake", "--preset", "ci", "-S", ROOT, "-B", tmp_path, *defines]
    configured = run_captured(command, timeout=120, cwd=ROOT)
    assert configured.returncode == 0, configured.stdout + configured.stderr
    built = run_captured(["cmake", "--build", tmp_path], timeout=600)
    assert built.returncode == 0, built.stdout[-6000:]
    assert "warning:" not in built.stdout
    assert (tmp_path / "libpoolshim.so").exists()


def test_the_build_had_no_warning_and_the_flags_of_the_presets(build_dir: Path) -> None:
    """What scripts/build built last: all of it, after a clone. Release is -O2 without internal
    checks; the engine never uses the compiler's own malloc."""
    logs = [log for log in ROOT.glob("build/*.log") if log.stem in ("release", "debug")]
    found = [line for log in logs for line in log.read_text().splitlines() if "warning:" in line]
    assert found == []
    commands = (build_dir / "compile_commands.json").read_text()
    for flag in ("-fno-builtin-malloc", "-fvisibility=hidden", "-ftls-model=initial-exec"):
        assert flag in commands
    cache = (build_dir / "CMakeCache.txt").read_text()
    if "CMAKE_BUILD_TYPE:STRING=Release" in cache:
        assert "-DPS_CHECKED=0" in commands and "-DPS_CHECKED=1" not in commands
