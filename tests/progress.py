# SPDX-License-Identifier: MIT
"""One line of progress in place of pytest's dots: tests that have run, and the time that is left.

    scripts/test            (which sets TEST_PROGRESS=1)
"""

from __future__ import annotations

import sys
import time

import pytest

LINE_SECONDS = 15  # between two lines where there is no terminal
SLOW_WEIGHT = 12  # of a test that is marked slow, in usual ones: for the time that is left


class Progress:
    """A plugin of the process that shows the results."""

    def __init__(self) -> None:
        self.total = self.done = self.failed = 0
        self.weight_left = self.weight = 0
        self.weights: dict[str, int] = {}
        self.started = self.shown = time.monotonic()
        self.is_terminal = sys.stdout.isatty()
        self.is_over = False

    def expect(self, items: list[pytest.Item]) -> None:
        """The tests that will run, as one process has collected them."""
        self.weights = {
            item.nodeid: SLOW_WEIGHT if item.get_closest_marker("slow") else 1 for item in items
        }
        self.total = len(items)
        self.weight = self.weight_left = sum(self.weights.values())
        self.started = self.shown = time.monotonic()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers."""
        if session.items:
            self.expect(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """With workers, which tell names alone."""
        if not self.total:
            self.total = self.weight = self.weight_left = len(ids)
            self.started = self.shown = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> tuple[str, str, str] | None:
        """No letter: `write` names a test that failed. The summary at the end has the words."""
        if self.is_over:
            return None
        if report.passed and report.when == "call":
            return "passed", "", ""
        if report.failed and report.when == "call":
            return "failed", "", ""
        if report.skipped and not hasattr(report, "wasxfail"):
            return "skipped", "", ""
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts a test at its end."""
        if report.failed:
            self.failed += 1
            self.write(f"FAILED {report.nodeid}", is_kept=True)
        if report.when != "teardown":
            return
        self.done += 1
        self.weight_left -= self.weights.get(report.nodeid, 1)
        now = time.monotonic()
        if now - self.shown < (0.2 if self.is_terminal else LINE_SECONDS):
            return
        self.shown = now
        seconds = now - self.started
        left = seconds * self.weight_left / max(self.weight - self.weight_left, 1)
        self.write(f"{self.done} of {self.total} tests, {self.failed} failed, {seconds:.0f} s, "
                   f"about {left:.0f} s left")  # fmt: skip

    def pytest_sessionfinish(self) -> None:
        """Removes the line from a terminal."""
        self.is_over = True
        if self.is_terminal:
            sys.__stdout__.write("\r\x1b[K")

    def write(self, text: str, *, is_kept: bool = False) -> None:
        """A line; on a terminal the next one overwrites it unless it is kept."""
        begin, end = ("\r\x1b[K", "\n" if is_kept else "") if self.is_terminal else ("", "\n")
        sys.__stdout__.write(f"{begin}{text}{end}")
        sys.__stdout__.flush()
