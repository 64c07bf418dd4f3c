# SPDX-License-Identifier: MIT
"""/tmp/perf-PID.map: whose names of functions are read.

    scripts/test tests/cli/test_perf_map.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.errors import Failed  # noqa: E402
from poolshim_cli.foreign.perf_map import PerfMap  # noqa: E402

NOBODY = 65534


@each_row(
    ("mode", "owner", "uid", "why"),
    [
        (0o644, NOBODY, None, "belongs to another user"),
        (0o644, NOBODY, NOBODY, ""),
        (0o666, 0, 0, "may be written by other users"),
        (0o644, 0, NOBODY, ""),
    ],
)
@pytest.mark.root
def test_a_perf_map_of_another_user(
    tmp_path: Path, mode: int, owner: int, uid: int | None, why: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    path = tmp_path / "perf-1.map"
    path.write_text("1000 10 name\n")
    path.chmod(mode)
    os.chown(path, owner, owner)
    if why:
        with pytest.raises(Failed, match=why):
            PerfMap(path, uid).read()
    else:
        assert PerfMap(path, uid).read() == [(0x1000, 0x10, "name")]


@each_row("make", [os.mkfifo, lambda path: path.symlink_to("/etc/passwd"),
                                  Path.mkdir])  # fmt: skip
def test_a_perf_map_that_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "perf-1.map")
    assert PerfMap(tmp_path / "perf-1.map").read() == []


def test_names_of_a_perf_map_have_no_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "perf-1.map"
    path.write_bytes(b"1000 10 a\033[2Jb\n" + b"9" * 5000 + b" 1 x\n20 1 \xff\n-1 zz\n")
    assert PerfMap(path).read() == [(0x20, 1, "�"), (0x1000, 0x10, "a?[2Jb")]
