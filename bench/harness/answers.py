# SPDX-License-Identifier: MIT
"""Which allocator suits each of several programs, from the results of poolshim compare.

Fastest are those whose CPU time cannot be told from the least, leanest those whose memory cannot;
the base takes part. Told apart is what paired.ratio_of's interval says, and half a percent; the
intervals of a program's row are jointly valid, and none is narrower than that of the base against
itself. CPU time, not the clock's: on a machine that others use too it is the program's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from poolshim_cli.compare.paired import Ratio
from poolshim_cli.compare.results import Measured, Results
from poolshim_cli.compare.summary import (
    Summary,
    is_different,
    noise_of,
    paired,
    percent,
    summarise,
)
from poolshim_cli.compare.table import ratio_text, size_text, time_text

SUBJECT, TUNED = "poolshim", "tuned"


@dataclass(frozen=True)
class Answer:
    """One program."""

    name: str
    note: str
    results: Results
    summary: Summary
    fastest: tuple[str, ...]  # the least first
    leanest: tuple[str, ...]

    @property
    def advice(self) -> str:
        """The allocator to take: one among the best in both, or one for each."""
        both = [name for name in self.fastest if name in self.leanest]
        base = self.summary.base
        if base in both:
            return f"{base}: no reason to change"
        if both:
            return " or ".join(both)
        time = base if base in self.fastest else self.fastest[0]
        memory = base if base in self.leanest else self.leanest[0]
        return f"{time} for time, {memory} for memory"


def column(results: Results, name: str) -> Measured:
    return next(one for one in results.columns if one.name == name)


def rivals(results: Results) -> list[Measured]:
    """The columns that are allocators, with runs; tuned is a setting of one."""
    return [c for c in results.columns if c.runs and not c.is_again and c.name != TUNED]


def best_of(results: Results, metric: str, clock: str) -> tuple[str, ...]:
    """Those that cannot be distinguished from the least, in the order of their ratio to it."""
    known = rivals(results)
    ratios = {c.name: paired(c, results.base_column, metric, clock).ratio for c in known}
    least = column(results, min(ratios, key=lambda name: ratios[name]))
    cells = 2 * (len(known) - 1)  # time and memory of all but the least
    error = noise_of(results, metric, clock, cells).error
    level = [
        c.name
        for c in known
        if not is_different(paired(c, least, metric, clock, cells, error), 0)
    ]
    return tuple(sorted(level, key=lambda name: ratios[name]))


def answer(name: str, note: str, results: Results) -> Answer:
    summary = summarise(results)
    return Answer(
        name, note, results, summary,
        best_of(results, "cpu", summary.clock), best_of(results, "rss", summary.clock),
    )  # fmt: skip


def told(ratio: Ratio, less: str, more: str) -> str:
    """ "4 % less", or "=" where there is no difference."""
    if not is_different(ratio, 0):
        return "="
    return f"{percent(abs(ratio.ratio - 1))} {less if ratio.ratio < 1 else more}"


def tuned_words(one: Answer) -> str:
    """What the classes that tune found gained, against poolshim as it is."""
    names = [c.name for c in one.results.columns if c.runs]
    if TUNED not in names or SUBJECT not in names:
        return "–"
    tuned, subject = column(one.results, TUNED), column(one.results, SUBJECT)
    time, rss = (
        paired(
            tuned, subject, metric, one.summary.clock, 2,
            noise_of(one.results, metric, one.summary.clock, 2).error,
        )
        for metric in ("cpu", "rss")
    )  # fmt: skip
    if not is_different(time, 0) and not is_different(rss, 0):
        return "nothing"
    words = {"memory": told(rss, "less", "more"), "time": told(time, "less", "more")}
    return ", ".join(f"{text} {what}" for what, text in words.items() if text != "=")


def cell(one: Answer, name: str) -> str:
    """CPU time and memory of an allocator against the base's; the base's in figures."""
    row = next((row for row in one.summary.rows if row.name == name), None)
    if row is None or row.cpu is None or row.rss is None:
        return "–"
    if row.is_base:
        texts = time_text(row.cpu.median), size_text(row.rss.median)
    else:
        texts = ratio_text(row.cpu.ratio), ratio_text(row.rss.ratio)
    marked = zip(texts, (one.fastest, one.leanest))
    return " / ".join(f"**{text}**" if name in best else text for text, best in marked)


def table(answers: Iterable[Answer]) -> str:
    """In Markdown: a row per program."""
    answers = list(answers)
    base = answers[0].summary.base
    names = [c.name for c in rivals(answers[0].results) if c.name != base]
    head = ["Program", base, *names, "tuned, against poolshim", "What suits it"]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(names) + 1) + "---|---|"]
    for one in answers:
        cells = [one.name, *(cell(one, name) for name in (base, *names)), tuned_words(one)]
        lines.append(f"| {' | '.join([*cells, one.advice])} |")
    return "\n".join(lines) + "\n"
