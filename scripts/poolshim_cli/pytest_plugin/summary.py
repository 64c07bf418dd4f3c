# SPDX-License-Identifier: MIT
"""The list of tests whose live memory rose most, at the end of pytest's output.

    config.pluginmanager.register(Summary(10))
"""

from __future__ import annotations

from typing import Any

import pytest

from ..sizes import mib

PEAK = "poolshim_peak_bytes"  # of the report of a test
TITLE = "poolshim: highest peaks of live memory"


class Summary:
    """Collects the figures of reports: those of workers of pytest-xdist come as reports too."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.rows: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has run."""
        found = dict(report.user_properties)
        if report.when == "call" and PEAK in found:
            self.rows[report.nodeid] = int(str(found[PEAK]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The list."""
        if not self.rows:
            return
        terminalreporter.section(TITLE)
        terminalreporter.write_line(f"{'MiB':>8}  test")
        most = sorted(self.rows.items(), key=lambda row: (-row[1], row[0]))
        for name, peak in most[: self.count]:
            terminalreporter.write_line(f"{mib(peak):>8}  {name}")
