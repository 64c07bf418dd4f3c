# SPDX-License-Identifier: MIT
"""The process beside pytest, which reads pytest's memory and judges it.

    python3 -m poolshim_cli.pytest_plugin.reader PID

A question is a line of words on standard input, its answer a line of JSON on standard output:

    lost                notes how many samples found no room, before a period begins
    begin               begins a series of looks
    peak WIDTH          the most that was live in the period, and its sites
    look                another look of the series
    suspects            whether some size may grow
    verdict ALLOW       whether live memory grows, confirmed by the second half of the series
    sites WIDTH NAME    the report about growth from the first look to the last
"""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from typing import Any

from ..callsites import Frame
from ..errors import GIVING_UP, Failed
from ..folds import Folds
from ..gate import judge, report
from ..gate.arguments import TOP
from ..gate.looks import Look, Looks, Process
from ..gate.outcome import Outcome
from ..gate.sites import Sums, growth, rows_of
from ..live.memory import contradictions
from ..live.samples import Snapshot
from ..profile.live import sites_of
from ..profile.sites import TWO_SIDED_95, error_of

SETTLE_S, PAUSE_S = 1.0, 0.002  # for other threads of pytest; this one waits
NOTHING = judge.Change(0.0, 0.0)
RUNNER = re.compile(r"/(?:_pytest|pluggy|unittest)/")  # below it, a stack is the test's


def below_runner(frames: list[Frame]) -> list[Frame]:
    """The frames of the test; all, where the runner itself allocates."""
    at = next((at for at, one in enumerate(frames)
               if one.line is not None and RUNNER.search(one.line.file)), len(frames))  # fmt: skip
    return frames[:at] or frames


class Reader:
    """Reads one process, and its children."""

    def __init__(self, pid: int) -> None:
        self.pid, self.looks, self.folds = pid, Looks(root=pid), Folds()
        self.series: list[Look] = []
        self.lost = 0  # samples without room, before the period
        self.verdict = judge.Verdict(False, NOTHING, NOTHING, {}, 0)

    def look(self) -> Look:
        """Now. What cannot be read is refused with the reason."""
        look = self.looks.settled(SETTLE_S, PAUSE_S)
        if self.pid not in look.samples:
            Process(self.pid).add_to(look)
        return look

    def begin(self) -> dict[str, Any]:
        """The first look of a series."""
        self.series = [self.look()]
        return {}

    def another(self) -> dict[str, Any]:
        """The next one."""
        self.series.append(self.look())
        for look in self.series[1:-1]:
            look.samples = {}
        return {}

    # ---- the peak ----

    def note_lost(self) -> dict[str, Any]:
        """Before a period."""
        self.lost = self.look().samples[self.pid].lost_blocks
        return {}

    def peak(self, width: int) -> dict[str, Any]:
        """In all, and of each call site."""
        look = self.look()
        now = look.samples[self.pid]
        with contradictions(self.pid):
            stacks = self.peaks(now)
        rows, notes = rows_of(self.looks, {self.pid: stacks}, 1.0, self.folds, below_runner)
        variance = sum(sums.variance for sums in stacks.values())
        change = judge.Change(sum(sums.nbytes for sums in stacks.values()),
                              TWO_SIDED_95 * math.sqrt(variance))  # fmt: skip
        outcome = Outcome(replace(self.verdict, nbytes=change, sizes={}), [], rows=rows)
        unit, name = report.unit_of(change)
        return {
            "bytes": change.mean, "error": change.error, "lost": now.lost_blocks - self.lost,
            "text": f"{report.amount(change.mean, unit)} {name} ± "
                    f"{report.amount(change.error, unit)}",
            "lines": report.body_lines(outcome, notes, TOP, width),
        }  # fmt: skip

    def peaks(self, now: Snapshot) -> dict[Any, Sums]:
        """Of each stack."""
        process = self.looks.process(self.pid)
        one, lost = process.layout.offset("weight.one"), process.layout.place("lost_stack")
        interval = max(process.memory.number(process.layout.place("demand_interval")), 1)
        found: dict[Any, Sums] = {}
        for address, stack in now.stacks.items():
            if stack.peak_bytes == 0:
                continue
            blocks = stack.peak_weight / one
            error = error_of(stack.peak_bytes, max(round(blocks), 1), interval)
            sites = sites_of(stack, address == lost, process.code, now.lines)
            found.setdefault(sites, Sums()).add(Sums(stack.peak_bytes, blocks, error), ())
        return found

    # ---- growth ----

    def suspects(self) -> dict[str, Any]:
        """Whether more rounds are needed."""
        return {"is_suspect": bool(judge.suspects(self.series))}

    def judged(self, allow: int) -> dict[str, Any]:
        """Of the whole series."""
        self.verdict = judge.confirmed(self.series, allow)
        return {"does_grow": self.verdict.does_grow, "bytes": self.verdict.nbytes.mean}

    def sites(self, width: int, name: str) -> dict[str, Any]:
        """The text of a failure. The looks since the verdict have the samples."""
        first, last = self.series[0], self.series[-1]
        rounds = max(len(self.series) - 1, 1)
        sizes = set(self.verdict.sizes)
        rows, notes = growth(self.looks, first, last, rounds, sizes, self.folds, below_runner)
        outcome = Outcome(self.verdict, [], span=f"{self.verdict.rounds} rounds", rows=rows,
                          name=name)  # fmt: skip
        notes.append("a cache that is not full yet grows alike: a larger warmup fills it")
        lines = report.wrapped(report.head_of(outcome), width)
        return {"lines": lines + report.body_lines(outcome, notes, TOP, width)}


def answer(reader: Reader, words: list[str]) -> dict[str, Any]:
    """To one question."""
    name, *rest = words
    if name == "verdict":
        return reader.judged(int(rest[0]))
    if name == "sites":
        return reader.sites(int(rest[0]), " ".join(rest[1:]))
    if name == "peak":
        return reader.peak(int(rest[0]))
    known = {"lost": reader.note_lost, "begin": reader.begin, "look": reader.another,
             "suspects": reader.suspects}  # fmt: skip
    return known[name]()


def main() -> int:
    """Until the end of the input."""
    reader = Reader(int(sys.argv[1]))
    for line in sys.stdin:
        try:
            found = answer(reader, line.split())
        except GIVING_UP as error:
            found = {"refusal": str(error)}
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
