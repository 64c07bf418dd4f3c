# SPDX-License-Identifier: MIT
"""The workload programs of the suite do the work they report, and notice an allocator that lies.

scripts/test tests/bench/test_bench_workloads.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from table import each_row
from under_shim import transparent_huge_pages

pytestmark = pytest.mark.bench

# Program -> (its command line here, rounds it then reports, operations in each of them).
WORKLOADS: dict[str, tuple[str, int, int]] = {
    "pair": ("--operations 1001 --depth 10 --rounds 2", 2, 1010),
    "replace": ("--slots 100 --operations 500 --rounds 3", 3, 500),
    "server": ("--threads 3 --slots 50 --generations 2 --operations 100 --rounds 2", 2, 600),
    "ring": ("--pairs 2 --blocks 1000 --slots 64 --rounds 2", 2, 2000),
    "bursts": ("--blocks 200 --survivors 40 --keep 10 --bursts 3 --rounds 2", 2, 600),
    "churn": ("--slots 2 --max 1000000 --operations 20 --rounds 2", 2, 20),
    "storm": ("--threads 4 --blocks 10 --waves 3 --rounds 2", 2, 12),
    "growth": ("--max-mib 4 --operations 1000 --samples 50", 3, 1000),
    "startup": ("--processes 3 --rounds 2", 2, 3),
    "sparse": ("--blocks 100 --touched 100", 1, 100),
    "silence": ("--threads 2 --mib 1 --ms 5", 1, 2 * 141),
}

# A malloc in front of glibc's that counts its calls, fails, or hands a block out twice.
SABOTEUR = r"""
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *__libc_malloc(size_t), __libc_free(void *), *__libc_realloc(void *, size_t);
static atomic_long taken, freed;
static _Atomic(void *) twice;
static int is_mode(const char *mode) {
    const char *value = getenv("SABOTAGE");
    return value != NULL && strcmp(value, mode) == 0;
}
void *malloc(size_t bytes) {
    void *block = __libc_malloc(bytes);
    long number = ++taken;
    if (is_mode("exhausted") && number > 300) { return NULL; }
    if (is_mode("twice") && bytes >= 64 && number > 20) {
        void *first = NULL;
        if (!atomic_compare_exchange_strong(&twice, &first, block)) { return first; }
    }
    return block;
}
void *realloc(void *block, size_t bytes) {
    char *grown = __libc_realloc(block, bytes);
    if (is_mode("forgetful") && block != NULL) { memset(grown, 0xee, 64); }
    return grown;
}
void free(void *block) {
    freed += block != NULL;
    if (!is_mode("twice")) { __libc_free(block); }
}
__attribute__((destructor)) static void tell(void) {
    if (is_mode("count")) { fprintf(stderr, "%ld %ld\n", (long)taken, (long)freed); }
}
"""


@pytest.fixture(scope="module")
def saboteur(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saboteur")
    source, library = folder / "saboteur.c", folder / "libsaboteur.so"
    source.write_text(SABOTEUR)
    flags = ["-O1", "-fno-builtin", "-shared", "-fPIC"]
    done = run_captured(["gcc", *flags, source, "-o", library])
    assert done.returncode == 0, done.stderr
    return library


def run_workload(
    build_dir: Path, name: str, words: str, sabotage: tuple[Path, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """bench/<name> with these options."""
    dropped = ("LD_PRELOAD", "POOLSHIM_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    if sabotage is not None:
        env |= {"LD_PRELOAD": str(sabotage[0]), "SABOTAGE": sabotage[1]}
    return run_captured([build_dir / "bench" / name, *words.split()], env=env)


def report_of(build_dir: Path, name: str, words: str) -> dict[str, Any]:
    done = run_workload(build_dir, name, f"{words} --json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@each_row("name", WORKLOADS)
def test_workload_reports_its_options_and_rounds(build_dir: Path, name: str) -> None:
    words, rounds, operations = WORKLOADS[name]
    report = report_of(build_dir, name, words)
    assert report["benchmark"] == name
    for option, value in re.findall(r"--([\w-]+) (\d+)", words):
        assert option == "rounds" or report[option] == int(value)
    assert [entry["operations"] for entry in report["rounds"]] == [operations] * rounds
    assert all(entry["ms"] > 0 for entry in report["rounds"])
    total_ms = sum(entry["ms"] for entry in report["rounds"])
    assert report["total_ms"] == pytest.approx(total_ms, abs=0.01)
    assert report["peak_rss_kib"] > 100


@each_row(
    ("name", "expected"),
    [("pair", 2 * 1010), ("replace", 100 + 100 + 3 * 500), ("server", 150 + 2 * 600),
     ("ring", 2 * 2000), ("storm", 2 * 3 * 4 * 10)],
)  # fmt: skip
def test_every_block_is_really_allocated_and_freed(
    build_dir: Path, saboteur: Path, name: str, expected: int
) -> None:
    """No call is elided; the C library and the report add a few of their own."""
    done = run_workload(build_dir, name, WORKLOADS[name][0], (saboteur, "count"))
    taken, freed = map(int, done.stderr.split())
    assert expected <= taken <= expected + 200
    assert expected <= freed <= expected + 200


@each_row("name", ["pair", "replace", "server", "ring", "bursts", "churn", "storm"])
def test_block_handed_out_twice_is_noticed(build_dir: Path, saboteur: Path, name: str) -> None:
    done = run_workload(build_dir, name, WORKLOADS[name][0], (saboteur, "twice"))
    assert done.returncode == 1
    assert f"{name}: " in done.stderr and "overwritten" in done.stderr


def test_realloc_that_forgets_is_noticed(build_dir: Path, saboteur: Path) -> None:
    done = run_workload(build_dir, "churn", WORKLOADS["churn"][0], (saboteur, "forgetful"))
    assert done.returncode == 1
    assert "churn: a block of" in done.stderr and "overwritten" in done.stderr


def test_malloc_that_fails_ends_the_workload(build_dir: Path, saboteur: Path) -> None:
    done = run_workload(build_dir, "replace", "--slots 1000", (saboteur, "exhausted"))
    assert done.returncode == 1
    assert re.search(r"replace: malloc\(\d+\) failed", done.stderr)


def test_growth_has_one_round_per_doubling(build_dir: Path) -> None:
    rounds = report_of(build_dir, "growth", "--max-mib 4 --operations 1000")["rounds"]
    assert [round(entry["live_kib"] / 1024) for entry in rounds] == [1, 2, 4]
    assert all(entry["rss_kib"] > entry["live_kib"] for entry in rounds)
    assert all(entry["fill_ns"] > 0 for entry in rounds)


def test_idle_threads_see_the_dirty_memory_of_a_thread(build_dir: Path) -> None:
    """glibc: a stack page or two and an arena; far from the 64 KiB of a whole stack."""
    if transparent_huge_pages() == "always":
        pytest.skip("the kernel makes huge pages of stacks")
    report = report_of(build_dir, "idle_threads", "--threads 50")
    assert 4 <= report["rounds"][-1]["dirty_kib_per_thread"] < 60


def test_turns_keep_what_they_say(build_dir: Path) -> None:
    """The last peak and the retained blocks are needed, whatever the allocator."""
    [round_] = report_of(build_dir, "turns", "--threads 3 --mib 4")["rounds"]
    assert 4 < round_["needed_mib"] < 5 and round_["rss_mib"] > 1


def test_sleepers_see_what_was_worked_with(build_dir: Path) -> None:
    [round_] = report_of(build_dir, "sleepers", "--threads 4 --seconds 0 --live 100")["rounds"]
    assert round_["worked_mib"] > 0.5 and round_["rss_mib"] > 0.5


def test_trivial_process_makes_three_blocks(build_dir: Path, saboteur: Path) -> None:
    done = run_workload(build_dir, "trivial", "", (saboteur, "count"))
    assert done.returncode == 0 and done.stdout == ""
    taken, freed = map(int, done.stderr.split())
    assert 3 <= taken <= 6 and 3 <= freed <= 6
    assert json.loads(run_workload(build_dir, "trivial", "--json").stdout)["rounds"] == []


def test_sparse_sees_what_is_touched(build_dir: Path) -> None:
    rss = [
        report_of(build_dir, "sparse", f"--blocks 2048 --touched {touched}")["rounds"][0]["rss_mib"]
        for touched in (64, 8192)
    ]
    assert 7 < rss[0] + 1 < rss[1]


def test_silence_sees_what_was_given_back(build_dir: Path) -> None:
    """glibc trims the top of its heap when all is free."""
    [entry] = report_of(build_dir, "silence", "--mib 64 --ms 5")["rounds"]
    assert 0 < entry["kept_percent"] < 90
    assert entry["rss_mib"] < 58


@each_row("order", ["forward", "reverse", "shuffled"])
@each_row("mode", ["uncontended", "contended"])
def test_list_is_freed_in_any_order(build_dir: Path, mode: str, order: str) -> None:
    words = f"--mode {mode} --order {order} --count 20000 --rounds 2 --size 24"
    report = report_of(build_dir, "list100m", words)
    assert report["order"] == order
    assert [entry["nodes_freed"] for entry in report["rounds"]] == [20001, 20001]


@each_row("name", WORKLOADS)
def test_help_names_every_option(build_dir: Path, name: str) -> None:
    shown = run_workload(build_dir, name, "--help")
    assert shown.returncode == 0
    for option in re.findall(r"--[\w-]+", WORKLOADS[name][0]):
        assert option in shown.stdout


@each_row(
    ("name", "words"),
    [("pair", "--depth 0"), ("pair", "--min 64 --max 32"), ("replace", "--log 2"),
     ("server", "--threads x"), ("ring", "--slots 99999999"), ("storm", "--bogus 1"),
     ("growth", "extra"), ("list100m", "--order sideways")],
)  # fmt: skip
def test_bad_arguments_give_one_line(build_dir: Path, name: str, words: str) -> None:
    done = run_workload(build_dir, name, words)
    assert done.returncode == 2
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1


@each_row("path", sorted(ROOT.glob("bench/*.c")))
def test_workload_says_what_is_timed(path: Path) -> None:
    head = path.read_text().split("*/", 2)[1]
    assert re.search(r"timed", head, re.IGNORECASE)
    if path.stem not in ("list100m", "page_blocks"):
        assert path.read_text().count("\n") < 120
