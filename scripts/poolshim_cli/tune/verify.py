# SPDX-License-Identifier: MIT
"""Measures a table against the one before, by compare's machinery, and judges what came of it.

    checks = [verify(work, label, tables, rounds)]      # one for each command
    verdict = judge(checks, least_gain=0.01)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..compare.measure import Progress, measure, no_progress
from ..compare.plan import Column, CommandWork, Plan, ServerWork
from ..compare.summary import Figure, percent, summarise
from ..errors import Failed
from ..places import find

BEFORE, AFTER = "before", "tuned"
LEAST_GAIN_BYTES = 64 << 10  # what another order of its start-up does to a process of 2 MiB
TIME_LOSS = 0.02  # slower by more than this, and memory is not all that counts


@dataclass(frozen=True)
class Check:
    """One command under both tables. Ratios: tuned to before."""

    label: str
    is_held_out: bool
    rounds: int
    rss: Figure
    time: Figure  # CPU time where others used the machine meanwhile
    before_rss_bytes: float
    warnings: tuple[str, ...]
    speed: str = "time"  # or cpu

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """Whether the table is worth setting, and why, in one line."""

    is_worthwhile: bool
    reason: str


def verify(
    work: CommandWork | ServerWork,
    label: str,
    environments: tuple[dict[str, str], dict[str, str]],
    rounds: int | None,
    timeout_s: float = 600,
    is_held_out: bool = False,
    progress: Progress = no_progress,
) -> Check:
    """Interleaved rounds of both, and of the first once more for the noise. rounds: None leaves it
    to compare's time budget."""
    library = find().library
    columns = tuple(
        Column(name, library, env) for name, env in zip((BEFORE, AFTER), environments, strict=True)
    )
    results = measure(
        Plan(columns, work, base=BEFORE, runs=rounds, timeout_s=timeout_s), progress
    )
    summary = summarise(results)
    before, after = summary.row(BEFORE), summary.row(AFTER)
    time = after.figure(summary.speed)
    if after.failure is not None or after.rss is None or time is None:
        raise Failed(f"{label}: with the new table: {after.failure}")
    assert before.rss is not None
    return Check(
        label, is_held_out, summary.rounds, after.rss, time, before.rss.median,
        summary.warnings, summary.speed,
    )  # fmt: skip


def is_heavier(figure: Figure, loss: float) -> bool:
    """Certainly more than before, by more than the loss."""
    return bool(figure.is_different) and figure.ratio > 1 + loss


def judge_one(check: Check, least_gain: float) -> Verdict:
    """The table against one command."""
    rss, time = check.rss, check.time
    if rss.low is None:
        return Verdict(False, "too few rounds to tell: at least five are needed")
    if is_heavier(rss, 0):
        return Verdict(False, f"{percent(rss.ratio - 1)} more memory")
    if is_heavier(time, TIME_LOSS):
        word = "more CPU time" if check.speed == "cpu" else "slower"
        return Verdict(False, f"{percent(time.ratio - 1)} {word}")
    if not rss.is_different:
        return Verdict(False, f"memory changed by less than the noise ({interval_text(rss)})")
    if 1 - rss.ratio < least_gain:
        return Verdict(False, f"only {percent(1 - rss.ratio)} less memory")
    saved = (1 - rss.ratio) * check.before_rss_bytes
    if saved < LEAST_GAIN_BYTES:
        return Verdict(False, f"only {saved / 1024:.0f} KiB less memory")
    return Verdict(True, f"{percent(1 - rss.ratio)} less memory")


def judge(checks: Sequence[Check], least_gain: float) -> Verdict:
    """Worthwhile where the commands that it was made for gain, and held-out ones do not lose."""
    verdicts = [(check, judge_one(check, least_gain)) for check in checks]
    for check, verdict in verdicts:
        is_loss = is_heavier(check.rss, 0) or is_heavier(check.time, TIME_LOSS)
        if not verdict.is_worthwhile and (is_loss or not check.is_held_out):
            where = f", held out: {check.label}" if check.is_held_out else ""
            return Verdict(False, verdict.reason + where)
    held = [verdict for check, verdict in verdicts if check.is_held_out]
    reason = verdicts[0][1].reason
    if held:
        gaining = sum(verdict.is_worthwhile for verdict in held)
        reason += f"; {gaining} of {len(held)} held-out commands gain too"
    return Verdict(True, reason)


def interval_text(figure: Figure) -> str:
    """A ratio with its interval."""
    if figure.low is None or figure.high is None:
        return f"{figure.ratio:.3f}"
    return f"{figure.ratio:.3f} [{figure.low:.3f}, {figure.high:.3f}]"
