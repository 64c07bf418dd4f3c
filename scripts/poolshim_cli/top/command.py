# SPDX-License-Identifier: MIT
"""`poolshim top [PID...]`: shows what the memory of running processes on poolshim is.

    scripts/poolshim top
    scripts/poolshim top --once $(pidof redis-server)

Exit status: 0; 1 a process is not on poolshim, or, with --once, none is; 2 usage; 126 not
permitted; 127 no such process.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live

from ..errors import Failed
from ..live import options
from ..live.processes import Row, Watch
from . import screen, threads

HELP = """usage: poolshim top [OPTIONS] [PID...]
       poolshim top --threads [OPTIONS] PID...

Shows what the resident memory of running processes is: live blocks, the loss by rounding, free
memory in part-filled slabs, free pages, metadata, and memory outside the heap; and how often malloc
and free are called. Without PID: all processes on poolshim that this user may read. The processes
are not stopped and take no part in it. q ends.

  --threads          show the bytes that each thread of PID allocates and frees, instead
  --once             print one table; also where standard output is no terminal
  --json             print one JSON array
  --interval TIME    seconds between two readings [2]
  -h, --help         print this text

Exit status: 0 done, 1 a process does not run on poolshim, or none does, 2 usage, 126 not permitted
(the right to trace a process is needed), 127 no such process.
"""
INTERVAL_SECONDS = 2.0
ONCE_SECONDS = 0.5  # between the two readings of --once, for the rates
ENDS = "qQ\x03\x04"


def as_dict(row: Row) -> dict[str, object]:
    """For --json."""
    parts = {f"{key}_bytes": value for key, value in dataclasses.asdict(row.split).items()}
    calls = row.census.has_calls
    return {
        "pid": row.pid, "program": row.program, **parts,
        "malloc_count": row.counts["malloc_count"] if calls else None,
        "free_count": row.counts["free_count"] if calls else None,
        "malloc_rate": row.malloc_rate, "free_rate": row.free_rate,
    }  # fmt: skip


@dataclasses.dataclass(frozen=True)
class View:
    """What is watched, and how its rows are shown."""

    watch: Watch | threads.Watch
    table: Callable[[list[Any], int], RenderableType]
    page: Callable[[list[Any], int, int], list[RenderableType]]
    as_dict: Callable[[Any], dict[str, object]]


def view_of(pids: list[int], has_threads: bool) -> View:
    """Processes, or their threads."""
    if has_threads:
        return View(threads.Watch(pids), threads.table, threads.page, threads.as_dict)
    return View(Watch(pids), screen.table, screen.page, as_dict)


def once(view: View, seconds: float, is_json: bool) -> int:
    """Two readings, one table."""
    watch = view.watch
    first = watch.read()
    time.sleep(min(seconds, ONCE_SECONDS))
    rows = watch.read()
    if not rows:
        raise nothing(watch, bool(first))
    if is_json:
        print(json.dumps([view.as_dict(row) for row in rows], indent=2))
        return 0
    console = Console(highlight=False)
    console.print(view.table(rows, console.width))
    return 0


def nothing(watch: Watch | threads.Watch, was_there: bool) -> Failed:
    """No process is left, or none was there."""
    if watch.pids and watch.watched:
        return Failed("; ".join(watch.refused.values()))
    if was_there or watch.pids:
        return Failed("the processes have ended")
    why = f" ({next(iter(watch.refused.values()))})" if watch.refused else ""
    return Failed(f"no process runs on poolshim, or may be read by this user{why}")


@contextmanager
def keys() -> Iterator[int | None]:
    """Standard input letter by letter; None if it is no terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def is_ended(descriptor: int | None, seconds: float) -> bool:
    """Sleeps; True if a key ends it."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if descriptor is None:
            time.sleep(left)
        elif select.select([descriptor], [], [], left)[0]:
            typed = os.read(descriptor, 64).decode(errors="replace")
            if not typed or any(key in ENDS for key in typed):
                return True
    return False


def follow(view: View, seconds: float) -> int:
    """Shows the processes until a key is pressed, or all of them have ended."""
    watch = view.watch
    console = Console(highlight=False)
    with keys() as descriptor, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            rows = watch.read()
            if watch.pids and not watch.watched:
                break
            live.update(Group(*view.page(rows, console.width, console.height)), refresh=True)
            if is_ended(descriptor, seconds):
                return 0
    print("poolshim top: the processes have ended", file=sys.stderr)
    return 0


def main(words: list[str]) -> int:
    """All, or those named."""
    request = options.parse(words, {"--once", "--json", "--threads"}, {"--interval"})
    if request.is_help:
        print(HELP, end="")
        return 0
    interval = request.values.get("--interval")
    seconds = options.number(interval, "--interval", float) if interval else INTERVAL_SECONDS
    view = view_of(options.pids_of(request), "--threads" in request.switches)
    is_json = "--json" in request.switches
    if is_json or "--once" in request.switches or not sys.stdout.isatty():
        return once(view, seconds, is_json)
    return follow(view, seconds)
