# SPDX-License-Identifier: MIT
"""The migration guides against what the library has: a row that names a thing by the same words as
an option, a name of mallctl or a function of ours names that one; "nothing" is true.

    scripts/test tests/repo/test_counterparts.py

`HEAP_PROFILE_TIME_INTERVAL` has the words of `POOLSHIM_PROFILE_EVERY`, `mi_option_set` that of
`poolshim_set`. Of several names that a row could mean one is enough.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT
from test_guides import GUIDES, SPAN, rows

FROM = sorted(GUIDES.glob("from-*.md"))
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
    "opt.metadata_thp",  # of the allocator's own memory, which POOLSHIM_THP leaves alone
    "opt.tcache_nslots_small_max",  # a number of blocks, not their size
    "limit_os_alloc",  # forbids more memory, at no size
    "TCMALLOC_DEVMEM_LIMIT",  # an address
    "TCMALLOC_MEMFS_LIMIT_MB",  # of hugetlbfs
}


def words(name: str) -> frozenset[str]:
    """`opt.prof_active`: {profile, active}; `SetMemoryLimit`: {set, memory, limit}."""
    name = re.sub(r"=.*|<\w+>", "", name)
    name = SPLIT.get(name, name)
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return frozenset(SAME.get(part.lower(), part.lower()) for part in parts) - {""}


def mallctl_names() -> set[str]:
    """Those that answer about the heap or do something; options and constants merely say no."""
    text = (ROOT / "shim" / "mallctl_values.c").read_text()
    names = re.findall(r'ROW\("([^"]+)"', text)
    return {name.replace(".#", ".<i>") for name in names
            if not name.startswith(("opt.", "config.", "version"))}  # fmt: skip


def own_names() -> dict[str, list[frozenset[str]]]:
    """Each name as a guide has to write it, with the words that mean it."""
    options = re.findall(r"^PS_OPTION\(\s*(\w+),", (ROOT / "shim" / "config.def").read_text(), re.M)
    functions = re.findall(r"PS_CONTROL\((poolshim_\w+)\)",
                           (ROOT / "shim" / "entry_points.def").read_text())  # fmt: skip
    found = {f"POOLSHIM_{name}": [words(name)] for name in options if name != "CONF"}
    found |= {name: [words(name)] for name in functions}
    return found | {name: [words(one) for one in means] for name, means in COMMANDS.items()}


def meant(name: str, own: dict[str, list[frozenset[str]]]) -> list[str]:
    """Our names whose words are all among those of a name; of several those with most words."""
    found = {one: max((len(each) for each in means if each and each <= words(name)), default=0)
             for one, means in own.items()}  # fmt: skip
    longest = max(found.values())
    return [one for one, length in found.items() if length == longest > 0]


def omissions(text: str, otherwise: set[str] = OTHERWISE) -> list[str]:
    """Names of left sides for which the right side has nothing of what they mean here."""
    own, answered = own_names(), mallctl_names()
    found = []
    for left, right, *_ in rows(text):
        for name in set(SPAN.findall(left)) - otherwise:
            wanted = ["mallctl"] if name in answered else meant(name, own)
            if wanted and not any(one in right for one in wanted):
                found.append(f"{name}: {' or '.join(wanted)}, not: {right}")
    return found


@pytest.mark.parametrize("path", FROM, ids=lambda path: path.name)
def test_what_the_library_has_is_named(path: Path) -> None:
    assert omissions(path.read_text()) == []


@pytest.mark.parametrize(
    ("left", "wanted"),
    [
        ("HEAP_PROFILE_TIME_INTERVAL", "POOLSHIM_PROFILE_EVERY"),
        ("HeapProfilerStart", "poolshim profile --pid"),
        ("SetMemoryLimit(n, kSoft)", "poolshim_set"),
        ("ReleaseMemoryToSystem(n)", "poolshim_purge"),
        ("SnapshotCurrent(ProfileType::kPeakHeap)", "POOLSHIM_PROFILE_PEAK"),
        ("opt.stats_interval", "POOLSHIM_STATS_EVERY"),
        ("stats.resident", "mallctl"),
        ("opt.prof_active", "poolshim profile --pid"),
        ("prof.dump", "mallctl"),
        ("mi_option_set", "poolshim_set"),
        ("TCMALLOC_TRACE_FILE", "POOLSHIM_TRACE"),
        ("thread.tcache.flush", "mallctl"),
    ],
)
def test_a_row_that_denies_it_is_found(left: str, wanted: str) -> None:
    denied = f"| a | poolshim |\n|---|---|\n| `{left}` | nothing |\n"
    assert [wanted in one for one in omissions(denied)] == [True]
    assert omissions(denied.replace("nothing", f"`{wanted}`")) == []


def test_what_the_library_lacks_may_be_denied() -> None:
    for name in ("opt.retain", "opt.junk", "mi_heap_contains", "GetOwnership", "opt.zero_realloc"):
        assert omissions(f"| a | b |\n|---|---|\n| `{name}` | nothing |\n") == []


def test_every_exception_is_one() -> None:
    text = "".join(path.read_text() for path in FROM)
    without = {one.partition(":")[0] for one in omissions(text, set())}
    assert without == OTHERWISE


@pytest.mark.parametrize("path", FROM, ids=lambda path: path.name)
def test_functions_and_names_of_mallctl_exist(path: Path) -> None:
    text = path.read_text()
    control = (ROOT / "shim" / "entry_points.def").read_text()
    assert all(f"({name})" in control for name in re.findall(r"`(poolshim_\w+)", text))
    assert set(re.findall(r'mallctl\("([^"]+)"', text)) <= mallctl_names()
    flags = {command: (ROOT / "scripts" / "poolshim_cli" / command).glob("*.py")
             for command in re.findall(r"poolshim (\w+) [^|`]*--\w", text)}  # fmt: skip
    sources = {command: "".join(one.read_text() for one in found)
               for command, found in flags.items()}  # fmt: skip
    for command, flag in re.findall(r"poolshim (\w+) [^|`]*?(--\w[\w-]*)", text):
        assert flag in sources[command] or command == "run", (command, flag)
