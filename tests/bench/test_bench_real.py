# SPDX-License-Identifier: MIT
"""The table of real programs: who suits which, from made-up results with known answers.

scripts/test tests/bench/test_bench_real.py
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")

import real  # noqa: E402
from harness import answers  # noqa: E402
from harness.answers import answer, table  # noqa: E402
from poolshim_cli.compare.results import Measured, Results, Run  # noqa: E402

pytestmark = pytest.mark.bench
ROUNDS = 12
MIB = 1024


def results(**columns: tuple[float, float]) -> Results:
    """Columns with so many seconds and MiB, half a percent of noise, the same in each round."""
    generator = random.Random(1)
    noise = [1 + generator.uniform(-0.004, 0.004) for _ in range(ROUNDS)]
    measured = []
    for position, (name, (seconds, mib)) in enumerate(columns.items()):
        runs = [
            Run(number, position, 2 * seconds, None,
                seconds * noise[number] * generator.uniform(0.999, 1.001), int(mib * MIB))
            for number in range(ROUNDS)
        ]  # fmt: skip
        library = None if name == "glibc" else f"/lib/{name}.so"
        measured.append(Measured(name, library, runs=runs))
    machine = {"cpu": "a cpu", "cores": 2, "is_virtual": False, "memory_gib": 1, "kernel": "6",
               "system": "a system", "huge_pages": "madvise"}  # fmt: skip
    about = {"machine": machine, "versions": {"poolshim": "1", "hyperfine": None, "python": "3"},
             "mode": "command", "command": ["true"], "seed": 1, "warmup": 1}  # fmt: skip
    return Results(about, "glibc", measured)


def test_best_in_both_is_the_advice() -> None:
    one = answer("a", "", results(glibc=(1, 100), other=(0.9, 120), poolshim=(0.8, 90)))
    assert (one.fastest, one.leanest) == (("poolshim",), ("poolshim",))
    assert one.advice == "poolshim"


def test_level_ones_share_the_advice_and_the_base_keeps_it() -> None:
    one = answer("a", "", results(glibc=(1, 100), other=(0.8005, 90), poolshim=(0.8, 90)))
    assert set(one.fastest) == {"other", "poolshim"}
    assert one.advice in ("poolshim or other", "other or poolshim")
    one = answer("a", "", results(glibc=(1, 100), other=(1, 120), poolshim=(1.0005, 110)))
    assert one.advice == "glibc: no reason to change"


def test_a_trade_is_named_as_one() -> None:
    one = answer("a", "", results(glibc=(1, 100), other=(0.7, 150), poolshim=(0.8, 110)))
    assert one.advice == "other for time, glibc for memory"


def test_tuned_is_no_rival_and_its_gain_is_against_poolshim() -> None:
    one = answer("a", "", results(glibc=(1, 100), poolshim=(0.9, 100), tuned=(0.9, 80)))
    assert one.leanest == ("glibc", "poolshim")
    assert answers.tuned_words(one) == "20 % less memory"
    same = answer("a", "", results(glibc=(1, 100), poolshim=(0.9, 100), tuned=(0.9, 100)))
    assert answers.tuned_words(same) == "nothing"
    lost = answer("a", "", results(glibc=(1, 100), poolshim=(1, 100), tuned=(1.1, 103)))
    assert answers.tuned_words(lost) == "3 % more memory, 10 % more time"


def test_table() -> None:
    first = answer("first", "", results(glibc=(3, 100), other=(2.1, 150), poolshim=(2.4, 110)))
    second = answer("second", "", results(glibc=(2, 10), other=(2, 20), poolshim=(1.6, 9)))
    assert table([first, second]).splitlines() == [
        "| Program | glibc | other | poolshim | tuned, against poolshim | What suits it |",
        "|---|---:|---:|---:|---|---|",
        "| first | 3.00 s / **100 MiB** | **0.700** / 1.50 | 0.800 / 1.10 | – "
        "| other for time, glibc for memory |",
        "| second | 2.00 s / 10.0 MiB | 1.000 / 2.00 | **0.800** / **0.900** | – | poolshim |",
    ]


def test_programs_are_complete() -> None:
    programs = real.read_programs()
    assert len(programs) >= 6
    assert all(program.version for program in programs)
    assert len({program.name for program in programs}) == len(programs)
    python = next(program for program in programs if program.name == "python3-malloc")
    assert "PYTHONMALLOC=malloc" in python.work


def test_unknown_program_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "real.py", "--only", "nosuch"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}/scripts:{ROOT}/bench", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("real.py: --only: no 'nosuch' here")
    assert len(done.stderr.splitlines()) == 1


def test_what_is_kept_gives_the_same_table() -> None:
    """An allocator with its runs on a line, without what no table shows."""
    measured = results(glibc=(2, 10), jemalloc=(1, 20))
    text = real.compact(measured)
    assert len(text.splitlines()) < 12 and "output_sha256" not in text
    again = real.stored.from_json(text)
    assert table([answer("a", "", again)]) == table([answer("a", "", measured)])
