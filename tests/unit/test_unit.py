# SPDX-License-Identifier: MIT
"""Runs every unit test in every build: those that scripts/test --builds names.

    scripts/test tests/unit/test_unit.py
"""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from buildable import cache_of, leading_options, reason_left_out
from conftest import BUILD_DIR, EMULATOR, ROOT, run_captured

UNIT = ROOT / "tests" / "unit"
NAMES = sorted(
    path.relative_to(UNIT).with_suffix("").as_posix() for path in UNIT.rglob("*_test.c")
)


def builds() -> list[Path]:
    """The builds in $TEST_BUILDS, else all configured ones; only $POOLSHIM_BUILD_DIR if
    that is set."""
    if "POOLSHIM_BUILD_DIR" in os.environ:
        return [BUILD_DIR]
    names = os.environ.get("TEST_BUILDS", "release,debug,asan,tsan").split(",")
    found = [ROOT / "build" / name for name in names]
    return [path for path in found if (path / "build.ninja").exists()]


def run_program(build: Path, program: Path, **options: Any) -> None:
    """Runs a test program, under the emulator if one is set; expects status 0 or 77."""
    assert program.exists(), f"{program} is not built"
    prefix = without_aslr() if build.name == "tsan" else EMULATOR
    result = run_captured([*prefix, program], timeout=300, **options)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}{result.stderr}"


def run_in_builds(source: Path, program: str, folder: Path | None = None) -> None:
    """Runs a test program in every build that has it, and names the builds in which it fails. In
    `folder` each run gets a working directory of its own."""
    chosen = [one for one in builds() if not reason_left_out(cache_of(one), source)]
    skipped, failed = [], []
    for build in chosen:
        cwd = None if folder is None else folder / build.name
        if cwd is not None:
            cwd.mkdir()
        try:
            run_program(build, build / "tests" / program, cwd=cwd)
        except pytest.skip.Exception as reason:
            skipped.append(f"{build.name}: {reason.msg}")
        except (AssertionError, subprocess.TimeoutExpired) as failure:
            failed.append(f"{build.name}: {failure}")
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)
    if len(skipped) == len(chosen):
        pytest.skip(", ".join(skipped) or "no build has it")


@lru_cache(maxsize=1)
def without_aslr() -> list[str]:
    """TSan of gcc 12 refuses address spaces with much randomness; a container may forbid this."""
    command = ["setarch", platform.machine(), "-R"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return []
    return command


def parameter(name: str) -> object:
    """A test program; its line "// marks: slow" marks it."""
    marks = leading_options((UNIT / f"{name}.c").read_text(), "marks")
    return pytest.param(name, marks=[getattr(pytest.mark, mark) for mark in marks])


@pytest.mark.parametrize("name", [parameter(name) for name in NAMES])
def test_unit(name: str) -> None:
    run_in_builds(UNIT / f"{name}.c", f"unit/{name}")


def test_there_are_unit_tests() -> None:
    assert NAMES
