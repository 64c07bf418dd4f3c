# SPDX-License-Identifier: MIT
"""Call sites of a process in which no profile was set: sampling that lasts as long as the watch.

    demand = Demand(memory, 128 << 10); demand.ask(); demand.before

As `poolshim profile --pid` does it (profile/live.py). Sampling begins at one of the process's next
calls of malloc or free, and ends by itself some seconds after the last request.
"""

from __future__ import annotations

import time

from ..errors import Failed, OwnFailure
from ..live.memory import Memory
from ..live.samples import Snapshot
from ..profile.live import BEAT_SECONDS, Target


class Demand:
    """Requests samples of one process, and reads them."""

    def __init__(self, memory: Memory, interval: int) -> None:
        self.interval = interval
        self.before: Snapshot | None = None  # earlier samples; None: it has not begun
        self.refusal = ""  # why there are no samples
        self.next_s = 0.0
        self.epoch = 0
        self.target: Target | None = None
        try:
            target = Target(memory)
            self.target = None if target.has("file") else target  # its own profile has all
        except (Failed, OwnFailure, OSError) as error:
            self.refusal = str(error)

    def ask(self) -> None:
        """Again, if it is time; notices that sampling has begun."""
        target, now = self.target, time.monotonic()
        if target is None:
            return
        try:
            if now >= self.next_s:
                target.ask(self.interval)
                self.next_s = now + BEAT_SECONDS
            if self.before is None and target.is_sampled():
                self.before = target.samples.read()
                self.epoch = target.number("demand_epoch")
        except (Failed, OwnFailure, OSError) as error:
            self.target, self.refusal = None, str(error)

    @property
    def is_broken(self) -> bool:
        """Whether another interval was used meanwhile, or some time is missing."""
        try:
            return (self.target is not None and self.before is not None
                    and self.target.number("demand_epoch") != self.epoch)  # fmt: skip
        except (Failed, OwnFailure, OSError):
            return False
