# SPDX-License-Identifier: MIT
"""Runs a plan: rounds in which every column runs once, in an order shuffled by a printed seed.

    results = measure(Plan(tuple(columns), CommandWork(("jq", ".", "big.json")), runs=10))
    summary = summarise(results)          # summary.py: ratios with intervals, the verdict

The first round of the warm-up proves every column. A column that fails there, or later, is out,
with the reason; when it is the base, or when nothing maps its library, everything ends.
"""

from __future__ import annotations

import datetime
import os
import platform
import random
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import machine, places
from ..errors import Failed, RunFailed
from . import processes, server, traced
from .plan import Column, CommandWork, Plan, ServerWork
from .results import Measured, Results, Run
from .single import NotMapped, Single, Tools, linked_allocators, run_single, why

AGAIN = "again"  # the base a second time
ROUNDS_MIN, ROUNDS_MAX = 5, 30  # where the time budget decides
DEFAULT_BUDGET_S = 60.0


@dataclass(frozen=True)
class Step:
    """The next run, for the display of progress."""

    round: int  # from 1; 0 and less: warm-up
    rounds: int  # how many there will be, as far as that is known
    column: str
    done: int  # processes
    total: int


Progress = Callable[[Step], None]


@dataclass
class Session:
    """The state of one measurement."""

    plan: Plan
    tools: Tools
    progress: Progress
    columns: dict[str, Column]
    measured: dict[str, Measured]
    warnings: list[str] = field(default_factory=list)
    done: int = 0
    own: set[str] | None = None  # allocators that the command brings itself; None: not seen yet
    unmapped: set[str] = field(default_factory=set)  # columns that failed for that

    @property
    def alive(self) -> list[str]:
        """The columns that have not failed."""
        return [name for name, column in self.measured.items() if column.failure is None]

    def warn(self, text: str) -> None:
        """Once each."""
        if text not in self.warnings:
            self.warnings.append(text)


def again_name(base: str) -> str:
    """The name of the column that is the base once more."""
    return f"{base} {AGAIN}"


def open_session(plan: Plan, tools: Tools, progress: Progress) -> Session:
    """Everything before the first process."""
    columns = {column.name: column for column in plan.columns}
    if plan.has_again:
        columns[again_name(plan.base)] = replace(columns[plan.base], name=again_name(plan.base))
    measured = {
        name: Measured(
            name, str(c.library) if c.library else None, c.version, c.note, dict(c.env),
            is_again=plan.has_again and name == again_name(plan.base),
        )
        for name, c in columns.items()
    }  # fmt: skip
    return Session(plan, tools, progress, columns, measured)


def others(session: Session, column: Column) -> set[Path]:
    """The libraries of other columns, which must not be mapped unless the command brings them."""
    if column.library is None:
        return set()
    libraries = {c.library for c in session.columns.values() if c.library is not None}
    return {one for one in libraries if str(one) not in (session.own or ())} - {column.library}


def prepare(session: Session) -> None:
    """--prepare, by sh, with nothing preloaded."""
    work = session.plan.work
    if work.prepare is None:
        return
    done = subprocess.run(
        ["sh", "-c", work.prepare], cwd=work.cwd, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace", check=False, start_new_session=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise Failed(f"--prepare: exit status {done.returncode}{why(done.stderr)}")


def run_column(session: Session, name: str, at: tuple[int, int]) -> tuple[Run, dict[str, Any]]:
    """One run of one column; RunFailed if it was none."""
    plan, column = session.plan, session.columns[name]
    with processes.confined():
        prepare(session)
    with processes.confined() as watch:
        if isinstance(plan.work, ServerWork):
            run, report = server.run_server(
                plan, column, others(session, column), session.tools, at
            )
        else:
            work = plan.work
            single = Single(
                work.command, column, others(session, column), work.cwd, work.stdin, plan.curve_ms,
                plan.timeout_s, work.ignore_failure, work.is_output_kept,
            )  # fmt: skip
            run, report = run_single(single, session.tools, at)
            if isinstance(work, traced.TraceWork):
                run = traced.figures(run, (session.tools.folder / "stdout").read_text(), work)
    if watch.left_count:
        session.warn(f"{name}: left processes running, which were killed")
    return run, report


def run_round(session: Session, number: int, rounds: int, generator: random.Random) -> None:
    """Every column once; rounds up to 0 are warm-up."""
    names = session.alive
    generator.shuffle(names)
    if session.own is None:
        names.remove(session.plan.base)  # first of all: what it maps itself, the others may map
        names.insert(0, session.plan.base)
    per_round = len(session.alive)
    for position, name in enumerate(names):
        total = session.done + per_round * max(0, rounds - number + 1) - position
        session.progress(Step(number, rounds, name, session.done, total))
        try:
            run, report = run_column(session, name, (number, position))
        except RunFailed as failure:
            drop(session, name, failure)
            continue
        finally:
            session.done += 1
        if number > 0:
            session.measured[name].runs.append(run)
        if name == session.plan.base and session.own is None:
            note_own_allocator(session, report)


def drop(session: Session, name: str, failure: RunFailed) -> None:
    """The column is out. Without the base, or with no library mapped, nothing can be compared."""
    column = session.measured[name]
    if name == session.plan.base:
        hint = " (--ignore-failure goes on regardless)" if "exit status" in str(failure) else ""
        raise Failed(f"{name}: {failure}{hint}")
    column.failure = str(failure)
    column.runs.clear()
    if isinstance(failure, NotMapped):
        session.unmapped.add(name)
    if session.unmapped == {n for n, c in session.columns.items() if c.library is not None}:
        raise Failed(
            f"{command_name(session.plan)} loads no preloaded library: it is statically linked or "
            "set-user-ID, or clears its environment (poolshim doctor says which)"
        )


def command_name(plan: Plan) -> str:
    """The program that the columns run."""
    if isinstance(plan.work, ServerWork):
        return shlex.split(plan.work.server)[0]
    return plan.work.command[0]


def note_own_allocator(session: Session, report: dict[str, Any]) -> None:
    """What the command is linked to: then the base, with nothing preloaded, is that."""
    known = {c.library for c in session.columns.values() if c.library is not None}
    session.own = set(linked_allocators(report, known))
    if session.columns[session.plan.base].library is not None:
        session.own.clear()
    for path in sorted(one for one in session.own if not Path(one).name.startswith("libc.so")):
        session.warn(
            f"{command_name(session.plan)} is linked to {Path(path).name}: the column "
            f"{session.plan.base}, where nothing is preloaded, runs on that "
            "(--add libc=libc.so.6 adds one that runs on libc)"
        )


def note_inherited(session: Session) -> None:
    """The settings of allocators in our own environment, which the columns run with."""
    for column in session.measured.values():
        own = [str(one) for one in session.own or ()] or ["libc.so.6"]
        libraries = own if column.library is None else [column.library]
        column.inherited = machine.inherited_by(libraries, column.env)
    if os.environ.get("LD_PRELOAD"):
        session.warn("LD_PRELOAD of the environment is left out: no column runs with it")


def rounds_that_fit(session: Session, round_s: float) -> int:
    """How many rounds to run, after timing one."""
    plan = session.plan
    if plan.runs is not None and plan.time_budget_s is None:
        return plan.runs
    budget_s = DEFAULT_BUDGET_S if plan.time_budget_s is None else plan.time_budget_s
    fitting = int(budget_s / max(round_s, 1e-9))
    if plan.runs is not None:
        return max(1, min(plan.runs, fitting))
    return max(ROUNDS_MIN, min(ROUNDS_MAX, fitting))


def mode_of(plan: Plan) -> str:
    """What the columns do."""
    if isinstance(plan.work, traced.TraceWork):
        return traced.MODE
    return "server" if isinstance(plan.work, ServerWork) else "command"


def describe(plan: Plan, tools: Tools) -> dict[str, Any]:
    """All that a reader needs to judge the figures, or to make them again."""
    work: dict[str, Any]
    if isinstance(plan.work, traced.TraceWork):
        work = plan.work.describe()
    elif isinstance(plan.work, ServerWork):
        work = {"server": plan.work.server, "load": plan.work.load, "ready": plan.work.ready}
    else:
        work = {"command": list(plan.work.command)}
        work["stdin"] = str(plan.work.stdin) if plan.work.stdin else None
    return {
        "mode": mode_of(plan),
        **work,
        "prepare": plan.work.prepare,
        "cwd": str(plan.work.cwd or Path.cwd()),
        "seed": plan.seed,
        "warmup": plan.warmup,
        "curve_ms": plan.curve_ms,
        "made": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "versions": {
            "poolshim": places.find().version,
            "hyperfine": hyperfine_version(tools),
            "python": platform.python_version(),
        },
    }


def hyperfine_version(tools: Tools) -> str | None:
    """None where there is none."""
    if tools.hyperfine is None:
        return None
    shown = subprocess.run(
        [tools.hyperfine, "--version"], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip().rpartition(" ")[2] or "unknown"


def no_progress(_: Step) -> None:
    """Where no progress is shown."""


def measure(
    plan: Plan, progress: Progress = no_progress, launcher: Path | None = None
) -> Results:
    """The plan from its warm-up to its last round; Failed if there is nothing to compare."""
    with tempfile.TemporaryDirectory(prefix="poolshim-compare-") as folder:
        tools = Tools.find(launcher or places.find().launcher, Path(folder))
        session = open_session(plan, tools, progress)
        if isinstance(plan.work, traced.TraceWork):
            session.warnings += plan.work.warnings()
        about = describe(plan, tools)
        foreign_s, started = machine.foreign_cpu_s(), time.monotonic()
        run_rounds(session)
        took_s = time.monotonic() - started
    about["took_s"] = round(took_s, 3)
    about["foreign_cpu_share"] = round(
        max(0.0, machine.foreign_cpu_s() - foreign_s) / max(took_s, 1e-9), 4
    )
    about["linked_to"] = sorted(str(one) for one in session.own or ())
    note_inherited(session)
    if tools.hyperfine is None:
        session.warn("hyperfine is not installed: the launcher's clock serves alone")
    return Results(about, plan.base, list(session.measured.values()), session.warnings)


def run_rounds(session: Session) -> None:
    """Warm-up, then rounds for as long as the plan says."""
    plan, generator = session.plan, random.Random(session.plan.seed)
    expected = plan.runs or ROUNDS_MIN
    started, round_s = time.monotonic(), 0.0
    for number in range(1 - plan.warmup, 1):
        run_round(session, number, expected, generator)
        round_s, started = time.monotonic() - started, time.monotonic()
    number, begun = 0, time.monotonic()
    while True:
        if number or plan.warmup:
            expected = rounds_that_fit(session, round_s)
        if number >= expected:
            return
        number += 1
        run_round(session, number, expected, generator)
        round_s = (time.monotonic() - begun) / number
