# SPDX-License-Identifier: MIT
"""Processor time of the traced command, by another run without the trace.

    place = place_of_input()                         # before the traced run
    again = Again(command, environment, status, place, took_s)
    again.processor_ns(), again.note                 # None, and why it is not known
"""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median

from ..explain.runs import start, stopped

RUNS_MOST = 5
RUNS_NS = 1e9  # of processor time, after which there is no other
MORE_S = 10.0  # that a run without a trace may take, in addition to twice the traced one


def can_run_again() -> bool:
    """Whether standard input would be the same: a pipe's is used up."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return True
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not sys.stdin.isatty())


def place_of_input() -> int | None:
    """Where standard input is read next; None where it has no place."""
    try:
        return os.lseek(sys.stdin.fileno(), 0, os.SEEK_CUR)
    except (OSError, ValueError, AttributeError):
        return None


@dataclass
class Again:
    """A command that ended once."""

    command: list[str]
    environment: dict[str, str]
    status: int  # that it ended with
    place: int | None  # of its input
    took_s: float
    note: str = ""  # the fault, if any

    def run(self) -> float | None:
        """Nanoseconds of a run; None where it ends otherwise than before, or does not. A server
        that another command stops would never end without that command."""
        if self.place is not None:
            os.lseek(sys.stdin.fileno(), self.place, os.SEEK_SET)
        limit_s = 2 * self.took_s + MORE_S
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = start(self.command, self.environment, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        with stopped(process):
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.note = (
                    f"run again without a trace, the command did not end within {limit_s:.0f} s "
                    "and was stopped: --once, or --server and --load"
                )
                return None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = process.returncode if process.returncode >= 0 else 128 - process.returncode
        if ended != self.status:
            self.note = (
                f"run again without a trace, the command ended with {ended}, not {self.status}"
            )
            return None
        return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e9

    def processor_ns(self) -> float | None:
        """The processor time of a run; of a short command, the median of several runs."""
        found: list[float] = []
        until_s = time.monotonic() + 2 * self.took_s + MORE_S
        while len(found) < RUNS_MOST and sum(found) < RUNS_NS:
            spent = self.run()
            if spent is None:
                return None
            found.append(spent)
            if time.monotonic() > until_s:
                break
        return median(found)
