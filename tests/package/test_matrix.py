# SPDX-License-Identifier: MIT
"""The oldest release that is supported, as scripts/dev/matrix tries it.

    scripts/test --packages tests/package/test_matrix.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bare_system import bare_root
from conftest import ROOT, run_captured

pytestmark = pytest.mark.package
CELLS = ["bullseye-gcc-10", "bullseye-clang-13"]


def test_debian_11_builds_and_runs_it(tmp_path: Path) -> None:
    if bare_root.missing():
        pytest.skip(bare_root.missing())
    command = [ROOT / "scripts" / "dev" / "matrix", "--folder", tmp_path, *CELLS]
    result = run_captured(command, timeout=1800)
    if "Failed getting release file" in result.stdout:
        pytest.skip(f"no network: {bare_root.DEBIAN} is not reached")
    lines = result.stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == [f"{cell}: passed" for cell in CELLS]
    assert result.returncode == 0
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in mounts
