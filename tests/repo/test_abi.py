# SPDX-License-Identifier: MIT
"""The binary interface of both libraries is the stored one, and a break of it would be found.

    scripts/test tests/repo/test_abi.py
"""

from __future__ import annotations

import lzma
import platform
import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row

ABI = ROOT / "scripts" / "dev" / "abi"
STORED = ROOT / "tests" / "repo" / "abi"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("abidiff") or platform.machine() != "x86_64",
        reason="abidiff is not installed, or the interface of this machine is not stored",
    ),
]


def test_interface_is_the_stored_one(build_dir: Path) -> None:
    result = run_captured([ABI], timeout=300)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr
    assert result.stdout.count("as it was") == 2


@each_row(
    "pattern, by",
    [
        (rb"name='ps_region_trim'", b"name='ps_region_shrink'"),  # a function is gone
        (rb"(<class-decl name='ps_region_options' size-in-bits=')(\d+)", rb"\g<1>1\2"),
    ],
)
def test_a_break_is_found(build_dir: Path, tmp_path: Path, pattern: bytes, by: bytes) -> None:
    for path in STORED.iterdir():
        shutil.copy(path, tmp_path)
    stored = tmp_path / "libpoolshim-pools.abi.xz"
    text, count = re.subn(pattern, by, lzma.decompress(stored.read_bytes()))
    assert count >= 1
    stored.write_bytes(lzma.compress(text))
    result = run_captured([ABI, "--stored", tmp_path], timeout=300)
    assert result.returncode == 1
    assert "libpoolshim-pools: the interface has changed" in result.stdout
