# SPDX-License-Identifier: MIT
"""Rates and lifetimes of `poolshim profile`, of a program whose truth is known, and its tables.

    scripts/test tests/cli/test_cli_profile_rates.py
"""

from __future__ import annotations

import io
import json
import random
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from programs import compile_program
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof  # noqa: E402
from poolshim_cli.profile import dumps, rates, table  # noqa: E402
from poolshim_cli.profile.sites import Row, error_of  # noqa: E402

pytestmark = pytest.mark.preload

POOLSHIM = ROOT / "scripts" / "poolshim"
TURNS, SLOTS, BLOCK = 40, 2000, 1024
# cycle: each of 2000 blocks is replaced after 2000 others. hold: none is freed. scratch: all are.
PROGRAM = r"""
#include <stdlib.h>
#define SITE __attribute__((noinline)) static void
#define OUT(block) __asm__ volatile("" : "+r"(block) : : "memory")
static void *slots[2000], *held[2000];
SITE cycle(int i) { free(slots[i]); slots[i] = malloc(1024); OUT(slots[i]); }
SITE hold(int i) { held[i] = malloc(1024); OUT(held[i]); }
SITE scratch(void) { void *block = malloc(1024); OUT(block); free(block); __asm__ volatile(""); }
int main(void) {
    for (int turn = 0; turn < 40; turn++) {
        for (int i = 0; i < 2000; i++) {
            cycle(i);
            scratch();
            if (turn == 0) {
                hold(i);
            }
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("rates"), "rates", PROGRAM, "-g", "-fno-builtin")


def test_rates_and_lifetimes_of_a_program(program: Path) -> None:
    need("addr2line")
    done = run_captured([POOLSHIM, "profile", "--json", "--alloc", "--interval", "8KiB", "--",
                         program])  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    seconds = found["seconds"]
    rounded = 0.01 + 0.0005 / seconds  # they are milliseconds
    rows = {row["name"]: row for row in found["sites"]}
    for name, made in (("cycle", TURNS), ("hold", 1), ("scratch", TURNS)):
        row, truth = rows[name], made * SLOTS * BLOCK / seconds
        assert row["bytes_per_s"] == pytest.approx(row["nbytes"] / seconds, rel=rounded)
        assert abs(row["bytes_per_s"] - truth) <= 2 * row["bytes_per_s_error"], name
        assert row["blocks_per_s"] == pytest.approx(row["bytes_per_s"] / BLOCK, rel=0.01)
    cycle = rows["cycle"]
    assert abs(cycle["lifetime_s"] - seconds / TURNS) <= 2 * cycle["lifetime_error_s"]
    assert cycle["lifetime_error_s"] < seconds / TURNS
    assert rows["hold"]["lifetime_s"] is None  # not in balance
    assert rows["scratch"]["lifetime_s"] == 0 and rows["scratch"]["lifetime_error_s"] > 0


def test_the_interval_of_a_lifetime_has_the_truth() -> None:
    generator, inside, period = random.Random(5), 0, 16 << 10
    for _ in range(300):
        sums, hit = [], 1 - 2.718281828 ** (-BLOCK / period)
        for blocks in (3000, 9000):  # live, freed
            count = round(sum(generator.random() < hit for _ in range(blocks)) / hit)
            sums.append(rates.Sum(count * BLOCK, count, error_of(count * BLOCK, count, period)))
        found = rates.lifetime_of(*sums, period, 60.0)
        assert found is not None
        inside += abs(found[0] - 15.0) <= found[1]
    assert 275 <= inside <= 295  # of 300: 285 on average, standard deviation 4


@each_row("seconds, text", [
    (4e-5, "40 µs"), (0.0123, "12 ms"), (0.19, "190 ms"), (3.21, "3.2 s"), (119.0, "119 s"),
    (300.0, "5 min"), (7200.0, "2 h"),
])  # fmt: skip
def test_times(seconds: float, text: str) -> None:
    assert rates.seconds_text(seconds) == text


def test_growth_between_profiles_of_one_process(program: Path, tmp_path: Path) -> None:
    minute = 60 * 10**9
    first = pprof.Profile(time_nanos=1, pid=1)
    later = pprof.Profile(time_nanos=1 + 2 * minute, pid=1)
    sampled = pprof.Profile(time_nanos=1 + minute, duration_nanos=1, pid=1)
    assert dumps.seconds_between(first, later) == 120
    assert dumps.seconds_between(later, first) == dumps.seconds_between(first, sampled) == 0
    change = dumps.Change("f", 3 << 20, 1, 1 << 20, ())
    assert change.to_json(120.0)["bytes_per_minute"] == 3 << 19
    assert change.to_json(0.0)["bytes_per_minute"] is None
    for name in ("a", "b"):
        done = run_captured([POOLSHIM, "profile", "-o", tmp_path / name, "--", program])
        assert done.returncode == 0
    done = run_captured([POOLSHIM, "profile", "--diff", tmp_path / "a", tmp_path / "b"])
    assert done.returncode == 0 and "minute" not in done.stdout  # two processes


RATE = rates.Rate(5e6, 1e5, 12345.0, 4.1, 0.3)
LONG = "some_library::with_a_namespace::function_with_a_long_name"
CALLERS = ("caller", "another_caller_with_a_name", "main")


@each_row("width", [110, 80, 50])
def test_tables_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "columns_of", lambda _: width)
    out = io.StringIO()
    rows = [Row(LONG, 3 << 20, 100, 1 << 18, CALLERS, RATE), Row("g", 1 << 20, 7, 9, (), RATE)]
    table.print_rows([*rows, rows[1]], 2, out)
    changes = [dumps.Change(LONG, -(3 << 20), -7, 1 << 18, CALLERS),
               dumps.Change("g", 1 << 20, 7, 9, ())]  # fmt: skip
    table.print_changes([*changes, changes[1]], 2, out, 30.0)
    lines = out.getvalue().splitlines()
    text = "\n".join(lines)
    assert all(len(line) <= width for line in lines) or width == 110
    assert LONG in "".join(text.split()) and "…" not in text
    assert text.count("1 more") == 2 and "-6.0" in text
    assert ("lifetime" in text) == ("4.1 s ± 7 %" in text) == (width >= 80)
    assert ("blocks/s" in text) == ("12345" in text) == (width >= 110)


def test_a_profile_without_times_has_no_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "columns_of", lambda _: 80)
    out = io.StringIO()
    table.print_rows([Row("g", 1 << 20, 7, 9, ())], 2, out)
    assert out.getvalue().splitlines()[0].split() == ["MiB", "±", "%", "blocks", "call", "site"]
