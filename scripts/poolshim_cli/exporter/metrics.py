# SPDX-License-Identifier: MIT
"""The metrics of `poolshim exporter`: one reading of all processes for each request.

    for family in Collector(Watch([])).families(): print(family.name, family.samples)

Most are figures of figures.def. Names never change: a board or an alarm refers to them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from ..live import containers
from ..live.figures import FIGURES, Figure
from ..live.groups import Groups
from ..live.processes import Row, Watch
from . import sums
from .exposition import Family, Labels, labels_of

PARTS = ("live", "rounding", "free", "cache", "metadata", "outside")
CLASSES = (
    ("poolshim_class_live_bytes", "Live blocks of a size class", "live_bytes"),
    ("poolshim_class_waste_bytes", "Bytes in its slabs that hold no live block", "waste_bytes"),
)
THREADS = (
    ("poolshim_thread_allocated_bytes", "Bytes allocated so far by live threads of a name"),
    ("poolshim_thread_freed_bytes", "Bytes freed so far by live threads of a name"),
)
THREAD_NAMES_MAX, OTHER_THREADS = 16, "other"  # of a process, those that allocate most
DIGITS = re.compile(r"\d+")
PROCESSES_MAX = 500  # with metrics of their own, those with most resident memory


@dataclass(frozen=True)
class Shown:
    """A process and its labels."""

    row: Row
    labels: Labels


def identifiers(row: Row, identity: containers.Identity) -> dict[str, str]:
    """The labels of each metric of a process."""
    return {"pid": str(row.pid), "program": row.program, "container": identity.container,
            "pod": identity.pod}  # fmt: skip


class Collector:
    """Called for each request, in a thread of its own."""

    def __init__(self, watch: Watch, has_processes: bool = True) -> None:
        self.watch = watch
        self.has_processes = has_processes
        self.groups = Groups()
        self.lock = threading.Lock()  # of the next field
        self.reading: Future[list[Row]] | None = None  # in progress

    def rows(self) -> list[Row]:
        """One reading at a time, which all requests meanwhile share; it runs without the lock."""
        mine: Future[list[Row]] | None = None
        with self.lock:
            if self.reading is None:
                self.reading = mine = Future()
            reading = self.reading
        if mine is not None:
            try:
                mine.set_result(self.watch.read())
            except BaseException as error:
                mine.set_exception(error)
            with self.lock:
                self.reading = None
        return reading.result()

    def labels(self) -> list[dict[str, str]]:
        """The labels of each process, those that have metrics of their own or not."""
        return [identifiers(row, containers.identity_in(containers.paths_of(row.pid)))
                for row in self.rows()]  # fmt: skip

    def families(self) -> Iterator[Family]:
        """All metrics."""
        rows = self.rows()
        processes = Family("poolshim_processes", "Processes on poolshim that can be read")
        processes.add((), len(rows))
        yield processes
        paths = {row.pid: containers.paths_of(row.pid) for row in rows}
        if self.has_processes:
            largest = sorted(rows, key=lambda row: -row.split.rss)[:PROCESSES_MAX]
            yield from of_processes([
                Shown(row, labels_of(identifiers(row, containers.identity_in(paths[row.pid]))))
                for row in sorted(largest, key=lambda row: row.pid)
            ])  # fmt: skip
        yield from sums.of_groups(rows, paths, self.groups, PARTS)


def of_processes(shown: list[Shown]) -> Iterator[Family]:
    """The metrics of each process."""
    memory = Family("poolshim_memory_bytes", "Resident memory, by what it is")
    for one in shown:
        for part in PARTS:
            memory.add(one.labels, getattr(one.row.split, part), part=part)
    yield memory
    if any(one.row.pss is not None for one in shown):
        text = "Proportional resident memory: a shared page divided by its users"
        yield filled("poolshim_pss_bytes", text, shown, lambda row: row.pss)
    text = "Blocks that the program has, of all kinds"
    yield filled("poolshim_live_blocks", text, shown, lambda row: row.census.live_count)
    for figure in FIGURES:
        if figure.metric:
            yield family_of(figure, shown)
    yield from classes(shown)
    yield from of_threads(shown)


def filled(
    name: str, text: str, shown: list[Shown], value: Callable[[Row], int | None]
) -> Family:
    """A metric with a value of each process that has one."""
    family = Family(name, text)
    for one in shown:
        found = value(one.row)
        if found is not None:
            family.add(one.labels, found)
    return family


def family_of(figure: Figure, shown: list[Shown]) -> Family:
    """A figure of the report, of the processes that have it."""
    text = figure.help[0].upper() + figure.help[1:].replace("`", "")
    known = [one for one in shown if figure.is_known(one.row.census)]
    if figure.is_counter:
        return filled(figure.metric, text, known, lambda row: row.counts[figure.name])
    return filled(figure.metric, text, known, lambda row: getattr(row.census, figure.name))


def sums_by_name(row: Row) -> dict[str, list[int]]:
    """Allocated and freed bytes by the names of threads, whose digits are #; the least are one."""
    found: dict[str, list[int]] = {}
    for one in row.threads.rows if row.threads is not None else ():
        sum_of_name = found.setdefault(DIGITS.sub("#", one.name), [0, 0])
        sum_of_name[0] += one.allocated_bytes
        sum_of_name[1] += one.freed_bytes or 0
    for name in sorted(found, key=lambda name: -found[name][0])[THREAD_NAMES_MAX:]:
        allocated, freed = found.pop(name)
        others = found.setdefault(OTHER_THREADS, [0, 0])
        others[0] += allocated
        others[1] += freed
    return found


def of_threads(shown: list[Shown]) -> Iterator[Family]:
    """The bytes of threads, of the processes that count frees by thread."""
    sums_of = [(one.labels, sums_by_name(one.row)) for one in shown]
    for at, (name, text) in enumerate(THREADS):
        family = Family(name, text)
        for labels, found in sums_of:
            for thread, values in found.items():
                family.add(labels, values[at], thread=thread)
        if family.samples:
            yield family


def classes(shown: list[Shown]) -> Iterator[Family]:
    """The figures of each size class in use."""
    for name, text, field in CLASSES:
        family = Family(name, text)
        for one in shown:
            for each in one.row.census.classes:
                if each.slabs:
                    family.add(one.labels, getattr(each, field), block_bytes=str(each.block_bytes))
        yield family
