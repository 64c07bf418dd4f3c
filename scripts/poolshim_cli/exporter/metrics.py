# SPDX-License-Identifier: MIT
"""The metrics of `poolshim exporter`: one reading of all processes for each request.

    registry = registry_of(Watch([]))

Most are figures of figures.def. Names never change: a board or an alarm refers to them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ..errors import need
from ..live.figures import COUNTER_END, FIGURES, Figure
from ..live.processes import Row, Watch

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

LABELS = ["pid", "program"]
PARTS = ("live", "rounding", "free", "cache", "metadata", "outside")
CLASSES = (
    ("poolshim_class_live_bytes", "Live blocks of a size class", "live_bytes"),
    ("poolshim_class_waste_bytes", "Bytes in its slabs that hold no live block", "waste_bytes"),
)


class Collector:
    """Called by the client library for each request, in a thread of its own."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.lock = threading.Lock()  # of the next field
        self.reading: Future[list[Row]] | None = None  # in progress
        self.core = need("prometheus_client.core", "exporter")

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

    def gauge(self, name: str, text: str, *labels: str) -> Any:
        """A metric of every process."""
        return self.core.GaugeMetricFamily(name, text, labels=[*LABELS, *labels])

    def counter(self, name: str, text: str) -> Any:
        """A figure that only grows."""
        return self.core.CounterMetricFamily(name, text, labels=LABELS)

    def collect(self) -> Iterator[Any]:
        """All metrics."""
        rows = self.rows()
        yield self.core.GaugeMetricFamily(
            "poolshim_processes", "Processes on poolshim that can be read", len(rows)
        )
        memory = self.gauge("poolshim_memory_bytes", "Resident memory, by what it is", "part")
        for row in rows:
            parts = dataclasses.asdict(row.split)
            for part in PARTS:
                memory.add_metric([str(row.pid), row.program, part], parts[part])
        yield memory
        blocks = self.gauge("poolshim_live_blocks", "Blocks that the program has, of all kinds")
        yield self.filled(blocks, rows, lambda row: row.census.live_count)
        for figure in FIGURES:
            if figure.metric:
                yield self.family_of(figure, rows)
        yield from self.classes(rows)

    def filled(self, family: Any, rows: list[Row], value: Callable[[Row], int]) -> Any:
        """The family with a value of each process."""
        for row in rows:
            family.add_metric([str(row.pid), row.program], value(row))
        return family

    def family_of(self, figure: Figure, rows: list[Row]) -> Any:
        """A figure of the report, of the processes that have it."""
        text = figure.help[0].upper() + figure.help[1:].replace("`", "")
        known = [row for row in rows if figure.is_known(row.census)]
        if figure.is_counter:
            name = figure.metric.removesuffix(COUNTER_END)
            return self.filled(self.counter(name, text), known, lambda row: row.counts[figure.name])
        family = self.gauge(figure.metric, text)
        return self.filled(family, known, lambda row: getattr(row.census, figure.name))

    def classes(self, rows: list[Row]) -> Iterator[Any]:
        """The figures of each size class in use."""
        for name, text, field in CLASSES:
            family = self.gauge(name, text, "block_bytes")
            for row in rows:
                for one in row.census.classes:
                    if one.slabs:
                        labels = [str(row.pid), row.program, str(one.block_bytes)]
                        family.add_metric(labels, getattr(one, field))
            yield family


def registry_of(watch: Watch) -> CollectorRegistry:
    """What the client library serves; nothing of the exporter's own process."""
    registry: CollectorRegistry = need("prometheus_client", "exporter").CollectorRegistry()
    collector: Any = Collector(watch)
    registry.register(collector)
    return registry
