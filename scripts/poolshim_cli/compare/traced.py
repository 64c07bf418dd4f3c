# SPDX-License-Identifier: MIT
"""`compare --trace`: the calls of a trace instead of a command, by replay_malloc.

    with prepared(Path("server.trace"), timeout_s=600) as work:
        results = measure(Plan(columns, work))

Memory that no allocator has, such as code and stacks, is not in a trace. It is what the traced
process had at its peak beyond a replay that is traced likewise, and is added to each column.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from .. import places
from ..advise.trace import HEADER
from ..errors import BadRequest, OwnFailure, RunFailed
from ..launcher import Launch, check_exit
from ..launcher import measure as launch_once
from ..machine import memory_kib
from ..sizes import mib
from . import order
from .plan import CommandWork
from .results import Run

PROGRAM = "replay_malloc"
MODE = "trace"
# Of a traced replay. The library returns memory by the clock, and a trace slows the calls down: one
# in four differs by a twentieth, others by a hundredth.
REPEATS, REPEATS_LEAST = 5, 3
CALLS_MANY = 1_000_000


@dataclass(frozen=True)
class TraceWork(CommandWork):
    """The command is the replay."""

    trace: Path = Path()
    calls: int = 0
    threads: int = 0
    live_bytes: int = 0  # at their height
    is_whole: bool = True
    outside_bytes: int | None = None  # beyond the replay's; None: the trace has no peak RSS

    def describe(self) -> dict[str, Any]:
        """For the results."""
        return {
            "trace": str(self.trace), "calls": self.calls, "threads": self.threads,
            "live_bytes": self.live_bytes, "is_whole": self.is_whole,
            "outside_bytes": self.outside_bytes,
        }  # fmt: skip

    def warnings(self) -> list[str]:
        """What the figures leave out."""
        found = []
        if not self.is_whole:
            found.append(
                f"the trace has windows: the first {self.calls} calls are replayed, "
                "a larger POOLSHIM_TRACE_MAX traces more"
            )
        if self.threads > 1:
            found.append(
                f"the trace has {self.threads} threads, and the replay runs one at a time: "
                "allocators with memory for each running thread take more in the program"
            )
        if self.outside_bytes is None:
            found.append(
                "the trace has no peak RSS, since the process was killed early: peak RSS is that "
                "of the replay, without the program's own memory"
            )
        return found


def answer_of(text: str) -> dict[str, int]:
    """What the replay printed."""
    try:
        answer: dict[str, int] = json.loads(text)
        return {name: int(answer[name]) for name in ("cpu_ns", "peak_rss_bytes", "table_bytes")}
    except (ValueError, KeyError, TypeError):
        raise RunFailed("the replay gave no figures") from None


def figures(run: Run, text: str, work: TraceWork) -> Run:
    """The run with the figures of the calls in place of the process's."""
    answer = answer_of(text)
    peak_bytes = max(answer["peak_rss_bytes"] + (work.outside_bytes or 0), 1)
    return replace(
        run, cpu_s=answer["cpu_ns"] / 1e9, peak_rss_kib=-(-peak_bytes // 1024),
        output_sha256=None, output_bytes=None,
    )  # fmt: skip


def traced_peak(program: Path, calls: Path, folder: Path, trace_bytes: int, limit_s: float) -> int:
    """The peak RSS that a trace of the replay records, without the replay's own tables."""
    path = folder / "replayed.trace"
    env = {"POOLSHIM_TRACE": str(path).replace("%", "%%"), "POOLSHIM_TRACE_MAX": str(trace_bytes)}
    launch = Launch((str(program), str(calls)), places.find().library, env)
    try:
        done = launch_once(launch, timeout_s=limit_s)
        check_exit(done.report, done.stderr)
        answer = answer_of(done.stdout)
        with order.opened(path) as (_, head):
            return head.peak_rss_bytes - answer["table_bytes"]
    except (RunFailed, BadRequest) as error:
        raise OwnFailure(f"the trace cannot be replayed under poolshim: {error}") from None
    finally:
        path.unlink(missing_ok=True)


def check_memory(trace: Path, written: order.Order) -> None:
    """A replay that cannot fit is not begun."""
    has_bytes = memory_kib("MemAvailable") << 10
    if has_bytes and written.used_bytes > has_bytes:
        raise OwnFailure(f"{trace}: its blocks need {mib(written.used_bytes)} MiB, "
                         f"{mib(has_bytes)} are available")  # fmt: skip


@contextlib.contextmanager
def prepared(trace: Path, timeout_s: float) -> Iterator[TraceWork]:
    """The work; its file lasts as long as the context."""
    program = places.find().programs / PROGRAM
    if not program.exists():
        raise OwnFailure(f"{program} is missing: build first")
    with tempfile.TemporaryDirectory(prefix="poolshim-compare-") as name:
        folder = Path(name)
        calls = folder / "calls"
        written = order.write_order(trace, calls)
        check_memory(trace, written)
        outside_bytes = None
        if written.head.peak_rss_bytes:
            length = max(trace.stat().st_size, HEADER.size)
            peaks = [
                traced_peak(program, calls, folder, length, timeout_s)
                for _ in range(REPEATS if written.calls < CALLS_MANY else REPEATS_LEAST)
            ]
            outside_bytes = written.head.peak_rss_bytes - int(median(peaks))
        yield TraceWork(
            (str(program), str(calls)), trace=trace, calls=written.calls, threads=written.threads,
            live_bytes=written.live_bytes, is_whole=written.head.is_whole,
            outside_bytes=outside_bytes,
        )  # fmt: skip
