# SPDX-License-Identifier: MIT
"""Where the commands for running processes find the library: packaged, without a version in its
name.

    scripts/test tests/cli/test_cli_live_places.py
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from running import POOLSHIM, SILENT, Start, spawn, start

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import places  # noqa: E402
from poolshim_cli.live import layout  # noqa: E402

__all__ = ["spawn", "start"]


@pytest.mark.preload
def test_a_library_without_a_version_in_its_name_tells_it(
    start: Start, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the wheel, whose file is libpoolshim.so."""
    copy = tmp_path / "libpoolshim.so"
    shutil.copy(shim, copy)
    process = start(SILENT, LD_PRELOAD=str(copy), preload=False)
    done = run_captured([POOLSHIM, "stats", str(process.pid)])
    first = done.stdout.splitlines()[0]
    assert re.match(r"poolshim \d+\.\d+\.\d+: statistics of process \d+, ", first), done
    assert first.split()[1] == places.checkout_version() + ":"
    report = run_captured([POOLSHIM, "stats", "--json", str(process.pid)])
    assert json.loads(report.stdout)["poolshim"] == places.checkout_version()
    monkeypatch.setattr(layout, "RELEASE_PART", 4096)  # the text may lie anywhere
    assert layout.release_in(process.pid, str(copy)) == places.checkout_version()
    assert layout.release_in(process.pid, "/no/library") == ""
