# SPDX-License-Identifier: MIT
"""A measuring session: every case under every allocator, in passes, within a time budget.

A pass is one process per case and allocator, the allocators taking turns, so that a slow moment of
the machine hits all of them. The first pass is always made whole. For each further pass the cost is
known from the ones before; if it does not fit into the rest of the budget, the most expensive
processes are left out first, and the tables give the number of processes of each row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from poolshim_cli.allocators import Allocator
from poolshim_cli.errors import RunFailed
from poolshim_cli.machine import foreign_cpu_s

from .runner import Case, Run, Runner

Key = tuple[str, str]  # case, allocator


@dataclass
class Session:
    """The runs so far. Each list in `runs` has one entry per process."""

    cases: list[Case]
    allocators: list[Allocator]
    processes: int
    budget_s: float
    runs: dict[Key, list[Run]] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)
    spent_s: float = 0.0
    foreign_cores: float = 0.0  # used by other processes, on average
    is_interrupted: bool = False

    def steps_of_pass(self, number: int) -> list[tuple[Case, Allocator]]:
        """The processes of pass `number` (from 0) that fit into the budget, in running order."""
        steps = [
            (case, allocator)
            for case in self.cases
            for allocator in self.allocators
            if (case.name, allocator.name) not in self.failures
        ]
        if number == 0:
            return steps
        steps = [step for step in steps if self.cost_s(step) is not None]
        while (
            steps and sum(self.cost_s(step) or 0 for step in steps) > self.budget_s - self.spent_s
        ):
            steps.remove(max(steps, key=lambda step: self.cost_s(step) or 0))
        return steps

    def cost_s(self, step: tuple[Case, Allocator]) -> float | None:
        """What such a process took so far, at worst; None if there was none."""
        runs = self.runs.get((step[0].name, step[1].name), [])
        return max((run.cost_s for run in runs), default=None)

    def run(self, runner: Runner, progress: Progress) -> None:
        """Makes all passes. A failed process ends its row; Ctrl-C ends all, and the runs remain."""
        start_s, start_foreign_s = time.monotonic(), foreign_cpu_s()
        try:
            for number in range(self.processes):
                steps = self.steps_of_pass(number)
                progress.begin_pass(number, len(steps))
                for case, allocator in steps:
                    self.run_step(runner, case, allocator, progress, number)
        except KeyboardInterrupt:
            self.is_interrupted = True
        elapsed_s = time.monotonic() - start_s
        if elapsed_s > 0:
            self.foreign_cores = max(0.0, (foreign_cpu_s() - start_foreign_s) / elapsed_s)

    def run_step(
        self, runner: Runner, case: Case, allocator: Allocator, progress: Progress, number: int
    ) -> None:
        """One process, counted against the budget whatever became of it."""
        key = (case.name, allocator.name)
        progress.begin_step(case, allocator, number)
        start = time.monotonic()
        try:
            run = runner.run(case, allocator)
            self.runs.setdefault(key, []).append(run)
            outcome = f"{run.launcher['wall_s']:.1f} s, peak {run.peak_rss_kib / 1024:.0f} MiB"
        except RunFailed as failure:
            self.failures[key] = outcome = str(failure)
        self.spent_s += time.monotonic() - start
        progress.end_step(case, allocator, outcome, is_failure=key in self.failures)


@dataclass
class Progress:
    """Receives the progress of a session; the default drops it."""

    begin_pass: Callable[[int, int], None] = lambda number, steps: None
    begin_step: Callable[[Case, Allocator, int], None] = lambda case, allocator, number: None
    end_step: Callable[..., None] = lambda case, allocator, outcome, is_failure: None
