# SPDX-License-Identifier: MIT
"""The tables of a session: for people (rich), for documents (Markdown), for programs (JSON)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from poolshim_cli.allocators import Missing
from poolshim_cli.machine import one_line
from poolshim_cli.intervals import is_difference

from .session import Session
from .summary import BASELINE, FLOOR, Summary, summarise

SCHEMA = 1
NOTHING = "–"
INTERVAL_HEADER = "\n95 %"
INTERVAL_WIDTH = 92
# Above this, what others did meanwhile shows in the figures.
BUSY_CORES = 0.1
Rows = dict[tuple[str, str], Summary]


@dataclass
class Section:
    """One table before it is drawn. A failure row has its reason in place of the figures."""

    title: str
    headers: list[str]
    rows: list[list[str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def plain_headers(self) -> list[str]:
        """On one line each, as in a document."""
        return [" ".join(header.replace("/\n", "/").split()) for header in self.headers]


def ratio(value: float | None) -> str:
    """A time ratio: 13.4, 0.47, 0.004; a dash where there is nothing to divide by."""
    if value is None:
        return NOTHING
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def interval(value: tuple[float, float] | None) -> str:
    """The bootstrap interval of a ratio; ≈ where it contains 1: no difference."""
    if value is None:
        return NOTHING
    return f"{value[0]:.2f}–{value[1]:.2f}" + ("" if is_difference(value) else " ≈")


def milliseconds(value: float) -> str:
    """Three digits that count: 1234, 183, 4.2, 0.27."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def list_row(row: Summary) -> list[str]:
    """The cells of one allocator in a list table."""
    return [
        row.allocator, milliseconds(row.alloc_ms), f"{row.alloc_mops:.0f}",
        milliseconds(row.free_ms), f"{row.free_mops:.0f}",
        milliseconds(row.first_alloc_ms), f"{row.total_s:.2f}",
        f"{row.peak_rss_mib:.0f}", ratio(row.to_floor), ratio(row.to_baseline),
        interval(row.to_baseline_interval), str(row.processes),
    ]  # fmt: skip


def list_section(session: Session, rows: Rows, mode: str, count: int) -> Section:
    """The table of one mode of the 100M-pointer benchmark."""
    section = Section(
        f"Linked list of {count:,} blocks of 8 bytes, {mode}",
        ["allocator", "alloc\nms", "\nM/s", "free\nms", "\nM/s", "first\nalloc\nms", "total\ns",
         "peak\nRSS\nMiB", f"time/\n{FLOOR}", f"time/\n{BASELINE}", INTERVAL_HEADER, "\nruns"],
    )  # fmt: skip
    for allocator in session.allocators:
        key = (mode, allocator.name)
        if key in session.failures:
            section.failures.append((allocator.name, session.failures[key]))
        elif key in rows:
            section.rows.append(list_row(rows[key]))
    return section


def page_rows(plain: Summary, aligned: Summary) -> list[list[str]]:
    """The two rows of one allocator in the page table; the second is set against the first."""
    steady = [row.later_alloc_ms + row.free_ms for row in (plain, aligned)]
    return [
        [
            row.allocator, row.case.rpartition("/")[2], milliseconds(row.first_alloc_ms),
            milliseconds(row.later_alloc_ms), milliseconds(row.free_ms), f"{row.peak_rss_mib:.0f}",
            ratio(against), ratio(row.to_floor), ratio(row.to_baseline), str(row.processes),
        ]
        for row, against in ((plain, None), (aligned, steady[1] / steady[0]))
    ]  # fmt: skip


def page_section(session: Session, rows: Rows, count: int) -> Section:
    """The table of the page-alignment benchmark: both alignments, one below the other."""
    section = Section(
        f"{count:,} blocks of 4096 bytes by posix_memalign, aligned to 16 and to 4096",
        ["allocator", "aligned\nto", "first\nalloc\nms", "alloc\nms", "free\nms", "peak\nRSS\nMiB",
         "4096\nto\n16", f"time/\n{FLOOR}", f"time/\n{BASELINE}", "\nruns"],
    )  # fmt: skip
    for allocator in session.allocators:
        keys = [(f"page_blocks/{alignment}", allocator.name) for alignment in (16, 4096)]
        failure = next((session.failures[key] for key in keys if key in session.failures), None)
        if failure is not None:
            section.failures.append((allocator.name, failure))
        elif all(key in rows for key in keys):
            section.rows += page_rows(rows[keys[0]], rows[keys[1]])
    return section


def sections(session: Session, rows: Rows) -> list[Section]:
    """One section per kind of case, in running order."""
    made: list[Section] = []
    for case in session.cases:
        count = dict(case.expected)["count"]
        if case.program == "list100m":
            made.append(list_section(session, rows, case.name, count))
        elif not any("posix_memalign" in section.title for section in made):
            made.append(page_section(session, rows, count))
    return made


def notes(session: Session, missing: list[Missing], machine: dict[str, object]) -> list[str]:
    """The lines below the tables: how to read them, missing allocators, the machine."""
    lines = [
        f"Times: best round of all runs (processes). time/{FLOOR}, time/{BASELINE}: alloc + free "
        "against the floor's and glibc's; less is faster. 95 %: bootstrap interval of time/glibc "
        "taken by medians, rounds after the first only; ≈: no difference. The floor's contended "
        "total and peak RSS are no limits. More in bench/README.md."
    ]
    return lines + surroundings(session, missing, machine)


def surroundings(
    session: Session, missing: list[Missing], machine: dict[str, object]
) -> list[str]:
    """Measured and missing allocators, their versions, the machine, and other work on it."""
    lines = [f"{a.name}: {a.note}." for a in session.allocators if a.note]
    lines += [f"Not measured: {gone.name}, {gone.reason}." for gone in missing]
    if machine["tuning"]:
        lines.append(f"Settings in force for all: {machine['tuning']}.")
    if session.foreign_cores > BUSY_CORES:
        lines.append(
            f"NOT A QUIET MACHINE: other processes used {session.foreign_cores:.1f} of "
            f"{machine['cores']} cores meanwhile; the contended figures suffer most."
        )
    if session.is_interrupted:
        lines.append("Interrupted: not all processes were run.")
    versions = [(a.name, a.version or a.library) for a in session.allocators]
    shown = "; ".join(f"{name} ({version})" for name, version in versions if version)
    lines.append(f"Versions: {shown}.")
    lines.append(f"Machine: {one_line(machine)}. Measured in {session.spent_s:.0f} s.")
    return lines


def print_tables(console: Console, made: list[Section], below: list[str]) -> None:
    """Draws everything on the terminal; a narrow one does without the intervals."""
    for section in made:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        shown = [
            index
            for index, header in enumerate(section.headers)
            if header != INTERVAL_HEADER or console.width >= INTERVAL_WIDTH
        ]
        for index in shown:
            table.add_column(
                section.headers[index], justify="right" if index else "left", no_wrap=True
            )
        for row in section.rows:
            style = "bold green" if row[0] == "poolshim" else None
            table.add_row(*(row[index] for index in shown), style=style)
        console.print(Text(section.title, style="bold"), table, sep="")
        for name, reason in section.failures:
            console.print(Text(f"{name}: FAILED: {reason}", style="bold red"))
    for line in below:
        console.print(Text(line))


def markdown(made: list[Section], below: list[str]) -> str:
    """The same as GitHub Markdown."""
    lines: list[str] = []
    for section in made:
        headers = section.plain_headers()
        lines += [f"### {section.title}", "", "| " + " | ".join(headers) + " |"]
        lines.append("|---|" + "---:|" * (len(section.headers) - 1))
        lines += ["| " + " | ".join(row) + " |" for row in section.rows]
        for name, reason in section.failures:
            cells = [name, f"FAILED: {reason}".replace("|", "\\|")]
            lines.append("| " + " | ".join(cells + [""] * (len(section.headers) - 2)) + " |")
        lines.append("")
    return "\n".join(lines + [f"{line}  " for line in below]) + "\n"


def as_json(session: Session, missing: list[Missing], machine: dict[str, object]) -> dict[str, Any]:
    """Everything, raw processes included."""
    content = raw_json(session, missing, machine)
    return {**content, "summaries": [asdict(row) for row in summarise(session).values()]}


def raw_json(
    session: Session, missing: list[Missing], machine: dict[str, object]
) -> dict[str, Any]:
    """The processes and what surrounds them; `schema` grows when a field changes its meaning."""
    return {
        "schema": SCHEMA,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": machine,
        "is_interrupted": session.is_interrupted,
        "spent_s": round(session.spent_s, 3),
        "foreign_cores": round(session.foreign_cores, 3),
        "allocators": [
            {"name": a.name, "library": None if a.library is None else str(a.library),
             "version": a.version, "env": a.env}
            for a in session.allocators
        ],
        "missing": [asdict(gone) for gone in missing],
        "failures": [
            {"case": case, "allocator": name, "reason": reason}
            for (case, name), reason in session.failures.items()
        ],
        "runs": [asdict(run) for runs in session.runs.values() for run in runs],
    }  # fmt: skip
