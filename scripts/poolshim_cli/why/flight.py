# SPDX-License-Identifier: MIT
"""`poolshim why FILE.pb`: why the memory of a process was resident, by its flight record.

    report = Report(Path("poolshim-20261129T165700-1.pb")); print(report.text(10, 80))

The causes are those of a process that runs, as far as the record tells them apart: live memory
that grew, free memory retained by malloc, memory that is not malloc's, a limit that the live set
fills.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .. import pprof
from ..errors import BadRequest
from ..explain.verdict import mib, percent
from ..flight import (
    RATE_LEAST_S,
    Growth,
    History,
    Parts,
    growth_text,
    history_of,
    limit_text,
    live,
    resident,
)
from ..folds import Folds
from ..foreign.text import printable
from ..profile.sites import Row, rows_of
from ..sizes import MIB
from ..symbols import names_of
from . import steps
from .growth import duration
from .report import per_minute, wrapped
from .verdict import LEAST_BYTES, LIMIT_SHARE, SHARES, Verdict

PARTS = {
    "live": "live malloc blocks", "pools": "memory of pools",
    "retained": "free memory retained by malloc", "other": "other resident memory",
}  # fmt: skip
EXIT = "ended by exit"  # how the comment of a record begins whose process did
WITHIN = 0.5  # of the growth of live memory, by which resident memory grows, too: else it is chance
OTHER_SHARE, OTHER_LEAST_BYTES = 0.5, 32 * MIB  # of a verdict: a program has files, too
SITE_SHARE = 0.01  # of the live memory, of a call site that is listed
STALE_SHARE = 0.05  # of the resident memory, by which it has changed since the parts were counted


def time_of(at_s: float) -> str:
    """As the names of records have it."""
    return datetime.fromtimestamp(at_s, timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def is_record(word: str) -> bool:
    """Whether a word of the command line names a file: by its ending, or as a path that is one."""
    return word.endswith(".pb") or "/" in word and Path(word).is_file()


class Report:
    """What a record says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.profile = pprof.read(path)
        history = history_of(self.profile, str(path))
        if history is None:
            raise BadRequest(f"{path}: no flight record: it has no history of the memory; "
                             "`poolshim profile --read` lists the call sites of a profile"
                             )  # fmt: skip
        self.history: History = history
        self.has_exit = any(one.startswith(EXIT) for one in self.profile.comments)
        self.live, self.resident = history.growth_of(live), history.growth_of(resident)
        names = names_of(self.profile)
        self.sites: list[Row] = rows_of(self.profile, names, "inuse", Folds())
        self.notes = list(names.notes)
        self.parts = self.parts_at_end()
        self.verdict = self.judge()

    @property
    def program(self) -> str:
        """Of the first file, which is the program."""
        path = self.profile.mappings[0].path if self.profile.mappings else ""
        return printable(path.rpartition("/")[2]) or "a process"

    # ---- parts ----

    def parts_at_end(self) -> dict[str, int]:
        """Bytes at the last point: as counted last, with the live memory since then by samples."""
        last, counted = self.history.last, self.history.parts[-1:]
        if not counted:
            self.notes.append("the parts were not counted yet: live memory is by samples")
            counted = [Parts(last.at_s, last.resident, min(last.live, last.resident), 0, 0, 0, 0)]
        then = counted[0]
        before = [one for one in self.history.points if one.at_s <= then.at_s] or [last]
        change = last.resident - then.resident
        is_stale = abs(change) > STALE_SHARE * last.resident
        if is_stale:
            ago = duration(last.at_s - then.at_s)
            self.notes.append(f"the parts were counted {ago} before the last point; the change of "
                              "live memory since then is by samples")  # fmt: skip
        by_samples = last.live - before[-1].live
        more = sorted((0, by_samples, change))[1] if is_stale else 0
        left, found = last.resident, {}
        sizes = {"live": then.live + more, "pools": then.pools, "retained": then.free}
        for name, nbytes in sizes.items():
            found[name] = max(0, min(nbytes, left))
            left -= found[name]
        return {**found, "other": left}

    # ---- the verdict ----

    @property
    def heaviest(self) -> Row | None:
        """The call site with most live bytes."""
        return self.sites[0] if self.sites else None

    def site_text(self) -> str:
        """It in words; "" where none is known."""
        row = self.heaviest
        if row is None:
            return ""
        share = percent(row.nbytes, sum(one.nbytes for one in self.sites))
        return (f"; most is from {' < '.join((row.name, *row.callers[:1]))}, {mib(row.nbytes)} "
                f"± {mib(row.error_bytes)} ({share} of the live memory)")  # fmt: skip

    def site_step(self) -> str:
        """What to look at."""
        row = self.heaviest
        first = "take more samples (POOLSHIM_PROFILE_INTERVAL)"
        if row is not None:
            first = f"look at {row.name} and what frees its blocks"
        file = printable(self.path.name)
        return f"{first}; `poolshim profile --read {file}` lists all call sites"

    def judge(self) -> Verdict:
        """One cause."""
        return self.grown() or self.filled() or self.largest()

    def grown(self) -> Verdict | None:
        """Memory that grew to the end."""
        total = self.resident
        if self.live.is_lasting and total.gained >= WITHIN * self.live.gained:
            text = (f"growing live memory: it grew by {growth_text(self.live)} to "
                    f"{mib(self.history.last.live)}{self.site_text()}: a leak, or a cache that was "
                    "being filled")  # fmt: skip
            return Verdict("growth", self.live.gained, text, self.site_step(), "live")
        if not total.is_lasting:
            return None
        name, gained = self.grown_part()
        what = PARTS[name] if name else "memory other than live blocks"
        text = (f"growing {what}: resident memory grew by {growth_text(total)} to "
                f"{mib(self.history.last.resident)}, live memory by {mib(self.live.gained)}"
                + (f", {PARTS[name]} by {mib(gained)}" if name else ""))  # fmt: skip
        if name == "retained":
            return Verdict("retained", gained, text, retained_step(), name)
        return Verdict("growth", total.gained, text, other_step(self.program), name or "other")

    def grown_part(self) -> tuple[str, int]:
        """The part beside live memory that grew most between the counts; "" if that is unknown."""
        begin_s = self.history.last.at_s - self.resident.span_s
        every = [one for one in self.history.parts if one.at_s >= begin_s] or self.history.parts
        if len(every) < 2:
            return "", 0
        first, last = every[0], every[-1]
        gains = {"retained": last.free - first.free, "other": last.other - first.other,
                 "pools": last.pools - first.pools}  # fmt: skip
        name, gained = max(gains.items(), key=lambda one: one[1])
        return (name, gained) if gained > 0 else ("", 0)

    def filled(self) -> Verdict | None:
        """A limit that was near without growth, and little of it free."""
        marks, free = self.history.marks, self.parts["retained"]
        if not marks or free > (1 - LIMIT_SHARE) * marks[-1].limit:
            return None
        mark = marks[-1]
        text = (f"limit too low for the live set: {mib(mark.usage)} of {mib(mark.limit)} "
                f"({percent(mark.usage, mark.limit)}) were in use, and did not grow; {mark.source} "
                f"sets the limit{self.site_text()}")  # fmt: skip
        return Verdict("limit", mark.usage, text, steps.limit(mark.usage), "limit")

    def largest(self) -> Verdict:
        """The part that explains most bytes."""
        whole, parts = self.history.last.resident, self.parts
        if parts["retained"] >= max(SHARES["retained"] * whole, LEAST_BYTES):
            text = (f"free memory retained by malloc: {mib(parts['retained'])} of {mib(whole)} "
                    "resident")  # fmt: skip
            return Verdict("retained", parts["retained"], text, retained_step(), "retained")
        if parts["other"] >= max(OTHER_SHARE * whole, OTHER_LEAST_BYTES):
            text = (f"other resident memory: {mib(parts['other'])} of {mib(whole)} are not "
                    "malloc's, such as mappings, stacks, files and the heaps of runtimes"
                    )  # fmt: skip
            return Verdict("mappings", parts["other"], text, other_step(self.program), "other")
        text = (f"nothing unusual: {mib(whole)} resident, of which "
                f"{percent(parts['live'] + parts['pools'], whole)} live memory{self.site_text()}; "
                f"{percent(parts['other'], whole)} are not malloc's, as the program and libraries")
        return Verdict("nothing", whole, text, self.site_step())

    # ---- the limit ----

    def outlook(self) -> str:
        """Whether the limit was near, and else when it would have been reached."""
        text = limit_text(self.history, self.resident)
        if text:
            return text
        if self.resident.is_lasting:
            return "it grew to the end; no limit of its memory is known"
        return (f"no lasting growth in {duration(self.history.span_s)}: it remained near "
                f"{mib(self.history.last.resident)}")  # fmt: skip

    # ---- output ----

    def head(self) -> str:
        """The process and its end."""
        last = self.history.last
        pid = f" (process {self.profile.pid})" if self.profile.pid is not None else ""
        how = "ended by exit" if self.has_exit else "did not end by exit, or still runs"
        after = duration(self.profile.duration_nanos / 1e9)
        return (f"{self.program}{pid}: {mib(last.resident)} resident at {time_of(last.at_s)}, "
                f"after {after}; {how}")  # fmt: skip

    def mark_lines(self, width: int) -> Iterator[str]:
        """The limit."""
        for mark in self.history.marks[-1:]:
            yield from wrapped("limit", f"{mib(mark.usage)} in use of the {mib(mark.limit)} of "
                               f"{mark.source} at {time_of(mark.at_s)}", width)  # fmt: skip
        if not self.history.marks and self.history.limit:
            yield from wrapped("limit", f"{mib(self.history.limit)}, which was not near", width)

    def part_lines(self) -> Iterator[str]:
        """The parts, and the growth of two figures."""
        whole = self.history.last.resident
        rates = {"live": rate_column(self.live), "": rate_column(self.resident)}
        room = max(len("MiB/min"), *map(len, rates.values()))
        yield f"{'MiB':>8}{'%':>7} {'MiB/min':>{room}}  part"
        for name, nbytes in (*self.parts.items(), ("", whole)):
            if nbytes >= MIB // 20:
                yield (f"{nbytes / MIB:8.1f}{100 * nbytes / max(1, whole):7.1f} "
                       f"{rates.get(name, ''):>{room}}  {PARTS.get(name, 'resident memory')}")

    def text(self, top: int, width: int) -> str:
        """One screen."""
        lines = textwrap.wrap(self.head(), width, subsequent_indent="  ")
        lines += [*self.mark_lines(width), "", *self.part_lines(), ""]
        if self.sites:
            lines.append(f"{'MiB':>8}{'±':>7}{'blocks':>11}  call site of live memory, by samples")
            least = SITE_SHARE * sum(one.nbytes for one in self.sites)
            for site in [one for one in self.sites if one.nbytes >= least][:top]:
                head = (f"{site.nbytes / MIB:8.1f}{site.error_bytes / MIB:7.1f}{site.blocks:11,}"
                        "  ")  # fmt: skip
                lines += textwrap.wrap(" < ".join((site.name, *site.callers)), width,
                                       initial_indent=head, subsequent_indent=" " * len(head)
                                       )  # fmt: skip
            lines.append("")
        for note in self.notes:
            lines += wrapped("note", note, width)
        return "\n".join([*lines, *self.closing(width)])

    def closing(self, width: int) -> list[str]:
        """Verdict, outlook, next step."""
        return [*wrapped("verdict", self.verdict.text, width),
                *wrapped("outlook", self.outlook(), width),
                *wrapped("next", self.verdict.step, width)]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """All of it; bytes."""
        return {
            "file": str(self.path), "pid": self.profile.pid, "program": self.program,
            "ended_by_exit": self.has_exit, "resident_bytes": self.history.last.resident,
            "parts": self.parts, "history": self.history.to_json(),
            "sites": [site.to_json() for site in self.sites],
            "verdict": self.verdict.to_json(), "outlook": self.outlook(), "notes": self.notes,
        }  # fmt: skip


def rate_column(growth: Growth) -> str:
    """The rate in the table; "" of a time that is too short for one."""
    return per_minute(growth.rate) if growth.span_s >= RATE_LEAST_S else ""


def retained_step() -> str:
    """Of free memory."""
    return ("set POOLSHIM_LIMIT=80%: free memory returns as the process comes near it; "
            "`poolshim explain --pid PID`, while it runs, names the call sites that pin the rest"
            )  # fmt: skip


def other_step(program: str) -> str:
    """Of memory that is not malloc's."""
    return (f"`poolshim why {program}`, while it runs, divides it: mappings, stacks, heaps of "
            "runtimes, files")  # fmt: skip
