# SPDX-License-Identifier: MIT
"""Rounds of a server: its live memory after each run of the load."""

from __future__ import annotations

import shlex
import subprocess

from ..explain import runs
from . import judge
from .arguments import Request
from .looks import Look, Looks
from .outcome import Outcome, check_seen, name_sites


class Rounds:
    """A server that runs."""

    def __init__(
        self, request: Request, server: "subprocess.Popen[bytes]", load: list[str]
    ) -> None:
        self.request, self.server, self.load = request, server, load
        self.serving = runs.Serving(request.server, request.load, request.ready, 0.0)
        self.looks = Looks(root=server.pid)
        self.count = 0

    def play(self) -> None:
        """One load."""
        self.count += 1
        words = [word.replace("{round}", str(self.count)) for word in self.load]
        runs.put_load(self.serving, self.server, words, lambda _: 1.0)

    def look(self) -> Look:
        """After a round. Samples of looks between the first and the last are not needed."""
        return self.looks.settled(self.request.rest_s)

    def series(self, count: int) -> list[Look]:
        """Looks after so many rounds more."""
        found = []
        for _ in range(count):
            self.play()
            found.append(self.look())
            for look in found[:-1]:
                look.samples = {}
        return found

    def outcome(self) -> Outcome:
        """The verdict, with the sites if it is bad."""
        request, rounds = self.request, self.request.rounds
        program = shlex.split(request.server)[0]
        for _ in range(request.warmup):
            self.play()
        looks = [self.look()]
        check_seen(self.looks, looks, program)
        looks += self.series(rounds)
        if judge.suspects(looks):
            looks += self.series(rounds)
            verdict = judge.confirmed(looks, request.allow)
        else:
            verdict = judge.calm(looks)
        span = f"{verdict.rounds} rounds after {request.warmup} of warm-up"
        found = Outcome(verdict, [look.total for look in looks], span=span, name=program)
        if verdict.does_grow:
            name_sites(found, self.looks, looks[0], looks[-1], request.folds)
        return found


def gate_server(request: Request) -> Outcome:
    """Starts it, plays the rounds, stops it."""
    env = runs.environment(request.interval)
    if request.seed:
        env["POOLSHIM_PROFILE_SEED"] = str(request.seed)
    serving = runs.Serving(request.server, request.load, request.ready, 0.0)
    with runs.served(serving, env) as (server, load):
        rounds = Rounds(request, server, load)
        try:
            return rounds.outcome()
        finally:
            rounds.looks.close()
