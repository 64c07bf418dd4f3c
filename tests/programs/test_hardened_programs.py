# SPDX-License-Identifier: MIT
"""Real programs at every level of hardening: the same output and files as on libc's malloc.

    scripts/test tests/programs/test_hardened_programs.py
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT, RunShim
from under_shim import RealProgram, need

pytestmark = [pytest.mark.preload, pytest.mark.slow]

INPUTS = ROOT / "tests" / "programs" / "inputs"

# Program -> command, who must have been served, input files, files to compare.
PROGRAMS = {
    "bash": (["bash", "work.sh"], ["bash"], ["work.sh"], []),
    "python3": (["/usr/bin/env", "python3", "work.py"], ["python3"], ["work.py"], []),
    "perl": (["perl", "work.pl"], ["perl"], ["work.pl"], []),
    "git": (["bash", "git.sh"], ["git", "bash"], ["git.sh"], []),
    "sqlite3": (["bash", "-c", "sqlite3 a.db < work.sql"], ["sqlite3"], ["work.sql"], []),
    "gcc": (["gcc", "-O2", "-c", "fold.c", "-o", "fold.o"], ["cc1"], ["fold.c"], ["fold.o"]),
    "node": (["node", "work.js"], ["node"], ["work.js"], []),
}
ENVIRONMENT = {"PYTHONMALLOC": "malloc"}


def levels() -> list[int]:
    """The levels of the option; 0, which every other test runs at, without such an option."""
    table = (ROOT / "shim" / "config.def").read_text()
    row = re.search(r'PS_OPTION\(HARDEN,[^)]*?"(\d)\.\.(\d)"', table)
    return list(range(int(row[1]), int(row[2]) + 1)) if row else [0]


# By day the highest level, which has every check; level 0 is every other test.
LEVELS = [
    pytest.param(level, marks=[pytest.mark.nightly] if level != levels()[-1] else [])
    for level in levels()
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(run_shim: RunShim, tmp_path: Path, name: str, level: int) -> None:
    need(name)
    command, served, inputs, outputs = PROGRAMS[name]
    env = {**ENVIRONMENT, **({"POOLSHIM_HARDEN": str(level)} if len(levels()) > 1 else {})}
    RealProgram(run_shim, tmp_path).compare(
        command, served, {name: (INPUTS / name).read_text() for name in inputs}, outputs, env,
        timeout=300,
    )  # fmt: skip
