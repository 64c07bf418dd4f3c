# SPDX-License-Identifier: MIT
"""scripts/dev/matrix where it cannot do its work: one line, the right exit status, nothing left.

    scripts/test tests/repo/test_matrix_table.py         the real thing: scripts/test --packages
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row

SCRIPT = ROOT / "scripts" / "dev" / "matrix"
CELL = "bullseye-gcc-10"


def fake(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def matrix(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With the commands of tmp_path/bin; unshare runs its command and nothing else."""
    if os.geteuid() != 0:
        pytest.skip("the script wants root, before it makes anything")
    fake(tmp_path / "bin", "unshare", 'while [ "${1#-}" != "$1" ] || [ "$1" = private ]; do shift; '
         'done; exec "$@"')  # fmt: skip
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    return run_captured([SCRIPT, "--folder", tmp_path / "folder", *arguments], env=env)


def test_cells_of_a_system_have_its_name_and_others_are_refused() -> None:
    result = run_captured([SCRIPT, "--list", "sarge"])
    assert result.returncode == 2
    assert result.stderr == "scripts/dev/matrix: no cell sarge; see --list\n"
    cells = run_captured([SCRIPT, "--list"]).stdout.split()
    some = run_captured([SCRIPT, "--list", "bullseye"]).stdout.split()
    assert some == [cell for cell in cells if cell.startswith("bullseye-")]
    assert CELL in some and len(set(cells)) == len(cells) > len(some)


def a_system_that_cannot_be_made_is_a_line_with_its_log(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "debootstrap", "echo 'E: Failed getting release file http://x'; exit 1")
    result = matrix(tmp_path, CELL)
    log = tmp_path / "folder" / "bullseye" / "system.log"
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout == (
        f"{CELL}: not tried: debootstrap: E: Failed getting release file http://x (log: {log})\n")
    assert {path for path in tmp_path.iterdir()} == {tmp_path / "bin", tmp_path / "folder"}


def results_are_kept_for_the_same_sources(tmp_path: Path) -> None:
    """A finished cell is not run again; with other sources it is. A failure is exit status 1."""
    fake(tmp_path / "bin", "debootstrap", "echo 'E: asked for a system'; exit 1")
    settings = {"CC": "gcc-10", "CXX": "g++-10"}
    sources = runpy.run_path(str(SCRIPT))["Matrix"](tmp_path, 0).sources
    folder = tmp_path / "folder" / "bullseye"
    folder.mkdir(parents=True)
    findings = {"passed": "yes", "libc": "glibc 2.31", "log": "x.log"}
    for change, expected in (
        ({}, f"{CELL}: passed, 0 s\n"),
        ({"findings": {"failed": "threads", "libc": "glibc 2.31", "log": "x.log"}},
         f"{CELL}: fails: threads, 0 s (log: x.log)\n"),
        ({"sources": "0" * 64}, f"{CELL}: not tried: debootstrap: E: asked for a system"),
    ):  # fmt: skip
        content = {"sources": sources, "settings": settings, "findings": findings, **change}
        (folder / "gcc-10.json").write_text(json.dumps(content))
        result = matrix(tmp_path, CELL)
        assert result.stdout.startswith(expected)
        assert result.returncode == (0 if not change else 1)


def the_error_is_that_of_the_last_command(tmp_path: Path) -> None:
    """Not an earlier one of the same log, nor what apt says each time."""
    log = tmp_path / "system.log"
    log.write_text("E: of an earlier run\n")
    start = log.stat().st_size
    with log.open("a") as output:
        output.write("E: Can not write log (Is /dev/pts mounted?) - posix_openpt\n")
        output.write("E: Unable to locate package clang-99\nReading package lists...\n")
    last_error = runpy.run_path(str(SCRIPT))["bare_root"].last_error
    assert last_error(log, start) == "E: Unable to locate package clang-99"


@each_row(
    "check",
    [
        a_system_that_cannot_be_made_is_a_line_with_its_log,
        results_are_kept_for_the_same_sources,
        the_error_is_that_of_the_last_command,
    ],
)
def test_a_run_that_cannot_do_its_work(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)
