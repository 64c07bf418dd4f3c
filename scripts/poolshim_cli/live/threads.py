# SPDX-License-Identifier: MIT
"""The bytes of each thread of a running process: pools/engine/heap/counting.h, from outside.

    read(memory, layout).rows

A record of the library has the pointer of its thread, no id: that would cost each thread a system
call. libc's structure of a thread, which is at the pointer or below it, has the id, at an offset
that differs between libcs. It is the one where the structures of several threads have the ids of
different tasks.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .. import control
from ..foreign import files
from ..foreign.text import printable
from .fronts import Fronts
from .layout import Layout
from .memory import Memory, Unreadable, contradictions

BELOW, ABOVE = 2304, 1024  # bytes of the pointer in which the id is searched
USUAL = 0x2D0  # glibc on x86-64: where few threads leave a choice
SEARCHED_MAX = 64  # threads
TASKS_MAX = 1 << 16
ROWS_MAX = 50
NAMESPACE = re.compile(rb"^NSpid:.*?(\d+)\s*$", re.M)
NAME = re.compile(rb"^Name:\t(.*)$", re.M)
COLUMNS = (("thread", 10), ("allocated bytes", 22), ("freed bytes", 22))


@dataclass(frozen=True)
class Thread:
    """Of one thread with a record: it has allocated 64 KiB, or a few blocks of a size."""

    id: int | None  # None: not found
    name: str
    allocated_bytes: int
    freed_bytes: int | None  # None: not counted


@dataclass
class Threads:
    """How many there are, those with the most allocated bytes, and sums of those that ended."""

    count: int = 0
    rows: list[Thread] = field(default_factory=list)
    ended_allocated_bytes: int = 0
    ended_freed_bytes: int = 0


def tasks_of(pid: int) -> dict[int, tuple[int, str]]:
    """The id and the name of each task, by the id that it has in its own namespace."""
    found: dict[int, tuple[int, str]] = {}
    try:
        names = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
    except (OSError, ValueError):
        raise control.gone(pid) from None
    for name in names[:TASKS_MAX]:
        try:
            text = files.read_proc(pid, f"task/{name}/status")
        except OSError:
            continue  # it has ended
        inner, title = NAMESPACE.search(text), NAME.search(text)
        shown = printable(title[1].decode(errors="replace")) if title else ""
        found[int(inner[1]) if inner else int(name)] = int(name), shown
    return found


def words_at(memory: Memory, address: int, count: int) -> tuple[int, ...]:
    """Words of 32 bits; zeroes where there is no memory."""
    try:
        return struct.unpack(f"<{count // 4}I", memory.read(address, count))
    except Unreadable:
        return (0,) * (count // 4)


def offset_of(memory: Memory, pointers: list[int], tasks: dict[int, Any]) -> int | None:
    """Where a thread's id is, from its pointer on."""
    lists = []
    for pointer in pointers[:SEARCHED_MAX]:
        memory.check()
        lists.append(words_at(memory, pointer - BELOW, BELOW) + words_at(memory, pointer, ABOVE))
    counts = [len(tasks.keys() & set(words)) for words in zip(*lists)]
    most = max(counts, default=0)
    found = [at * 4 - BELOW for at, count in enumerate(counts) if count == most]
    if most == 0 or (len(found) > 1 and USUAL not in found):
        return None
    return found[0] if len(found) == 1 else USUAL


def ids_of(memory: Memory, pointers: list[int], tasks: dict[int, Any]) -> Iterator[int | None]:
    """The id of each thread in its namespace."""
    if len(tasks) == len(pointers) == 1:
        yield from tasks
        return
    offset = offset_of(memory, pointers, tasks)
    for pointer in pointers:
        yield None if offset is None else words_at(memory, pointer + offset, 4)[0]


def are_counted(memory: Memory, layout: Layout) -> bool:
    """Does the process count what its threads free? Only then others look at each thread."""
    name = "set.thread-bytes"
    return name in layout.places and memory.number(layout.place(name), 4) != 0


def read(memory: Memory, layout: Layout) -> Threads:
    """Those of this moment."""
    with contradictions(memory.pid):
        return read_records(memory, layout)


def read_records(memory: Memory, layout: Layout) -> Threads:
    """The records that threads have now, joined with the tasks."""
    record = layout.record(*(f"windows.{name}" for name in
                             ("owner", "thread", "allocated", "freed", "exact_calls")))  # fmt: skip
    taken = [record.of(data) for _, data in Fronts(memory, layout).records()]
    taken = [one for one in taken if one[0] != 0]
    tasks, all_calls = tasks_of(memory.pid), layout.offset("windows.all_calls")
    found = Threads(len(taken))
    pointers = [pointer for _, pointer, *_ in taken]
    for one, inner in zip(taken, ids_of(memory, pointers, tasks), strict=True):
        _, _, allocated, freed, calls = one
        task, name = tasks.get(inner, (None, "")) if inner is not None else (None, "")
        found.rows.append(Thread(task, name, allocated, freed if calls == all_calls else None))
    found.rows.sort(key=lambda row: (-row.allocated_bytes, row.id or 0))
    ended = layout.record("ended.allocated", "ended.freed")
    found.ended_allocated_bytes, found.ended_freed_bytes = memory.values(
        ended, layout.place("ended")
    )
    return found


def as_dict(threads: Threads) -> dict[str, Any]:
    """The members of a report."""
    rows = [{"id": row.id, "name": row.name, "allocated_bytes": row.allocated_bytes,
             "freed_bytes": row.freed_bytes} for row in threads.rows[:ROWS_MAX]]  # fmt: skip
    ended = {"allocated_bytes": threads.ended_allocated_bytes,
             "freed_bytes": threads.ended_freed_bytes}  # fmt: skip
    return {"thread_count": threads.count, "ended_threads": ended, "threads": rows}


def lines(threads: Threads) -> str:
    """The table."""
    text = f"\nthreads: {threads.count}\n"
    text += "".join(f"{title:>{width}}" for title, width in COLUMNS) + "  name\n"
    ended = Thread(None, "(ended)", threads.ended_allocated_bytes, threads.ended_freed_bytes)
    for row in [*threads.rows[:ROWS_MAX], ended]:
        cells = ("-" if row.id is None else row.id, row.allocated_bytes,
                 "-" if row.freed_bytes is None else row.freed_bytes)  # fmt: skip
        text += "".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, COLUMNS))
        text += f"  {row.name}".rstrip() + "\n"
    return text
