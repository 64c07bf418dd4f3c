# SPDX-License-Identifier: MIT
"""The migration guides against what the library has.

A row that names a thing by the same words as an option, a name of mallctl or a function of ours
names that one; "nothing" is true. `HEAP_PROFILE_TIME_INTERVAL` has the words of
`POOLSHIM_PROFILE_EVERY`, `mi_option_set` that of `poolshim_set`. Of several names that a row could
mean one is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from linting.guides import FOLDER, SPAN, is_guide, option_names, placed_rows
from linting.rules import register
from linting.tree import Tree, line_of

# Words for the same; "" is no word of its own.
SAME = {
    "prof": "profile", "profiling": "profile", "profiler": "profile", "interval": "every",
    "time": "every", "gdump": "dump", "inuse": "peak", "release": "purge", "decommit": "purge",
    "guarded": "guard", "sampling": "sample", "print": "", "write": "", "opt": "", "poolshim": "",
    "ms": "", "delay": "",
}  # fmt: skip
SPLIT = {
    "HEAPPROFILE": "HEAP_PROFILE", "HEAPPROFILESIGNAL": "HEAP_PROFILE_SIGNAL",
    "MALLOCSTATS": "MALLOC_STATS",
}  # fmt: skip
# What a command does, beside the options and functions that bear its name.
COMMANDS = {
    "poolshim profile --pid": ["profile_start", "profile_stop", "profile_active", "profile_signal"],
    "poolshim profile --leaks": ["profile_leak"],
}
# The same words for something else.
OTHERWISE = {
    "opt.hpa_min_purge_interval_ms",  # of huge pages
    "opt.tcache_nslots_small_max",  # a number of blocks, not their size
    "limit_os_alloc",  # forbids more memory, at no size
    "TCMALLOC_DEVMEM_LIMIT",  # an address
    "TCMALLOC_MEMFS_LIMIT_MB",  # of hugetlbfs
}
# Functions that have the same words for something else: hooks of the program's calls, a profiler
# of processor time, heaps as objects, statistics that begin anew.
OTHER_FAMILIES = ("MallocHook_", "Profiler", "mi_heap_", "mi_stats_reset")
SAME_NAME = "the same name"  # a whole answer: scripts/dev/function_tables.py

Found = Iterator[tuple[int, str]]
Own = dict[str, list[frozenset[str]]]


def is_migration(name: str) -> bool:
    return is_guide(name) and name.startswith(f"{FOLDER}from-")


def words(name: str) -> frozenset[str]:
    """`opt.prof_active`: {profile, active}; `SetMemoryLimit`: {set, memory, limit}."""
    name = re.sub(r"=.*|<\w+>", "", name)
    name = SPLIT.get(name, name)
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return frozenset(SAME.get(part.lower(), part.lower()) for part in parts) - {""}


def mallctl_names(tree: Tree) -> set[str]:
    """Those that answer about the heap or do something; options and constants merely say no."""
    text = tree.text("shim/mallctl.def")
    rows = re.findall(r'^PS_CTL\("([^"]+)",\s+\w+,\s+(\w+),', text, re.MULTILINE)
    said = ("opt.", "config.", "version")
    names = [name for name, access in rows if access != "NONE" and not name.startswith(said)]
    return {name.replace("#", "<i>", 1).replace("#", "<j>", 1) for name in names}


def own_names(tree: Tree) -> Own:
    """Each name as a guide has to write it, with the words that mean it."""
    functions = re.findall(r"PS_CONTROL\((poolshim_\w+)\)", tree.text("shim/entry_points.def"))
    found = {f"POOLSHIM_{name}": [words(name)] for name in option_names(tree) - {"CONF"}}
    found |= {name: [words(name)] for name in functions}
    return found | {name: [words(one) for one in means] for name, means in COMMANDS.items()}


def meant(name: str, own: Own) -> list[str]:
    """Our names whose words are all among those of a name; of several those with most words."""
    said = words(name)
    found = {one: max((len(each) for each in means if each and each <= said), default=0)
             for one, means in own.items()}  # fmt: skip
    longest = max(found.values())
    return sorted(one for one, length in found.items() if length == longest > 0)


def omissions(tree: Tree, path: str) -> Iterator[tuple[int, str, str]]:
    """Names of left sides for which the right side has nothing of what they mean here."""
    own, answered = own_names(tree), mallctl_names(tree)
    for line, row in placed_rows(tree.text(path)):
        left, right = (*row, "")[:2]
        names = set() if right == SAME_NAME else set(SPAN.findall(left))
        for name in sorted(one for one in names if not one.startswith(OTHER_FAMILIES)):
            wanted = ["mallctl"] if name in answered else meant(name, own)
            if wanted and not any(one in right for one in wanted):
                yield line, name, f"{name}: {' or '.join(wanted)}, not: {right}"


@register("counterpart", is_migration)
def counterpart(tree: Tree, name: str) -> Found:
    """A row that denies what poolshim has is wrong."""
    for line, one, problem in omissions(tree, name):
        if one not in OTHERWISE:
            yield line, problem


@register("counterpart-exception")
def counterpart_exception(tree: Tree) -> Iterator[tuple[str, int, str]]:
    """An exception of the rule counterpart is one: a row needs it."""
    guides = [name for name in tree.names if is_migration(name)]
    needed = {one for guide in guides for _, one, _ in omissions(tree, guide)}
    for name in sorted(OTHERWISE - needed):
        yield "scripts/dev/linting/counterparts.py", 0, f"no row needs the exception {name}"


@register("guide-function", is_migration)
def guide_function(tree: Tree, name: str) -> Found:
    """Functions and names of mallctl in a migration guide exist."""
    text, control = tree.text(name), tree.text("shim/entry_points.def")
    for match in re.finditer(r"`(poolshim_\w+)", text):
        if f"({match[1]})" not in control:
            yield line_of(text, match.start()), f"not exported: {match[1]}"
    known = mallctl_names(tree)
    for match in re.finditer(r'mallctl\("([^"]+)"', text):
        if match[1] not in known:
            yield line_of(text, match.start()), f"no name of mallctl: {match[1]}"
