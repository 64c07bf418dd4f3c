# SPDX-License-Identifier: MIT
"""The outcome of each test in a file, by which an interrupted run continues where it ended; a share
of the tests.

    scripts/test --outcomes FILE    (which sets TEST_OUTCOMES=FILE)
    scripts/test --shard 2/4        (which sets TEST_SHARD=2/4)

A line of the file is a JSON object for a test that has ended: "test", "outcome" (passed, skipped or
failed), "seconds" and, unless it passed, "reason". FILE.tests lists the tests that the last run
chose, with those that had ended before.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

REASON_CHARACTERS = 2000  # of a failure, its end


def read(path: Path, limit_bytes: int | None = None) -> dict[str, dict[str, Any]]:
    """The last line of each test. A line that an interruption cut off does not count."""
    if not path.exists():
        return {}
    lines = path.read_bytes()[:limit_bytes].split(b"\n")[:-1]
    return {one["test"]: one for one in map(json.loads, filter(None, lines))}


def is_in_shard(test: str, shard: str) -> bool:
    """shard: "2/4" is the second of four. A test is always in the same one."""
    number, count = (int(word) for word in shard.split("/"))
    return zlib.crc32(test.encode()) % count == number - 1


class Outcomes:
    """A plugin: leaves out tests that passed or were skipped, writes down the others."""

    def __init__(self, path: Path, is_worker: bool) -> None:
        self.path = path
        self.is_worker = is_worker
        self.ending: dict[str, dict[str, Any]] = {}
        # Workers that start later choose the same tests as the first ones.
        if not is_worker:
            whole_bytes = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0
            if path.exists():
                os.truncate(path, whole_bytes)  # the end that an interruption cut off
            os.environ["TEST_OUTCOMES_BYTES"] = str(whole_bytes)
        self.limit_bytes = int(os.environ["TEST_OUTCOMES_BYTES"])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        before = read(self.path, self.limit_bytes)
        if not self.is_worker or os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
            chosen = self.path.with_name(self.path.name + ".tests")
            chosen.write_text("".join(f"{json.dumps(item.nodeid)}\n" for item in items))
        ended = {test for test, one in before.items() if one["outcome"] != "failed"}
        left_out = [item for item in items if item.nodeid in ended]
        items[:] = [item for item in items if item.nodeid not in ended]
        config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.is_worker:
            return
        one = self.ending.setdefault(
            report.nodeid, {"test": report.nodeid, "outcome": "passed", "seconds": 0.0}
        )
        one["seconds"] = round(one["seconds"] + report.duration, 1)
        if report.failed:
            one |= {"outcome": "failed", "reason": report.longreprtext[-REASON_CHARACTERS:]}
        elif report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            one |= {"outcome": "skipped", "reason": reason.removeprefix("Skipped: ")}
        if report.when == "teardown":
            with self.path.open("a") as file:
                file.write(json.dumps(self.ending.pop(report.nodeid)) + "\n")
