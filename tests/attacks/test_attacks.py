# SPDX-License-Identifier: MIT
"""The misuses of tests/attacks/: each one works, and poolshim ends it as expected.txt says.

    scripts/test tests/attacks/test_attacks.py
    scripts/dev/attacks --write-expected        where poolshim has become better, or has a new level
"""

from __future__ import annotations

import platform
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "tests" / "attacks"))

import report  # noqa: E402
import run  # noqa: E402

AGAIN = 12

# Heaps that never split a block cannot miss these two; libc's does.
ONLY_WHERE_BLOCKS_ARE_SPLIT = {"stale-write/smaller-owner/100K", "uninitialised-read/smaller/100K"}


# expected.txt is of x86-64. Where the kernel maps the next 64 MiB, and what lies 1 MiB above a
# block, differs on 64-bit ARM, and so do these at levels 0 and 1.
BY_PLACEMENT = {"double-free-reused/next-owner/64M", "stale-write/next-owner/64M",
                "far-write/1M-behind/64", "far-write/1M-behind/8192",
                "far-read/1M-behind/16"}  # fmt: skip


def test_list_is_complete_and_balanced(build_dir: Path) -> None:
    attacks = run.read_attacks(build_dir)
    assert len({attack.name for attack in attacks}) == len(attacks)
    sizes = {family: len(members) for family, members in report.families(attacks).items()}
    assert 15 <= len(sizes) <= 30 and all(10 <= size <= 16 for size in sizes.values()), sizes


@pytest.mark.slow
def test_every_attack_works_against_a_heap_that_trusts(build_dir: Path) -> None:
    """No row can be filled by everybody: each goal is reached where nothing is checked."""
    library = build_dir / "tests" / "attacks" / "libnaive.so"
    names = [attack.name for attack in run.read_attacks(build_dir)]
    working: set[str] = set()
    for mode in ("tags", "classes"):
        naive = run.Contestant(mode, library, {"NAIVE": mode})
        outcomes = run.play_all(build_dir, names, naive)
        working |= {name for name in names if outcomes[name].rank == 0}
    rest = set(names) - working
    assert rest <= ONLY_WHERE_BLOCKS_ARE_SPLIT
    libc = run.play_all(build_dir, rest, run.Contestant("libc", None))
    assert {outcome.kind for outcome in libc.values()} <= {"reached"}


@pytest.mark.preload
@pytest.mark.parametrize(
    "level",
    ["0", *(pytest.param(level, marks=pytest.mark.slow) for level in run.expected.LEVELS[1:])],
)
def test_attacks_end_as_expected(build_dir: Path, shim: Path, level: str) -> None:
    levels = run.poolshim_levels(build_dir, [level])
    if not levels:
        pytest.skip(f"POOLSHIM_HARDEN={level} is not available on this machine")
    tables = run.expected.read()
    assert levels[0].name in tables, "no outcomes: scripts/dev/attacks --write-expected"
    names = [attack.name for attack in run.read_attacks(build_dir)]
    table = tables[levels[0].name]
    outcomes = run.play_all(build_dir, names, levels[0])
    worse, better = run.differences(outcomes, table)
    if platform.machine() != "x86_64" and level in ("0", "1"):
        worse = [line for line in worse if line.split(":")[0] not in BY_PLACEMENT]
    # Where blocks lie is drawn by lot: what ends badly once in a hundred runs is not a change.
    again = [line.split(":")[0] for line in worse]
    turns = [run.play_all(build_dir, again, levels[0]) for _ in range(AGAIN)]
    lines = [line for turn in turns for line in run.differences(turn, table)[0]]
    counts = Counter(line.split(":")[0] for line in lines)
    confirmed = [line for line in worse if counts[line.split(":")[0]] >= AGAIN // 4]
    assert not confirmed, "\n" + "\n".join(confirmed)
    if better:
        warnings.warn("better than expected.txt says:\n" + "\n".join(better), stacklevel=1)


def test_change_for_the_worse_is_named() -> None:
    held = {"a": "detected", "b": "contained|reached", "c": "reached"}
    outcomes = {
        "a": run.Outcome("contained", "x"),
        "b": run.Outcome("crashed", "x"),
        "c": run.Outcome("faulted", "x"),
    }
    worse, better = run.differences(outcomes, held)
    assert [line.split(":")[0] for line in worse] == ["a"]
    assert [line.split(":")[0] for line in better] == ["c"]


def test_expectations_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Attacks that end alike share a line; one that was not played must be detected."""
    table = {"poolshim 0": {"f/v/8": "reached", "f/v/16": "reached", "f/w/8": "contained|reached"},
             "poolshim 1": {"f/v/8": "faulted", "f/v/16": "faulted"}}  # fmt: skip
    text = run.expected.text_of(table)
    assert text == "f/v/{8,16} reached faulted\nf/w/{8} contained|reached detected\n"
    path = tmp_path / "expected.txt"
    path.write_text(text)
    table["poolshim 1"]["f/w/8"] = "detected"
    assert run.expected.read(path) == table
    path.write_text("f/v/8 reached\n")
    with pytest.raises(ValueError, match=r"expected\.txt: f/v/8 reached"):
        run.expected.read(path)


@each_row(
    ("returncode", "stdout", "stderr", "kind"),
    [
        (0, "misuse\nafter\nreached: two owners\n", "", "reached"),
        (0, "misuse\nafter\ncontained: nothing\n", "", "contained"),
        (-6, "misuse\n", "poolshim: double free\n", "detected"),
        (-6, "misuse\nafter\n", "", "detected"),
        (-5, "misuse\nafter\n", "", "detected"),
        (1, "misuse\n", "invalid pointer\n", "detected"),
        (-11, "misuse\n", "", "faulted"),
        (-7, "misuse\nafter\nmisuse\n", "", "faulted"),
        (-11, "misuse\nafter\n", "guard page hit\n", "detected"),
        (-11, "misuse\nafter\n", "", "crashed"),
        (-11, "misuse\nafter\n", "poolshim: POOLSHIM_HARDEN: no such option\n", "crashed"),
        (0, "misuse\nafter\n", "", "crashed"),
        (1, "misuse\nafter\n", "", "crashed"),
    ],
)
def test_outcome(returncode: int, stdout: str, stderr: str, kind: str) -> None:
    assert run.classify(returncode, stdout, stderr).kind == kind


@each_row(
    ("returncode", "stdout"), [(-11, ""), (0, ""), (2, "misuse\nbroken: too many blocks\n")]
)
def test_attack_that_does_not_play_is_no_outcome(returncode: int, stdout: str) -> None:
    with pytest.raises(run.BrokenAttack):
        run.classify(returncode, stdout, "")
