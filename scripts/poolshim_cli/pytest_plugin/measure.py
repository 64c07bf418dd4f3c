# SPDX-License-Identifier: MIT
"""Measures the body of a test: the peak of its live memory, and its growth when it is repeated.

    session.check(item, plan)       # after the body has run once

The interval of the samples depends on the marker: the larger the limit, the fewer samples tell
whether it is exceeded. Tests without a marker have that of --poolshim-interval.
"""

from __future__ import annotations

import gc
import shutil

import pytest

from .. import terminal
from ..gate import report
from .client import Client
from .library import Heap
from .markers import LIMIT, NO_GROWTH, Growth, Plan

SAMPLES_LEAST = 2048  # at the limit: a standard deviation of 2 %
NAMING_SAMPLES = 100  # of what grows, in the rounds that name it
NAMING_ROUNDS = 5
SAMPLES_MOST = 1 << 16  # live ones: each has pages of its own
INTERVAL_LEAST = 16


def columns() -> int:
    """Of a report."""
    width = shutil.get_terminal_size((terminal.WIDTH, 0)).columns
    return max(terminal.WIDTH_LEAST, min(width, terminal.WIDTH))


def fail(lines: list[str]) -> None:
    """The test fails by that text alone."""
    pytest.fail("\n".join(lines), pytrace=False)


class Session:
    """The tests of this process."""

    def __init__(self, heap: Heap, interval: int) -> None:
        self.heap = heap
        self.interval = self.current = interval
        self.client = Client()

    def close(self) -> None:
        """The reader."""
        self.client.close()

    def begin(self, plan: Plan) -> None:
        """Before the body."""
        if plan.limit is not None:
            self.set_interval(plan.limit // SAMPLES_LEAST)
            self.client.ask("lost")
        self.heap.begin_peak()

    def set_interval(self, wanted: int) -> None:
        """Of the samples, within bounds."""
        found = min(max(wanted, INTERVAL_LEAST), self.interval)
        if found != self.current:
            self.heap.set_interval(found)
            self.current = found

    def rest(self) -> None:
        """After a test."""
        self.set_interval(self.interval)

    # ---- what the markers ask ----

    def check(self, item: pytest.Item, plan: Plan, peak: int) -> None:
        """Of a test that has passed."""
        if plan.limit is not None:
            self.check_limit(item, plan.limit)
            self.rest()
        if plan.growth is not None:
            self.check_growth(item, plan.growth, peak)

    def check_limit(self, item: pytest.Item, limit: int) -> None:
        """poolshim_limit. The peak has to be above the limit with its whole interval."""
        found = self.client.ask("peak", columns())
        if found["bytes"] - found["error"] > limit:
            head = (f"{item.name}: {found['text']} live at the peak: {LIMIT} allows "
                    f"{size_text(limit)}")  # fmt: skip
            fail([*report.wrapped(head, columns()), *found["lines"]])
        if found["lost"]:
            head = (f"{item.name}: the peak is unknown: {found['lost']} samples did not fit their "
                    "table: run fewer tests in one process (-n), or take a larger "
                    "--poolshim-interval")  # fmt: skip
            fail(report.wrapped(head, columns()))

    def check_growth(self, item: pytest.Item, growth: Growth, peak: int) -> None:
        """poolshim_no_growth."""
        for _ in range(growth.warmup - 1):
            self.repeat(item)
        self.look("begin")
        self.play(item, growth.rounds)
        if not self.client.ask("suspects")["is_suspect"]:
            return
        self.play(item, growth.rounds)
        found = self.client.ask("verdict", growth.allow)
        if found["does_grow"]:
            self.name_sites(item, found["bytes"], peak)

    def name_sites(self, item: pytest.Item, nbytes: float, peak: int) -> None:
        """Rounds with so many samples that those of a small leak are among them."""
        self.set_interval(max(int(nbytes * NAMING_ROUNDS / NAMING_SAMPLES), peak // SAMPLES_MOST))
        self.look("begin")
        self.play(item, NAMING_ROUNDS)
        fail(self.client.ask("sites", columns(), item.name)["lines"])

    def play(self, item: pytest.Item, rounds: int) -> None:
        """Rounds, and a look after each."""
        for _ in range(rounds):
            self.repeat(item)
            self.look("look")

    def look(self, question: str) -> None:
        """Garbage in cycles is no leak."""
        gc.collect()
        self.client.ask(question)

    def repeat(self, item: pytest.Item) -> None:
        """The body once more, with the same fixtures."""
        try:
            item.runtest()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise pytest.fail.Exception(
                f"{item.name}: the body has passed once, and fails when {NO_GROWTH} repeats it "
                f"with the same fixtures: {what}"
            ) from error


def size_text(nbytes: int) -> str:
    """A limit as it is read."""
    for unit, name in ((report.MIB, "MiB"), (report.KIB, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.1f} {name}"
    return f"{nbytes} bytes"
