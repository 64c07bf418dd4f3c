# SPDX-License-Identifier: MIT
"""The emulated machine of scripts/dev/machine: what its console says, the table, what it refuses.

    scripts/test tests/bench/test_bench_machine.py      (nightly: once scripts/dev/machine has run)
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT, load_script, run_captured
from emulation import ARCHITECTURES, Console, Machine, Result
from emulation.console import BEGIN, END
from table import each_row
from under_shim import need

pytestmark = pytest.mark.bench

SCRIPT = ROOT / "scripts" / "dev" / "machine"
machine = load_script("machine")
FIGURES = {"status": 0, "samples": 9, "mean_mib": 10.04, "peak_mib": 20, "voluntary": 1234}


def framed(name: str, output: str, status: int = 0) -> str:
    return f"{BEGIN.format(name)}\r\n{output}{END.format(name, status)}\r\n"


def test_runs_are_told_apart_on_a_console() -> None:
    console = Console("Booting from ROM.." + framed("a", "x\r\n", 3) + framed("a.b", "y\r\nz\r\n"))
    assert console.begun == ["a", "a.b"]
    assert console.result("a") == Result("x\n", 3)
    assert console.result("a.b") == Result("y\nz\n", 0)


def test_output_comes_line_by_line_until_the_run_ends() -> None:
    console = Console(f"{BEGIN.format('a')}\r\none\r\ntw")
    assert console.output("a") == "one\n"
    console.add(f"o{END.format('a', 0)}\r\n")
    assert console.output("a") == "one\ntwo"


def test_figures_follow_the_output_of_the_command() -> None:
    watched = machine.WATCHED + json.dumps(FIGURES)
    assert machine.figures_of(Result(f"load ended\n{watched}\n", 0)) == FIGURES


@each_row(
    ("output", "status", "expected"),
    [
        ("a\nb\n" + machine.WATCHED + '{"status": 7}\n', 0, (7, ["a", "b"])),
        ("no watcher\n", 127, (127, ["no watcher"])),
        ("\n".join("abcdefg") + "\n", 0, (1, ["c", "d", "e", "f", "g"])),
    ],
)
def test_a_command_that_failed_has_last_lines(
    output: str, status: int, expected: tuple[int, list[str]]
) -> None:
    found = machine.figures_of(Result(output, status))
    assert (found["status"], found["last_lines"]) == expected


def test_a_table_has_a_row_for_each_allocator() -> None:
    figures = {"a": FIGURES, "b": {**FIGURES, "rest_mib": 3.26}, "c": {"status": 1}}
    assert machine.table_of(figures, has_counts=False)[2:] == [
        "| a | 10.0 | 20.0 | – |",
        "| b | 10.0 | 20.0 | 3.3 |",
        "| c | failed | failed | failed |",
    ]
    assert "| 1,234 | – |" in machine.table_of(figures, has_counts=True)[2]


@each_row(
    ("words", "message"),
    [
        (["--cpus", "0", "--", "true"], "--cpus 0: 1 to"),
        (["--cpus", "2", "--quota", "3", "--", "true"], "--quota 3: 0.01 to 2 "),
        (["--cpus", "2", "--mib", "1", "--", "true"], "--mib 1: at least"),
        (["--cpus", "2", "--", "/no/command"], "/no/command is no command here"),
        (["--cpus", "2", "--only", "no", "--", "true"], "no allocator no here"),
        (["--cpus", "2", "--plain", "--only", "glibc,poolshim", "--", "true"], "on one allocator"),
    ],
)
def test_wrong_options_end_in_one_line(words: list[str], message: str) -> None:
    result = run_captured([SCRIPT, *words])
    assert result.returncode == 2
    assert result.stderr.startswith("scripts/dev/machine: ")
    assert message in result.stderr and result.stderr.count("\n") == 1


def need_machine(name: str) -> None:
    """Skips the test where none has been booted, which takes downloads."""
    there = ARCHITECTURES[name]
    need(*Machine(there, 2, 512).needs())
    if not there.has_kernel():
        pytest.skip(f"scripts/dev/machine --arch {name} has not run here")


@pytest.mark.nightly
def test_a_machine_measures_memory_and_counts_calls(build_dir: Path) -> None:
    need_machine("x86_64")
    words = [SCRIPT, "--cpus", "2", "--only", "glibc,poolshim", "--counts", "--json", "--"]
    result = run_captured([*words, build_dir / "bench/servers/pool", "2000"], timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads(result.stdout)["allocators"]
    for one in figures.values():
        assert one["peak_mib"] >= one["mean_mib"] > 0 and one["peak_mib"] >= one["rest_mib"] > 0
        assert one["futex"] > 0 and one["voluntary"] > 0
    assert figures["poolshim"]["rest_mib"] < figures["glibc"]["rest_mib"]


@pytest.mark.nightly
def test_a_plain_command_has_its_own_output_status_and_processors(tmp_path: Path) -> None:
    need_machine("x86_64")
    command = ["sh", "-c", f"nproc; touch {tmp_path}/made && ls {tmp_path}; exit 5"]
    result = run_captured([SCRIPT, "--cpus", "3", "--plain", "--", *command], timeout=300)
    assert (result.returncode, result.stdout) == (5, "3\nmade\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_a_machine_of_another_architecture_runs_its_build() -> None:
    need_machine("aarch64")
    there = ARCHITECTURES["aarch64"]
    server = there.build / "bench" / "servers" / "pool"
    if there.is_native or not server.exists():
        pytest.skip(f"{server} is not built")
    words = [SCRIPT, "--arch", "aarch64", "--cpus", "2", "--only", "glibc,poolshim", "--json", "--"]
    result = run_captured([*words, server, "2000"], timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads(result.stdout)["allocators"]
    assert figures["poolshim"]["rest_mib"] < figures["glibc"]["rest_mib"]


@pytest.mark.nightly
def test_threads_of_another_architecture_have_sequences() -> None:
    """User-mode emulation has none: tests that need them pass there without a check."""
    need_machine("aarch64")
    there = ARCHITECTURES["aarch64"].build
    unit = there / "tests" / "unit" / "front_test"
    scenario = there / "tests" / "scenarios" / "vfork_child_is_not_registered"
    if ARCHITECTURES["aarch64"].is_native or not (unit.exists() and scenario.exists()):
        pytest.skip(f"{unit} and {scenario} are not built")
    command = f"{unit} && LD_PRELOAD={there / 'libpoolshim.so'} {scenario}"
    words = [SCRIPT, "--arch", "aarch64", "--cpus", "2", "--plain", "--", "sh", "-c", command]
    result = run_captured(words, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "not registered" not in result.stdout
