# SPDX-License-Identifier: MIT
"""A command that loops: the least live memory of each piece of its time.

The first quarter is its start, the last twentieth its end. Memory that comes and goes with the
iterations of a loop does not move the least of a piece, a leak moves each.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from bisect import bisect_left
from pathlib import Path

from ..errors import OWN_FAILURE, Failed, OwnFailure
from ..explain import runs
from . import judge
from .arguments import ROUNDS_LEAST, Request
from .looks import Look, Looks
from .outcome import Outcome, check_seen, name_sites

COMPLAINANT = "poolshim gate"
START_SHARE, END_SHARE = 0.25, 0.05  # of the time, that are not compared
COST_SHARE = 0.5  # of one core, at most
LOOKS_MAX = 1000  # beyond: every second is dropped, and the pause doubled
SAMPLED_MAX = 32  # looks that keep their samples
PIECE_LOOKS = 2  # of a piece, where there are as many
MINUTE_S = 60.0


class Trend:
    """Looks at a command while it runs."""

    def __init__(self, looks: Looks, pause_s: float) -> None:
        self.looks, self.pause_s = looks, pause_s
        self.taken: list[Look] = []
        self.stride = 1

    def follow(self, process: "subprocess.Popen[bytes]") -> None:
        """Until it ends."""
        while process.poll() is None:
            before_s = time.process_time()
            look = self.looks.take()
            if look.samples:
                self.keep(look)
            cost_s = time.process_time() - before_s
            runs.pause(process, max(self.pause_s, cost_s / COST_SHARE))

    def keep(self, look: Look) -> None:
        """Keeps the look, and the samples of some."""
        if len(self.taken) % self.stride:
            look.samples = {}
        self.taken.append(look)
        if len(self.taken) > LOOKS_MAX:
            self.taken, self.pause_s = self.taken[::2], self.pause_s * 2
            self.stride = max(1, self.stride // 2)
        if len(self.taken) // self.stride >= SAMPLED_MAX:
            self.stride *= 2
            for index, one in enumerate(self.taken):
                if index % self.stride:
                    one.samples = {}


def floor_of(looks: list[Look]) -> Look:
    """The least of each size."""
    found = Look(looks[0].at_s)
    for size in {size for look in looks for size in look.nbytes}:
        found.nbytes[size] = min(look.nbytes[size] for look in looks)
        found.blocks[size] = min(look.blocks[size] for look in looks)
    return found


def compared(looks: list[Look]) -> list[Look]:
    """Those between its start and its end."""
    begin_s, end_s = looks[0].at_s, looks[-1].at_s
    span_s = end_s - begin_s
    return [look for look in looks
            if begin_s + START_SHARE * span_s <= look.at_s <= end_s - END_SHARE * span_s
            ]  # fmt: skip


def pieces_of(looks: list[Look], rounds: int) -> list[Look]:
    """The floors of an odd number of pieces of equal time; fewer of them with few looks."""
    if len(looks) <= 2 * ROUNDS_LEAST:
        return []
    halves = min(rounds, max(ROUNDS_LEAST, (len(looks) // PIECE_LOOKS - 1) // 2))
    times = [look.at_s for look in looks]
    while halves >= ROUNDS_LEAST:
        count = 2 * halves + 1
        step_s = (times[-1] - times[0]) / count
        cuts = [bisect_left(times, times[0] + i * step_s) for i in range(count)] + [len(looks)]
        parts = [looks[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
        if all(parts):
            return [floor_of(part) for part in parts]
        halves -= 1
    return []


def judged(request: Request, trend: Trend, program: str) -> Outcome:
    """The verdict about a command that has ended."""
    check_seen(trend.looks, trend.taken, program)
    looks = compared(trend.taken)
    pieces = pieces_of(looks, request.rounds)
    if not pieces:
        raise OwnFailure(
            f"{program} ended too soon to tell: {len(looks)} look{'s' * (len(looks) != 1)} at its "
            "memory, and "
            f"{2 * ROUNDS_LEAST + 1} are needed, better twice as many: a longer loop helps"
        )
    span_s = looks[-1].at_s - looks[0].at_s
    piece_s = span_s / len(pieces)
    verdict = judge.confirmed(pieces, request.allow * piece_s / MINUTE_S)
    found = Outcome(verdict, [piece.total for piece in pieces], MINUTE_S / piece_s, "minute",
                    f"{len(pieces)} pieces of {piece_s:.2g} s", name=program)  # fmt: skip
    if verdict.does_grow:
        sampled = [look for look in looks if look.samples]
        share = (sampled[-1].at_s - sampled[0].at_s) / span_s * len(pieces) / verdict.rounds
        name_sites(found, trend.looks, sampled[0], sampled[-1], request.folds, share)
    return found


def end_command(process: "subprocess.Popen[bytes]", root: int) -> None:
    """Ends a command that still runs, since the gate itself is ended."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.kill(root or process.pid, signal.SIGTERM)


def gate_command(request: Request) -> Outcome:
    """Runs it and judges."""
    env = runs.environment(request.interval)
    if request.seed:
        env["POOLSHIM_PROFILE_SEED"] = str(request.seed)
    program = request.command[0]
    with tempfile.NamedTemporaryFile(prefix="poolshim-", suffix=".json") as result:
        process = runs.launch(request.command, env, result.name, COMPLAINANT)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the command's
        trend = Trend(Looks(starter=process.pid), request.every_s)
        try:
            trend.follow(process)
            status = process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
            trend.looks.close()
            end_command(process, trend.looks.watch.root)
        has_run = runs.peak_of(Path(result.name)) > 0
    status = status if status >= 0 else 128 - status
    if not has_run:
        raise OwnFailure(f"{program} was not started", max(status, OWN_FAILURE))
    if status != 0:
        raise Failed(f"{program} ended with {status}")
    return judged(request, trend, program)
