# SPDX-License-Identifier: MIT
"""Heap profiles of running processes for clients of the exporter, as `profile --pid` makes them.

    found = Sampler(watch.is_served).sample(1234, 10.0); found.profile, found.names

One sampling of a process at a time, and a bounded number of them at once. An idle process has an
empty profile, so that a client that asks again and again sees no failure.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .. import pprof
from ..errors import NOT_FOUND, Failed, OwnFailure
from ..foreign import patience
from ..live import containers, report
from ..profile import live
from ..symbols import Symbols

SAMPLINGS_MAX = 32  # at once: each has a thread, and its process is sampled meanwhile
SECONDS, SECONDS_MAX = 10.0, 300.0
NAMING_SECONDS = 120.0  # for stacks and names, after the samples


class Busy(Failed):
    """The process is being sampled, or too many others are."""


class Sampler:
    """Samples processes for the threads of the exporter."""

    def __init__(self, is_served: Callable[[int], bool]) -> None:
        self.is_served = is_served
        self.lock = threading.Lock()  # of the next field
        self.busy: set[int] = set()

    def check(self, pid: int) -> None:
        """Refuses what the command line left out, and the exporter itself."""
        if not self.is_served(pid) or pid == os.getpid():
            raise OwnFailure(f"process {pid} is not served by this exporter", NOT_FOUND)

    @contextmanager
    def turn(self, pid: int) -> Iterator[None]:
        """A time in which no other thread samples the process."""
        with self.lock:
            if pid in self.busy:
                raise Busy(f"process {pid} is being sampled: try again when that has ended")
            if len(self.busy) >= SAMPLINGS_MAX or not patience.has_room():
                raise Busy(f"{len(self.busy)} processes are being sampled: try again later")
            self.busy.add(pid)
        try:
            yield
        finally:
            with self.lock:
                self.busy.discard(pid)

    def sample(self, pid: int, seconds: float) -> live.Found:
        """A profile of so many seconds; Busy, or one line why there is none."""
        self.check(pid)
        with self.turn(pid):
            # Sampling begins when the process notices it, after so many seconds at most.
            return patience.Call(sample, pid, seconds).result(2 * seconds + NAMING_SECONDS)


def described(pid: int) -> str:
    """The process and its container, in words."""
    identity = containers.identity_in(containers.paths_of(pid))
    found = f"process {pid}, {report.program_of(pid)}"
    if identity.container:
        found += f", container {identity.container}"
    return found + (f", pod {identity.pod}" if identity.pod else "")


def sample(pid: int, seconds: float) -> live.Found:
    """Samples once, in the thread that calls it."""
    name = described(pid)
    try:
        found = live.sample(pid, seconds, 0)
    except live.NothingSampled as error:
        found = nothing(pid, seconds, str(error))
    found.profile.comments.insert(0, f"{name}: sampled for {found.seconds:.1f} s; blocks "
                                  "allocated before are unknown")  # fmt: skip
    found.profile.comments += found.notes
    return found


def nothing(pid: int, seconds: float, why: str) -> live.Found:
    """An empty profile that says why."""
    profile = pprof.Profile(types=live.TYPES, default_type="inuse_space", comments=[why],
                            time_nanos=time.time_ns(), duration_nanos=round(seconds * 1e9),
                            period=1)  # fmt: skip
    return live.Found(profile, Symbols(), report.program_of(pid), seconds, [])
