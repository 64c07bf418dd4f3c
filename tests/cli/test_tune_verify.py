# SPDX-License-Identifier: MIT
"""When a table is worth setting: the verdict on made-up measurements with a known answer.

    scripts/test tests/cli/test_tune_verify.py
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))
pytest.importorskip("click", reason="click is not installed: run scripts/setup")
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")

from poolshim_cli.compare import measure  # noqa: E402
from poolshim_cli.compare.plan import CommandWork, Plan, ServerWork  # noqa: E402
from poolshim_cli.compare.results import Measured, Results, Run  # noqa: E402
from poolshim_cli.compare.summary import Figure  # noqa: E402
from poolshim_cli.tune import verify  # noqa: E402
from poolshim_cli.tune.command import command  # noqa: E402
from poolshim_cli.tune.verify import Check, judge  # noqa: E402

SAME = Figure(1.0, 1.001, 0.99, 1.01, False, 0.9, 1.1)


def figure(ratio: float, is_different: bool | None = True) -> Figure:
    low, high = (None, None) if is_different is None else (ratio - 0.004, ratio + 0.004)
    return Figure(1.0, ratio, low, high, is_different, 0.9, 1.1)


def check(rss: Figure, time: Figure = SAME, label: str = "own", is_held_out: bool = False) -> Check:
    return Check(label, is_held_out, 9, rss, time, 1e8, ())


@each_row(
    "checks,is_worthwhile,words",
    [
        ([check(figure(0.8))], True, "20 % less memory"),
        ([check(figure(0.995))], False, "only 0.5 % less memory"),
        ([replace(check(figure(0.98)), before_rss_bytes=2e6)], False, "only 39 KiB less memory"),
        ([check(figure(0.9, False))], False, "less than the noise"),
        ([check(figure(0.8, None))], False, "too few rounds"),
        ([check(figure(1.05))], False, "5 % more memory"),
        ([check(figure(0.8), figure(1.1))], False, "10 % slower"),
        ([check(figure(0.8), figure(1.015))], True, "20 % less memory"),
        ([check(figure(0.8), figure(1.2, False))], True, "20 % less memory"),
        ([check(figure(0.8)), check(figure(1.03), SAME, "b", True)], False, "held out: b"),
        ([check(figure(0.8)), check(SAME, figure(1.2), "b", True)], False, "20 % slower, held out"),
        ([check(figure(0.8)), check(SAME, SAME, "b", True)], True, "0 of 1 held-out"),
        ([check(figure(0.8)), check(figure(0.9), SAME, "b", True)], True, "1 of 1 held-out"),
    ],
)
def test_verdict(checks: list[Check], is_worthwhile: bool, words: str) -> None:
    verdict = judge(checks, least_gain=0.01)
    assert verdict.is_worthwhile == is_worthwhile
    assert words in verdict.reason


@each_row("gain,is_worthwhile", [(0.0, False), (0.004, False), (0.05, True)])
def test_noise_of_three_percent_hides_what_is_below_it(
    monkeypatch: pytest.MonkeyPatch, gain: float, is_worthwhile: bool
) -> None:
    """Forty rounds with 3 % noise in memory and time, in which the table saves a known share."""
    generator = random.Random(20261121)

    def measured(plan: Plan, *_: object) -> Results:
        names = (verify.BEFORE, verify.AFTER, measure.again_name(verify.BEFORE))
        columns = [Measured(name, is_again=name == names[2]) for name in names]
        for number in range(1, 41):
            for column in columns:
                share = 1 - gain if column.name == verify.AFTER else 1.0
                kib = int(100_000 * share * generator.gauss(1, 0.03))
                seconds = generator.gauss(1, 0.03)
                column.runs.append(Run(number, 0, seconds, None, seconds, kib))
        return Results({}, plan.base, columns)

    monkeypatch.setattr(verify, "measure", measured)
    environments = ({}, {"POOLSHIM_SIZE_CLASSES": "16,65536"})
    found = verify.verify(CommandWork(("true",)), "true", environments, 40)
    assert found.before_rss_bytes == pytest.approx(1024e5, rel=0.02)
    assert judge([found], 0.001).is_worthwhile == is_worthwhile


@each_row(
    "words,expected",
    [
        (["--held-out", "sort b", "--", "sort", "a"], ["sort a", "sort b"]),
        (["--server", "srv {port}", "--load", "l", "--held-out", "m"], ["srv: l", "srv: m"]),
    ],
)
def test_held_out_commands_and_loads_are_measured_as_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], expected: list[str]
) -> None:
    seen: list[str] = []

    def note(
        work: CommandWork | ServerWork, label: str, environments: object, *rest: object
    ) -> Check:
        if isinstance(work, ServerWork):
            seen.append(f"{work.server.split()[0]}: {work.load}")
        else:
            seen.append(" ".join(work.command))
        assert environments == ({}, {"POOLSHIM_SIZE_CLASSES": "16,1040,65536"})
        assert rest[0] == 7 and rest[2] == (len(seen) > 1)
        return check(figure(0.8), label=label, is_held_out=len(seen) > 1)

    monkeypatch.setattr(verify, "verify", note)
    kept = tmp_path / "p.toml"
    kept.write_text(
        "poolshim_profile = 1\ncommand = []\n[environment]\n"
        'POOLSHIM_SIZE_CLASSES = "16,1040,65536"\n'
    )
    arguments = ["-q", "--rounds", "7", "--tuned", str(kept), *words]
    assert command.main(arguments, standalone_mode=False) == 0
    assert seen == expected


def test_both_tables_reach_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns differ in their environment alone, and the library is the same."""
    seen: list[Plan] = []

    def stop(plan: Plan, *_: object) -> Results:
        seen.append(plan)
        raise verify.Failed("enough")

    monkeypatch.setattr(verify, "measure", stop)
    environments = ({"A": "1"}, {"A": "2"})
    with pytest.raises(verify.Failed):
        verify.verify(CommandWork(("true",)), "true", environments, 7)
    before, after = seen[0].columns
    assert (before.env, after.env) == environments
    assert before.library == after.library and Path(str(after.library)).name == "libpoolshim.so"
    assert seen[0].base == before.name and seen[0].runs == 7 and seen[0].has_again
