# SPDX-License-Identifier: MIT
"""bench/run.py and scripts/hyperfine-compare from end to end, at a size that takes a moment.

scripts/test tests/bench/test_bench_run.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, library_that_does_not_load, run_captured
from table import each_row

pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")
pytestmark = pytest.mark.bench

COMPARE = ROOT / "scripts" / "hyperfine-compare"
RIVALS = ("jemalloc", "tcmalloc", "mimalloc")


def run_tool(*words: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A command in an environment without preloads and settings."""
    dropped = ("LD_PRELOAD", "POOLSHIM_", "COLUMNS")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return run_captured(words, timeout=timeout, env=env)


def measure(build_dir: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """bench/run.py on this build."""
    command = (sys.executable, ROOT / "bench" / "run.py", "--build", build_dir)
    return run_tool(*command, *words)


def measured_json(build_dir: Path, folder: Path, *words: str) -> tuple[int, Any]:
    """Exit status and JSON result of bench/run.py."""
    path = folder / "result.json"
    done = measure(build_dir, "--json", path, *words)
    assert path.exists(), done.stderr
    return done.returncode, json.loads(path.read_text())


def test_whole_session(build_dir: Path, tmp_path: Path) -> None:
    """All cases, two allocators: tables on stdout, progress on stderr, JSON and Markdown."""
    files = ("--json", tmp_path / "r.json", "--markdown", tmp_path / "r.md")
    words = ("--quick", "--count", "20000", "--rounds", "2", "--allocators", "glibc,floor")
    done = measure(build_dir, *words, *files)
    assert done.returncode == 0, done.stderr
    assert "20,000 blocks of 8 bytes, uncontended" in done.stdout
    assert "20,000 blocks of 8 bytes, contended" in done.stdout
    assert "aligned to 16 and to 4096" in done.stdout
    assert "Machine: " in done.stdout
    assert sum("floor" in line for line in done.stderr.splitlines()) == 4 * 2

    result = json.loads((tmp_path / "r.json").read_text())
    assert result["schema"] == 1 and result["failures"] == []
    cases = {"uncontended", "contended", "page_blocks/16", "page_blocks/4096"}
    rows = {(row["case"], row["allocator"]): row for row in result["summaries"]}
    assert set(rows) == {(case, name) for case in cases for name in ("glibc", "floor")}
    for (_, name), row in rows.items():
        assert row["processes"] == 2
        assert row["alloc_ms"] > 0 and row["free_ms"] > 0 and row["peak_rss_mib"] > 0
        assert (row["to_baseline"] == 1) == (name == "glibc")
        assert (row["to_floor"] == 1) == (name == "floor")
    for run in result["runs"]:
        expected = run["launcher"]["is_expected_mapped"]
        assert expected is (None if run["allocator"] == "glibc" else True)
    assert (tmp_path / "r.md").read_text().count("### ") == 3


def test_library_that_does_not_load_fails_its_row(build_dir: Path, tmp_path: Path) -> None:
    """The loader ignores a broken preload and runs the program: without proof, a lie in a table."""
    broken = library_that_does_not_load(tmp_path)
    words = ("--only", "uncontended", "--count", "20000", "--allocators", "glibc,broken")
    done = measure(build_dir, *words, "--add", f"broken={broken}")
    assert done.returncode == 1
    assert "broken: FAILED: libbroken.so was not mapped" in done.stdout
    status, result = measured_json(build_dir, tmp_path, *words, "--add", f"broken={broken}")
    assert status == 1
    assert [failure["allocator"] for failure in result["failures"]] == ["broken"]
    assert [row["allocator"] for row in result["summaries"]] == ["glibc"]


def test_library_that_crashes_fails_its_row(build_dir: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "crash.c", tmp_path / "libcrash.so"
    source.write_text(
        "__attribute__((constructor)) static void f(void) { __builtin_trap(); }\n"
        "void *malloc(unsigned long bytes) { (void)bytes; return 0; }\n"
    )
    assert run_captured(["gcc", "-shared", "-fPIC", source, "-o", library]).returncode == 0
    words = ("--only", "uncontended", "--count", "20000", "--allocators", "crash")
    done = measure(build_dir, *words, "--add", f"crash={library}")
    assert done.returncode == 1
    assert "crash: FAILED: ended by signal" in done.stdout


def test_process_that_does_not_end_fails_its_row(build_dir: Path) -> None:
    words = ("--only", "uncontended", "--count", "1000000000", "--allocators", "floor")
    done = measure(build_dir, *words, "--timeout", "1")
    assert done.returncode == 1
    assert "floor: FAILED: no end after 1 s" in done.stdout


def test_missing_allocator_is_skipped_with_its_reason(build_dir: Path) -> None:
    words = ("--only", "uncontended", "--count", "20000", "--allocators", "glibc,gone")
    done = measure(build_dir, *words, "--add", "gone=libgone.so.9")
    assert done.returncode == 0
    assert "Not measured: gone, not found: libgone.so.9." in done.stdout


@each_row(
    ("words", "complaint"),
    [
        (["--count", "many"], "--count"),
        (["--count", "1"], "--count"),
        (["--rounds", "0"], "--rounds"),
        (["--allocators", "nomalloc"], "no 'nomalloc'"),
        (["--only", "everything"], "no 'everything'"),
        (["--add", "name"], "NAME=LIBRARY"),
        (["--add", "glibc=libx.so"], "already"),
        (["--add", "gone=libgone.so", "--allocators", "gone"], "not found: libgone.so"),
        (["--json", "/nonexistent/r.json"], "/nonexistent/r.json"),
        (["--build", "/nonexistent"], "build first"),
        (["--table", "/nonexistent.toml"], "/nonexistent.toml"),
        (["--bogus"], "--bogus"),
        (["extra"], "extra"),
    ],
)
def test_bad_request_is_one_line(build_dir: Path, words: list[str], complaint: str) -> None:
    done = measure(build_dir, *words)
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("run.py: ") and complaint in lines[0]


@pytest.mark.compare
@each_row("rival", RIVALS)
def test_rival_is_measured_and_proved(build_dir: Path, tmp_path: Path, rival: str) -> None:
    words = ("--count", "20000", "--quick", "--processes", "1", "--allocators")
    found = measure(build_dir, "--only", "uncontended", *words, rival)
    if "not found" in found.stderr:
        pytest.skip(found.stderr.strip())
    status, result = measured_json(build_dir, tmp_path, *words, rival)
    assert status == 0
    assert len(result["summaries"]) == 4
    assert all(run["launcher"]["is_expected_mapped"] for run in result["runs"])


@pytest.mark.preload
def test_poolshim_is_measured_and_proved(build_dir: Path, shim: Path, tmp_path: Path) -> None:
    words = ("--quick", "--count", "200000", "--processes", "1", "--allocators", "poolshim")
    status, result = measured_json(build_dir, tmp_path, *words)
    assert status == 0, result["failures"]
    assert len(result["summaries"]) == 4
    for run in result["runs"]:
        assert run["launcher"]["expected"] == str(shim.resolve())
        assert run["launcher"]["is_expected_mapped"] is True


# ---- scripts/hyperfine-compare ----


@pytest.fixture
def hyperfine() -> None:
    if shutil.which("hyperfine") is None:
        pytest.skip("hyperfine is not installed (Debian package hyperfine)")


@pytest.mark.usefixtures("hyperfine")
def test_hyperfine_compare_times_each_allocator(build_dir: Path, tmp_path: Path) -> None:
    script = "import sys; assert sys.argv[1:] == ['it\\'s', 'two words', '$HOME', '']"
    command = (sys.executable, "-c", script, "it's", "two words", "$HOME", "")
    options = ("--build", build_dir, "--runs", "2", "--allocators", "glibc,floor")
    result = tmp_path / "h.json"
    done = run_tool(COMPARE, *options, "--export-json", result, "--", *command)
    assert done.returncode == 0, done.stderr
    entries = json.loads(result.read_text())["results"]
    assert len(entries) == 2
    assert "LD_PRELOAD=" in entries[1]["command"] or entries[1]["command"] == "floor"
    table = [line.split() for line in done.stdout.splitlines()[1:3]]
    assert [row[0] for row in table] == ["glibc", "floor"]
    assert all(int(row[1]) > 1 for row in table)


@pytest.mark.usefixtures("hyperfine")
def test_hyperfine_compare_refuses_a_static_program(build_dir: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "static.c", tmp_path / "static"
    source.write_text("int main(void) { return 0; }\n")
    assert run_captured(["gcc", "-static", source, "-o", program]).returncode == 0
    done = run_tool(COMPARE, "--build", build_dir, "--runs", "2", "--", program)
    assert done.returncode == 1
    assert "not mapped in the command" in done.stderr


@pytest.mark.usefixtures("hyperfine")
def test_hyperfine_compare_refuses_a_failing_command(build_dir: Path) -> None:
    options = ("--build", build_dir, "--runs", "2", "--allocators", "glibc,floor")
    done = run_tool(COMPARE, *options, "--", "false")
    assert done.returncode == 1 and "FAILED, status 1" in done.stderr
    assert run_tool(COMPARE, *options, "--ignore-failure", "--", "false").returncode == 0


@pytest.mark.usefixtures("hyperfine")
@each_row(
    "words", [[], ["--"], ["--bogus", "--", "true"], ["--allocators", "no", "--", "true"]]
)
def test_hyperfine_compare_usage(build_dir: Path, words: list[str]) -> None:
    done = run_tool(COMPARE, "--build", build_dir, *words)
    assert done.returncode == 2
    assert "hyperfine-compare: " in done.stderr
