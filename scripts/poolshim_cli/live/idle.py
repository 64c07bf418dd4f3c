# SPDX-License-Identifier: MIT
"""Whether any thread of a process runs: no other can serve a request.

    idle = Idle(1234, 1.0)
    while not idle.lasts(): ...           # True once no thread has run for a second

A thread that has run since has other counts of context switches, or is running. The read of the
memory of a process does not run it.
"""

from __future__ import annotations

import os
import re
import time

from .. import control

THREADS_MAX = 256  # that are looked at; of more, one is taken to run
BYTES_MAX = 1 << 14
RUNNING = "R"
LINE = re.compile(r"^(State|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):\s+(\S+)", re.M)

Seen = tuple[tuple[str, ...], ...]


def threads_of(pid: int) -> Seen | None:
    """State and context switches of each; None: one is running, or there are too many."""
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError as error:
        raise control.explain(pid, error.errno or 0, "its threads") from None
    found = []
    for name in names[:THREADS_MAX]:
        try:
            with open(f"/proc/{pid}/task/{name}/status", "rb") as file:
                text = os.fsdecode(file.read(BYTES_MAX))
        except OSError:
            continue  # it has ended
        found.append((name, *(value for _, value in LINE.findall(text))))
    if len(names) > THREADS_MAX or any(one[1:2] == (RUNNING,) for one in found):
        return None
    return tuple(sorted(found))


class Idle:
    """Tells whether one process is idle, from now on."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.pid = pid
        self.seconds = seconds
        self.seen = threads_of(pid)
        self.since = time.monotonic()

    def lasts(self) -> bool:
        """Has no thread run for so long?"""
        now = threads_of(self.pid)
        if now is None or now != self.seen:
            self.seen, self.since = now, time.monotonic()
            return False
        return time.monotonic() - self.since >= self.seconds

    @property
    def is_stopped(self) -> bool:
        """Is the process stopped, by a signal or a debugger?"""
        return bool(self.seen) and all("".join(one[1:2]) in ("T", "t") for one in self.seen or ())
