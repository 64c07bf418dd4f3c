# SPDX-License-Identifier: MIT
"""The metrics of control groups: sums over their processes on poolshim, and the kernel's figures.

    for family in sums.of_groups(rows, paths, Groups(), PARTS): print(family.name, family.samples)

The group is that of the container, where the path names one: processes in groups below it add to
its sums. The metrics of a group remain when its processes come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..foreign.text import printable
from ..live import containers, usage
from ..live.groups import Groups
from ..live.processes import Row
from .exposition import Family, Labels, labels_of

GROUPS_MAX = 256  # of which the others are counted; those with most resident memory come first
PATH_MAX = 512
KERNEL = (
    ("current", "poolshim_group_current_bytes", "Memory of a control group, with its page cache"),
    ("working_set", "poolshim_group_working_set_bytes",
     "The same without page cache that can be dropped at once"),
    ("anon", "poolshim_group_anon_bytes", "What malloc, runtimes and stacks have in a group"),
    ("file", "poolshim_group_file_bytes", "Page cache of a group"),
    ("limit", "poolshim_group_limit_bytes", "Lowest limit of memory of a group and those above"),
    ("oom_kills", "poolshim_group_oom_kills_total",
     "Processes of a group that the kernel has killed for memory"),
)  # fmt: skip


@dataclass
class Group:
    """One group with processes on poolshim."""

    controller: str
    path: str
    labels: Labels
    rows: list[Row] = field(default_factory=list)

    @property
    def rss(self) -> int:
        """Resident memory of its processes on poolshim; shared pages count several times."""
        return sum(row.split.rss for row in self.rows)


def group_of(paths: Mapping[str, str]) -> Group | None:
    """The group of a process, as its memory is counted."""
    counting = containers.group_of(paths)
    if counting is None:
        return None
    controller, path = counting
    found = containers.identity_in(dict(paths))
    path = containers.identity_of(path).group or path
    labels = {"group": printable(path)[-PATH_MAX:], "container": found.container, "pod": found.pod}
    return Group(controller, path, labels_of(labels))


def groups_of(rows: list[Row], paths: Mapping[int, Mapping[str, str]]) -> list[Group]:
    """The groups of the processes, the largest first."""
    found: dict[str, Group] = {}
    for row in rows:
        group = group_of(paths[row.pid])
        if group is not None:
            found.setdefault(group.path, group).rows.append(row)
    return sorted(found.values(), key=lambda one: (-one.rss, one.path))


def of_groups(
    rows: list[Row], paths: Mapping[int, Mapping[str, str]], reader: Groups, parts: tuple[str, ...]
) -> Iterator[Family]:
    """All metrics of groups."""
    every = groups_of(rows, paths)
    groups = every[:GROUPS_MAX]
    left_out = Family("poolshim_groups_left_out", f"Groups beyond the {GROUPS_MAX} largest")
    left_out.add((), len(every) - len(groups))
    yield left_out
    count = Family("poolshim_group_processes", "Processes on poolshim of a control group")
    memory = Family("poolshim_group_memory_bytes", "Sums of poolshim_memory_bytes over a group")
    pss = Family("poolshim_group_pss_bytes", "Sums of poolshim_pss_bytes over a group")
    for group in groups:
        count.add(group.labels, len(group.rows))
        for part in parts:
            total = sum(getattr(row.split, part) for row in group.rows)
            memory.add(group.labels, total, part=part)
        known = [row.pss for row in group.rows if row.pss is not None]
        if known:
            pss.add(group.labels, sum(known))
    yield from (count, memory, *([pss] if pss.samples else []))
    figures = [(group, usage.counted(reader, group.controller, group.path)) for group in groups]
    yield from of_kernel([(group, found) for group, found in figures if found is not None])


def of_kernel(figures: list[tuple[Group, usage.Group]]) -> Iterator[Family]:
    """What the kernel counts."""
    for name, metric, text in KERNEL:
        family = Family(metric, text)
        for group, found in figures:
            value = getattr(found, name)
            if value is not None:
                family.add(group.labels, value)
        yield family
