# SPDX-License-Identifier: MIT
"""`poolshim why --core FILE`: the memory of a process that has left a core file.

    report = Report(core); print(report.text(10, 80))

On poolshim the call sites are known if the process was sampled (POOLSHIM_FLIGHT or
POOLSHIM_PROFILE); of all live blocks, and of glibc's, the sizes and what they begin with are.
"""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Iterator
from typing import Any

from ..callsites import CallSites
from ..errors import Failed
from ..explain.verdict import mib, percent
from ..folds import Folds
from ..live.census import Reader
from ..live.core import Core
from ..live.samples import Samples, Snapshot
from ..profile import live
from ..profile.sites import Row, rows_of
from ..sizes import MIB
from ..symbols import names_of
from . import arenas, holders
from .glibc import Walk, large_chunks
from .holders import Size, Sizes, Tables

PARTS = {
    "live": "live malloc blocks",
    "free": "free memory of malloc",
    "stacks": "thread stacks",
    "mappings": "other memory without a file",
    "files": "data of files",
}
LEAST_SHARE = 0.02  # of the memory, for a row
UNITS = (("GiB", 1 << 30), ("MiB", MIB), ("KiB", 1 << 10))


def length(nbytes: int) -> str:
    """A number of bytes for people."""
    for name, unit in UNITS:
        if nbytes >= 10 * unit or (nbytes >= unit and nbytes % unit == 0):
            return f"{nbytes / unit:.0f} {name}"
    return f"{nbytes} bytes"


class Report:
    """What a core says."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.allocator, self.sizes, self.heap_bytes = "", Sizes(), 0
        self.sites: list[Row] = []
        self.notes: list[str] = []
        self.ranges: list[tuple[int, int]] = []
        with core.reading():
            if not self.read_poolshim() and not self.read_glibc():
                self.notes.append("no malloc of poolshim or glibc was found: the blocks are not "
                                  "known")  # fmt: skip
            self.parts = self.divide()

    # ---- the heap ----

    def read_poolshim(self) -> bool:
        """Its blocks, and its samples."""
        try:
            reader = Reader(self.core)
        except Failed as error:
            if "did not run on poolshim" not in str(error):
                self.notes.append(str(error))
            return False
        census = reader.census()
        if not census.leaves:
            return False
        self.allocator = "poolshim"
        self.sizes = holders.of_poolshim(self.core, reader)
        self.ranges = [(leaf.first, leaf.first + len(leaf.data) // reader.slot_bytes
                        * reader.granule) for leaf in census.leaves]  # fmt: skip
        snapshot = Samples(self.core, reader.layout).read()
        self.sites = self.sites_of(snapshot, reader)
        if not self.sites:
            self.notes.append("the call sites are not known: the process was not sampled "
                              "(POOLSHIM_FLIGHT samples it)")  # fmt: skip
        return True

    def sites_of(self, snapshot: Snapshot, reader: Reader) -> list[Row]:
        """The call sites of the samples, heaviest first."""
        if not snapshot.live:
            return []
        target = live.Tables(self.core, reader.layout)
        code = live.code_in(self.core, self.core.mappings)
        profile = live.profile_of(target, Snapshot(), snapshot, code)
        names = names_of(profile)
        return rows_of(profile, names, "inuse", Folds())

    def read_glibc(self) -> bool:
        """The chunks of its arenas, and those that are mappings."""
        mappings = self.core.mappings
        program = next((one.path for one in self.core.backed), "")
        main = arenas.find(self.core, mappings, program)
        if main is None:
            return False
        try:
            walk = Walk(self.core, main.address, self.sizes.add)
        except Failed as error:
            self.notes.append(f"glibc's heap: {error}")
            return False
        self.allocator = "glibc"
        self.ranges = list(walk.heap.ranges)
        for one in mappings:
            if one.is_anonymous and not any(a < one.end and one.start < b for a, b in self.ranges):
                for start, end in large_chunks(self.core, one):
                    self.sizes.add(start + 16, end - start - 16)
                    self.ranges.append((start, end))
        return True

    # ---- parts ----

    def divide(self) -> dict[str, int]:
        """Bytes in the core by their use; pages of zeroes are left out."""
        found = dict.fromkeys(PARTS, 0)
        found["live"] = sum(row.total for row in self.sizes.rows.values())
        heap = 0
        for one in self.core.segments:
            used = sum(self.core.used_bytes(one))
            inside = sum(max(0, min(b, one.end) - max(a, one.start)) for a, b in self.ranges)
            if inside:
                heap += used
            elif any(one.start <= at < one.end for at in self.core.stack_pointers):
                found["stacks"] += used
            elif any(one.start == file.start for file in self.core.backed):
                found["files"] += used
            else:
                found["mappings"] += used
        found["live"] = min(found["live"], heap) if heap else found["live"]
        found["free"] = max(0, heap - found["live"])
        return found

    @property
    def total(self) -> int:
        """All parts."""
        return sum(self.parts.values())

    # ---- output ----

    def kinds(self, top: int) -> Iterator[tuple[Size, str, int, int]]:
        """The sizes with most bytes."""
        tables = Tables(self.core)
        for row in self.sizes.largest()[:top]:
            if row.total >= LEAST_SHARE * max(1, self.parts["live"]):
                yield row, *holders.described(self.core, row, tables)

    def verdict(self) -> tuple[str, str]:
        """One sentence, and what to do next."""
        name, nbytes = max(self.parts.items(), key=lambda one: one[1])
        share = percent(nbytes, self.total)
        if name == "live":
            step = ("poolshim run --flight DIRECTORY -- PROGRAM records the call sites next time, "
                    "also of a process that is killed")  # fmt: skip
            if self.sites:
                site = self.sites[0]
                return (f"live blocks, {share} of the memory; most from {site.name}, "
                        f"{mib(site.nbytes)}", f"look at {site.name} and what frees its blocks")
            return f"live blocks, {share} of the memory", step
        if name == "free":
            what = "preload poolshim" if self.allocator == "glibc" else "lower purge-delay-ms"
            return f"free memory retained by malloc, {share}", f"{what}: free pages return"
        if name == "stacks":
            return f"thread stacks, {share}", "fewer threads, or a smaller stack (ulimit -s)"
        if name == "files":
            return f"data of files, {share}", "copies of a library's or a file's data are private"
        return (f"memory that the program or its runtime has mapped itself, {share}",
                "look at the runtime's own account of its heap")  # fmt: skip

    def text(self, top: int, width: int) -> str:
        """For a terminal."""
        core = self.core
        ended = f", ended by {signal.Signals(core.signal).name}" if core.signal in set(
            signal.Signals) else ""  # fmt: skip
        where = f", on {self.allocator}" if self.allocator else ""
        head = f"{core.program or 'a process'} (process {core.pid}): core file with " \
               f"{mib(self.total)}{ended}{where}"  # fmt: skip
        lines = [*textwrap.wrap(head, width, subsequent_indent="  "), "",
                 f"{'MiB':>8}{'%':>7}  part"]  # fmt: skip
        for name, nbytes in self.parts.items():
            if nbytes >= LEAST_SHARE / 4 * self.total:
                lines.append(f"{nbytes / MIB:8.1f}{100 * nbytes / max(1, self.total):7.1f}  "
                             f"{PARTS[name]}")  # fmt: skip
        if self.sites:
            lines += ["", f"{'MiB':>8}{'blocks':>11}  call site of live blocks, by samples"]
            for site in self.sites[:top]:
                lines += textwrap.wrap(" < ".join((site.name, *site.callers)), width,
                                       initial_indent=f"{site.nbytes / MIB:8.1f}"
                                       f"{site.blocks:11,}  ", subsequent_indent=" " * 21)
        rows = list(self.kinds(top))
        if rows:
            lines += ["", f"{'MiB':>8}{'blocks':>11}  live blocks by size"]
        for row, kind, count, of in rows:
            what = f"of {length(row.nbytes)}"
            if kind:
                what += f"; {count} of {of} looked at {kind}"
            lines += textwrap.wrap(what, width, subsequent_indent=" " * 21,
                                   initial_indent=f"{row.total / MIB:8.1f}{row.count:11,}  ")
        lines.append("")
        for note in self.notes:
            lines += textwrap.wrap(f"note: {note}", width, subsequent_indent="  ")
        what, step = self.verdict()
        for title, sentence in (("verdict", what), ("next", step)):
            lines += textwrap.wrap(f"{title}: {sentence}", width, subsequent_indent="  ")
        return "\n".join(lines)

    def to_json(self, top: int) -> dict[str, Any]:
        """All of it; bytes."""
        what, step = self.verdict()
        return {
            "pid": self.core.pid, "program": self.core.program, "signal": self.core.signal,
            "allocator": self.allocator, "parts": self.parts,
            "sites": [site.to_json() for site in self.sites],
            "sizes": [{"bytes": row.nbytes, "blocks": row.count, "total_bytes": row.total,
                       "kind": kind, "looked_at": of, "of_kind": count}
                      for row, kind, count, of in self.kinds(top)],
            "verdict": what, "step": step, "notes": self.notes,
        }  # fmt: skip
