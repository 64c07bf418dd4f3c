# SPDX-License-Identifier: MIT
"""`poolshim profile --pid`: one line and the right exit status where there can be no profile.

    scripts/test tests/cli/test_cli_profile_refused.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run_captured
from running import SILENT, Start, run_as_nobody, spawn, start
from sampling import Sample, complaint, end, poolshim, program, sample, work
from table import each_row

__all__ = ["program", "sample", "spawn", "start"]

pytestmark = pytest.mark.preload


def test_a_process_that_allocates_nothing(spawn: Start, program: Path) -> None:
    process = spawn([program])
    line = complaint(poolshim("--pid", str(process.pid), "--seconds", "0.3"), 1)
    assert line.startswith(f"process {process.pid} has noticed nothing in 0.3 s")


def test_another_mode(start: Start) -> None:
    process = start(SILENT, POOLSHIM_HARDEN="1")
    line = complaint(poolshim("--pid", str(process.pid)), 1)
    assert line.startswith(f"process {process.pid} cannot be sampled: it runs with POOLSHIM_HARDEN")


def test_a_process_without_poolshim(start: Start) -> None:
    pid = start(SILENT, preload=False).pid
    line = complaint(poolshim("--pid", str(pid)), 1)
    assert line == f"process {pid} does not run on poolshim\n"


@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    pid = start(SILENT).pid
    assert "not permitted" in complaint(run_as_nobody("profile", "--pid", str(pid)), 126)


OTHER = """
const struct { char magic[16]; unsigned version, words[7]; } poolshim_layout = {
    "poolshim layout", %d, {328, 12, 99}};
"""


@each_row("version", [0, 1, 99])
def test_another_version(start: Start, tmp_path: Path, version: int) -> None:
    source, library = tmp_path / "other.c", tmp_path / "libpoolshim.so"
    source.write_text(OTHER % version)
    assert run_captured(["gcc", "-shared", "-fPIC", source, "-o", library]).returncode == 0
    pid = start(SILENT, preload=False, LD_PRELOAD=str(library)).pid
    line = complaint(poolshim("--pid", str(pid)), 1)
    assert line == (f"process {pid}: its libpoolshim.so has version {version} of the layout, this "
                    "command reads 3\n")  # fmt: skip


def test_an_older_library(start: Start, shim: Path, tmp_path: Path) -> None:
    library = tmp_path / "libpoolshim.so"
    data = shim.read_bytes()
    assert data.count(b"set.sample-beat\0") == 1
    library.write_bytes(data.replace(b"set.sample-beat\0", b"set.sample-bear\0"))
    pid = start(SILENT, preload=False, LD_PRELOAD=str(library)).pid
    line = complaint(poolshim("--pid", str(pid)), 1)
    assert line.endswith("is older than this command: it does not describe set.sample-beat\n")


def test_a_full_disk(spawn: Start, sample: Sample, program: Path) -> None:
    process = spawn([program])
    command = sample(process, "-o", "/dev/full")
    work(process)
    done = end(command)
    assert complaint(done, 125) == "/dev/full: No space left on device\n"


def test_a_half_written_file(
    spawn: Start, sample: Sample, program: Path, tmp_path: Path
) -> None:
    process, path = spawn([program]), tmp_path / "h.pb.gz"
    command = sample(process, "-o", path)
    work(process)
    assert end(command).returncode == 0
    whole = path.read_bytes()
    for length in (0, 1, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        line = complaint(poolshim("--read", path), 2)
        assert line.startswith(f"{path}: not a profile in pprof's format: ")


@each_row(
    ("words", "status", "line"),
    [
        (["--pid", "no-such-program"], 127, "no process has the name no-such-program"),
        (["--pid", "1", "--container", "a"], 2, "one process at a time"),
        (["--pid", "0"], 2, "--pid: 0 is out of range"),
        (["--pid"], 2, "--pid needs a value"),
        (["--pid", "2147483646"], 127, "no process 2147483646"),
        (["--pid", "1", "--seconds", "0"], 2, "--seconds: 0 is out of range"),
        (["--pid", "1", "--seconds", "x"], 2, "--seconds: x is no number"),
        (["--seconds", "3", "--", "true"], 2, "--seconds goes with --pid"),
        (["--pid", "1", "--interval", "x"], 2,
         "--interval: x is not a size such as 65536, 64K or 64KiB"),
        (["--pid", "1", "--interval", "0"], 2, "--interval: 0 is out of range"),
        (["--pid", "1", "--interval", "2048G"], 2, "--interval: 2048G is out of range"),
        (["--pid", "1", "true"], 2,
         "--pid samples a process that runs: no command, --read or --names"),
        (["--pid", "1", "--diff", "a", "b"], 2,
         "--diff reads profiles: no command, and no option about one"),
        (["--pid", "1", "-o", "/none/x"], 2, "/none/x: No such file or directory"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(words: list[str], status: int, line: str) -> None:
    assert complaint(poolshim(*words), status) == line + "\n"
