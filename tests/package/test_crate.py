# SPDX-License-Identifier: MIT
"""The Rust crate by itself: packed by cargo and built from the package, read by clippy, its pools
under valgrind.

    scripts/test --packages
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from cargo import cargo, environment, executables, need_cargo
from conftest import ROOT, run_captured

pytestmark = pytest.mark.package


@pytest.fixture(scope="module", autouse=True)
def _needed() -> None:
    need_cargo()


def test_the_packed_crate_builds(tmp_path: Path) -> None:
    """cargo package unpacks its own archive and builds that: nothing of the checkout is there."""
    folder = tmp_path / "poolshim"
    run_captured([sys.executable, ROOT / "scripts/dev/crate", "--output", folder])
    command = ["cargo", "package", "--offline", "--allow-dirty"]
    own = environment() | {"CARGO_TARGET_DIR": str(tmp_path / "target")}
    packed = run_captured(command, cwd=folder, env=own, timeout=600)
    assert packed.returncode == 0, packed.stderr
    assert list((tmp_path / "target" / "package").glob("poolshim-*.crate"))


def test_clippy_finds_nothing() -> None:
    if shutil.which("cargo-clippy") is None:
        pytest.skip("clippy is not installed")
    result = cargo("clippy", "--all-targets", "--", "-D", "warnings")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["region", "slots"])
def test_memcheck_finds_nothing(name: str, tmp_path: Path) -> None:
    """Each block is one of libc's malloc, so that memcheck knows its bounds and its end."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    command = ["valgrind", "-q", "--error-exitcode=9", executables()[name], "--test-threads=1"]
    own = os.environ | {"PS_DEBUG": "malloc"}
    result = run_captured(command, cwd=tmp_path, env=own, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
