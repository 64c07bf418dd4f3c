# SPDX-License-Identifier: MIT
"""One line of progress in place of pytest's dots: tests that have run, and the time that is left.

    scripts/test            (which sets TEST_PROGRESS=1)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from progress_line import ProgressLine  # noqa: E402


class Terminal:
    """The stream of pytest's reports: standard output itself is captured."""

    def __init__(self, reporter: Any) -> None:
        self.reporter = reporter

    def isatty(self) -> bool:
        """Returns whether a line can be overwritten."""
        return bool(self.reporter.isatty)

    def write(self, text: str) -> None:
        """Writes without delay."""
        self.reporter.write(text, flush=True)

    def flush(self) -> None:
        """Does nothing: every write is flushed."""


class Progress:
    """A plugin of the process that shows the results."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.total = self.done = self.failed = 0
        self.is_over = False

    def begin(self, total: int) -> None:
        """The tests are collected, and the first one starts."""
        self.total = total
        self.line = ProgressLine(Terminal(self.config.pluginmanager.getplugin("terminalreporter")))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers."""
        self.begin(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """With workers, each of which collects all."""
        if not self.total:
            self.begin(len(ids))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> tuple[str, str, str] | None:
        """Prints no letter: a test that failed has a line. The summary at the end has the words."""
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
            self.line.keep(f"FAILED {report.nodeid}")
        if report.when != "teardown":
            return
        self.done += 1
        if self.line.is_due():
            self.line.show(f"{self.done} of {self.total} tests, {self.failed} failed, "
                           f"{self.line.seconds():.0f} s, "
                           f"about {self.line.left(self.done, self.total):.0f} s left")  # fmt: skip

    def pytest_sessionfinish(self) -> None:
        """Removes the line from a terminal."""
        self.is_over = True
        if self.total:
            self.line.clear()
