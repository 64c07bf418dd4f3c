# SPDX-License-Identifier: MIT
"""The report of one screen: the process and its group, the parts, the verdict; or JSON.

    print(report.text(watch, verdict, "...", 80))
"""

from __future__ import annotations

import textwrap
from typing import Any

from ..explain.verdict import mib, percent
from ..live.containers import short
from ..live.usage import Group
from ..sizes import MIB
from .growth import MINUTE_S, Rate, rate_of
from .parts import PARTS
from .verdict import Verdict, part_of, title_of
from .watching import LISTED, Watch

LEAST_BYTES = MIB // 20  # of a part that is listed
COLUMNS_LEAST, COLUMNS_MOST = 40, 80
PRESSURE_LEAST = 1.0  # percent


def wrapped(title: str, text: str, width: int) -> list[str]:
    """A sentence as lines."""
    return textwrap.wrap(text, width, initial_indent=f"{title}: ", subsequent_indent="  ",
                         break_on_hyphens=False)  # fmt: skip


def head_of(watch: Watch) -> str:
    """The process."""
    look = watch.last
    text = f"{watch.name} (process {watch.pid}): {mib(look.rss)} resident"
    if look.swap >= MIB:
        text += f", {mib(look.swap)} in swap"
    return f"{text}, {look.thread_count or 1} threads, watched for {watch.span_s:.1f} s".replace(
        " 1 threads", " 1 thread")  # fmt: skip


def group_text(group: Group) -> str:
    """The group in a sentence."""
    level = group.tightest
    text = f"{short(group.path)}: {mib(group.current)}"
    if level is None:
        text += ", no limit"
    else:
        used = level.current
        text += f", {percent(used, level.limit)} of the limit of {mib(level.limit)}"
        if level.path != group.path:
            text += f" of {short(level.path)} above it ({mib(used)} there)"
    parts = (("anonymous", group.anon), ("page cache", group.cache), ("kernel", group.kernel),
             ("tmpfs and shared", group.shmem), ("in swap", group.swap))  # fmt: skip
    text += "; " + ", ".join(f"{mib(nbytes)} {name}" for name, nbytes in parts
                             if nbytes >= LEAST_BYTES)  # fmt: skip
    if group.peak > group.current:
        text += f"; peak {mib(group.peak)}"
    if group.kills:
        text += f"; {group.kills} killed by the limit"
    elif group.hits:
        text += f"; at the limit {group.hits} times"
    some = group.pressure.get("some", 0.0)
    return text + (f"; tasks stalled for memory in {some:.0f} % of 10 s"
                   if some >= PRESSURE_LEAST else "")  # fmt: skip


def per_minute(rate: Rate | None) -> str:
    """The change of a part, with half of its interval; "" where it is none."""
    if rate is None or not (rate.low > 0 or rate.high < 0):
        return ""
    per, spread = (MINUTE_S * one / MIB for one in (rate.per_s, (rate.high - rate.low) / 2))
    return f"{per:+.1f}±{spread:.1f}" if rate.is_shown else ""


def part_lines(watch: Watch, width: int) -> list[str]:
    """The parts in the order of PARTS, with their growth where some grow."""
    look = watch.last
    rows = [(look.parts[name], per_minute(rate_of(watch.series(part_of(name)))),
             title_of(name, look)) for name in PARTS
            if look.parts[name] >= LEAST_BYTES]  # fmt: skip
    total = rate_of(watch.series(lambda one: float(one.rss)))
    rows.append((look.rss, per_minute(total), "resident memory"))
    is_changing = any(change for _, change, _ in rows)
    room = max([len("MiB/min"), *(len(row[1]) for row in rows)]) + 1 if is_changing else 0
    indent = 8 + 7 + room + 2
    lines = [f"{'MiB':>8}{'%':>7}{'MiB/min' if is_changing else '':>{room}}  part"]
    for nbytes, change, title in rows:
        share = 100 * nbytes / look.rss if look.rss else 0.0
        lines += textwrap.wrap(
            title, width, subsequent_indent=" " * indent,
            initial_indent=f"{nbytes / MIB:8.1f}{share:7.1f}{change:>{room}}  ",
        )  # fmt: skip
    return lines


def member_lines(watch: Watch, width: int) -> list[str]:
    """The other processes, or the children."""
    others = [one for one in watch.members if one.pid != watch.pid]
    lines = []
    for one in sorted(others, key=lambda other: -other.pss)[:LISTED]:
        text = f"{one.name} (process {one.pid}) with {mib(one.rss)}, its share {mib(one.pss)}"
        if one.copied >= MIB:
            text += f", {mib(one.copied)} copied after the fork"
        lines += wrapped("besides", text, width)
    if len(others) > LISTED:
        rest = sum(one.pss for one in others) - sum(
            sorted((one.pss for one in others), reverse=True)[:LISTED])
        lines += wrapped("besides", f"{len(others) - LISTED} more with {mib(rest)}", width)
    return lines


def closing(watch: Watch, verdict: Verdict, outlook: str, width: int) -> list[str]:
    """Verdict, outlook, next step."""
    title = "no verdict" if verdict.cause == "unknown" else "verdict"
    return [*wrapped(title, verdict.text, width), *wrapped("outlook", outlook, width),
            *wrapped("next", verdict.step, width)]  # fmt: skip


def text(watch: Watch, verdict: Verdict, outlook: str, width: int) -> str:
    """All of it."""
    width = max(COLUMNS_LEAST, min(COLUMNS_MOST, width))
    lines = []
    if watch.target.is_container:
        total = sum(one.pss for one in watch.members)
        count = len(watch.members)
        lines += wrapped("container", f"{count} process{'es' * (count != 1)} with {mib(total)}"
                         f"{'; the largest in detail' * (count != 1)}", width)  # fmt: skip
    lines += textwrap.wrap(head_of(watch), width, subsequent_indent="  ")
    if watch.group is not None:
        lines += wrapped("cgroup", group_text(watch.group), width)
    lines += ["", *part_lines(watch, width), ""]
    lines += member_lines(watch, width)
    for note in notes_of(watch):
        lines += wrapped("note", note, width)
    return "\n".join([*lines, *closing(watch, verdict, outlook, width)])


def notes_of(watch: Watch) -> list[str]:
    """The gaps in the figures."""
    notes = [*watch.notes, *watch.last.notes]
    if watch.has_ended:
        notes.append("the process ended meanwhile")
    return list(dict.fromkeys(notes))


def rate_json(rate: Rate | None) -> dict[str, float] | None:
    """Bytes per minute."""
    if rate is None:
        return None
    return {name: round(MINUTE_S * value) for name, value in
            (("per_minute", rate.per_s), ("low", rate.low), ("high", rate.high))}  # fmt: skip


def group_json(group: Group | None) -> dict[str, Any] | None:
    """The group."""
    if group is None:
        return None
    names = ("path", "version", "current", "peak", "swap", "anon", "cache", "shmem",
             "inactive_file", "kernel", "unreclaimable", "kills", "hits", "pressure")  # fmt: skip
    found = {name: getattr(group, name) for name in names}
    found["limits"] = [{"path": one.path, "file": one.source, "bytes": one.limit,
                        "current": one.current} for one in group.levels]  # fmt: skip
    return found


def to_json(watch: Watch, verdict: Verdict, outlook: str) -> dict[str, Any]:
    """All of it; bytes."""
    look = watch.last
    heap = look.glibc
    return {
        "pid": watch.pid, "program": watch.name, "is_container": watch.target.is_container,
        "seconds": round(watch.span_s, 3), "looks": len(watch.looks),
        "resident_bytes": look.rss, "proportional_bytes": look.pss, "swap_bytes": look.swap,
        "allocator": look.allocator, "runtime": look.runtime or ("Python" * look.is_python),
        "parts": {name: {"bytes": look.parts[name],
                         "growth": rate_json(rate_of(watch.series(part_of(name))))}
                  for name in PARTS},
        "glibc": None if heap is None else {
            "arenas": heap.arena_count, "system_bytes": heap.system, "free_bytes": heap.free,
            "fastbin_bytes": heap.fast, "tcache_bytes": heap.tcache, "top_bytes": heap.top,
            "returnable_bytes": heap.returnable},
        "group": group_json(watch.group), "copied_bytes": watch.copied,
        "processes": [{"pid": one.pid, "program": one.name, "resident_bytes": one.rss,
                       "proportional_bytes": one.pss, "copied_bytes": one.copied}
                      for one in watch.members],
        "verdict": verdict.to_json(), "outlook": outlook, "notes": notes_of(watch),
    }  # fmt: skip
