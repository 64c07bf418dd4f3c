# SPDX-License-Identifier: MIT
"""scripts/package says which step runs, which files it made, and which step failed.

    scripts/test tests/repo/test_package_progress.py

The package of the pools library as sources is made, which compiles nothing.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, load_script, run_captured
from table import each_row

PACKAGE = load_script("package")
STEP = re.compile(r"scripts/package: step (\d+) of (\d+), (.+), \d+ s")


def package(output: Path) -> subprocess.CompletedProcess[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    command = [ROOT / "scripts" / "package", "--only", "source", "--output", output]
    return run_captured(command, timeout=300)


def steps_and_files_are_listed(tmp_path: Path) -> None:
    done = package(tmp_path / "dist")
    assert done.returncode == 0, done.stderr
    steps = [found for line in done.stderr.splitlines() if (found := STEP.fullmatch(line))]
    names = PACKAGE.step_names(["source"], None)
    assert list(dict.fromkeys(step[3] for step in steps)) == names
    assert {(step[1], step[2]) for step in steps} == {
        (str(number), str(len(names))) for number in range(1, len(names) + 1)}  # fmt: skip
    head, *files = done.stdout.splitlines()
    made = {path.name for path in (tmp_path / "dist").iterdir()}
    assert f"{len(made)} files in {tmp_path}/dist" in head
    assert {line.split()[-1] for line in files} == made
    assert all(re.fullmatch(r" +\d+ KiB  \S+", line) for line in files)


def a_failure_names_its_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = package(tmp_path / "file")
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-2:]
    assert re.match(r"scripts/package: step 4 of 4, .+ failed: .*file", last[0])
    assert last[1] == f"scripts/package: nothing was written to {tmp_path}/file"


def every_kind_has_its_steps(tmp_path: Path) -> None:
    every = PACKAGE.step_names(list(PACKAGE.KINDS), "bullseye")
    assert len(every) == len(set(every)) == 12
    assert len(PACKAGE.step_names(["deb"], None)) == 5


@each_row("check", [steps_and_files_are_listed, a_failure_names_its_step, every_kind_has_its_steps])
def test_progress(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)
