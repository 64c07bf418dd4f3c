# SPDX-License-Identifier: MIT
"""The benchmark programs do the work they report, and notice an allocator that does not.

scripts/test tests/bench/test_bench_programs.py
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import run_captured
from table import each_row

pytestmark = pytest.mark.bench

# A malloc in front of glibc's that counts, or misbehaves, for blocks of 4240 bytes.
SABOTEUR = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>
void *__libc_malloc(size_t), __libc_free(void *), *__libc_memalign(size_t, size_t);
static atomic_long taken, freed;
static void *tenth;
static int is_mode(const char *mode) {
    const char *value = getenv("SABOTAGE");
    return value != NULL && strcmp(value, mode) == 0;
}
static void *sabotaged(void *block) {
    long number = ++taken;
    if (number == 10) { tenth = block; }
    if (number == 20 && is_mode("twice")) { return tenth; }
    if (number == 20 && is_mode("exhausted")) { errno = ENOMEM; return NULL; }
    return block;
}
void *malloc(size_t bytes) {
    void *block = __libc_malloc(bytes);
    return bytes == 4240 ? sabotaged(block) : block;
}
int posix_memalign(void **result, size_t alignment, size_t bytes) {
    *result = sabotaged(__libc_memalign(alignment, bytes + 64));
    if (is_mode("crooked")) { *result = (char *)*result + 8; }
    return *result == NULL ? ENOMEM : 0;
}
void free(void *block) {
    if (block != NULL) { freed++; }
    if (!is_mode("crooked")) { __libc_free(block); }
}
__attribute__((destructor)) static void tell(void) {
    if (is_mode("count")) { fprintf(stderr, "%ld %ld\n", (long)taken, (long)freed); }
}
"""


@pytest.fixture(scope="module")
def saboteur(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library built from SABOTEUR."""
    folder = tmp_path_factory.mktemp("saboteur")
    source, library = folder / "saboteur.c", folder / "saboteur.so"
    source.write_text(SABOTEUR)
    command = ["gcc", "-O1", "-shared", "-fPIC", "-fno-builtin", source, "-o", library]
    built = run_captured(command)
    assert built.returncode == 0, built.stderr
    return library


def run_program(
    build_dir: Path, *words: str, sabotage: tuple[Path, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """bench/<first word> with the other words as arguments."""
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if sabotage is not None:
        env |= {"LD_PRELOAD": str(sabotage[0]), "SABOTAGE": sabotage[1]}
    return run_captured([build_dir / "bench" / words[0], *words[1:]], env=env)


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one JSON object that a successful run prints."""
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@each_row("mode", ["uncontended", "contended"])
def test_list_reports_every_round(build_dir: Path, mode: str) -> None:
    words = ("--mode", mode, "--count", "5000", "--rounds", "4", "--size", "24", "--json")
    report = report_of(run_program(build_dir, "list100m", *words))
    assert report["benchmark"] == "list100m"
    assert (report["mode"], report["count"], report["nodes_per_round"]) == (mode, 5000, 5001)
    assert report["block_bytes"] == 24 and report["floor_reuse"] is False
    assert len(report["rounds"]) == 4
    for measured in report["rounds"]:
        assert measured["nodes_freed"] == 5001 and measured["reused"] is False
        assert measured["alloc_mops"] == pytest.approx(5.001 / measured["alloc_ms"], rel=0.05)
        assert measured["free_mops"] == pytest.approx(5.001 / measured["free_ms"], rel=0.05)
    allocating_ms = sum(measured["alloc_ms"] for measured in report["rounds"])
    assert report["total_ms"] >= allocating_ms
    assert report["peak_rss_kib"] > 100


def test_list_defaults_are_the_published_ones(build_dir: Path) -> None:
    shown = run_program(build_dir, "list100m", "--help")
    assert shown.returncode == 0
    for default in ("(100000000)", "(8)", "(3)"):
        assert default in shown.stdout


def test_list_prints_readable_lines(build_dir: Path) -> None:
    done = run_program(build_dir, "list100m", "--count", "1000", "--rounds", "2")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "round",
        "round",
        "total:",
    ]


@each_row("mode", ["uncontended", "contended"])
def test_list_calls_malloc_and_free_for_every_node(
    build_dir: Path, saboteur: Path, mode: str
) -> None:
    words = ("--mode", mode, "--count", "1000", "--rounds", "3", "--size", "4240")
    done = run_program(build_dir, "list100m", *words, sabotage=(saboteur, "count"))
    taken, freed = map(int, done.stderr.split())
    assert taken == 3 * 1001
    assert freed >= taken


def test_list_notices_a_block_handed_out_twice(build_dir: Path, saboteur: Path) -> None:
    words = ("--count", "1000", "--rounds", "1", "--size", "4240")
    done = run_program(build_dir, "list100m", *words, sabotage=(saboteur, "twice"))
    assert done.returncode == 1
    assert "round 1 freed 991 nodes, built 1001" in done.stderr


def test_list_notices_that_malloc_failed(build_dir: Path, saboteur: Path) -> None:
    words = ("--count", "1000", "--size", "4240")
    done = run_program(build_dir, "list100m", *words, sabotage=(saboteur, "exhausted"))
    assert done.returncode == 1
    assert "malloc(4240) failed" in done.stderr


@each_row("alignment", [16, 4096])
def test_page_blocks_reports_every_round(build_dir: Path, alignment: int) -> None:
    words = ("--align", str(alignment), "--count", "300", "--rounds", "3", "--json")
    report = report_of(run_program(build_dir, "page_blocks", *words))
    assert (report["benchmark"], report["alignment"]) == ("page_blocks", alignment)
    assert (report["count"], report["block_bytes"]) == (300, 4096)
    assert len(report["rounds"]) == 3
    assert all(r["alloc_ms"] > 0 and r["free_ms"] > 0 for r in report["rounds"])
    assert report["peak_rss_kib"] >= 300 * 4, "every block was touched"


@each_row(
    ("mode", "complaint"),
    [("crooked", "is not aligned to 4096"), ("twice", "block 9 was overwritten")],
)
def test_page_blocks_notices_a_wrong_block(
    build_dir: Path, saboteur: Path, mode: str, complaint: str
) -> None:
    words = ("--align", "4096", "--count", "100", "--rounds", "1")
    done = run_program(build_dir, "page_blocks", *words, sabotage=(saboteur, mode))
    assert done.returncode == 1
    assert complaint in done.stderr


@each_row(
    "words",
    [
        ("list100m", "--count", "0"),
        ("list100m", "--count", "12x"),
        ("list100m", "--count", "-3"),
        ("list100m", "--size", "7"),
        ("list100m", "--rounds", "65"),
        ("list100m", "--mode", "both"),
        ("list100m", "extra"),
        ("page_blocks", "--align", "24"),
        ("page_blocks", "--align", "4"),
        ("page_blocks", "--count", ""),
        ("page_blocks", "extra"),
    ],
)
def test_bad_arguments_give_one_line(build_dir: Path, words: tuple[str, ...]) -> None:
    done = run_program(build_dir, *words)
    assert done.returncode == 2
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1
