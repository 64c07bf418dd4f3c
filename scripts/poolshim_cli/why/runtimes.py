# SPDX-License-Identifier: MIT
"""Which runtimes and allocators a process has, and which of its mappings are their heaps.

    found = recognise(pid, mappings); found.runtime, found.allocator

A heap is recognised by what its runtime cannot change: V8's pages begin at multiples of 256 KiB,
each page of Ruby's heap points to its description, Go's arenas have fixed addresses, Java reserves
its heap as one range. Allocators are recognised by their libraries, or by texts in the program.
"""

from __future__ import annotations

import bisect
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import elf
from ..doctor.program import TRACES
from ..explain.mappings import Mapping
from ..foreign import patience
from ..foreign.files import Contents
from ..live.memory import Memory
from . import pools
from .pieces import Pieces

V8_PAGE, RUBY_PAGE = 256 << 10, 64 << 10
GO_START, GO_BYTES = 0xC000000000, 1 << 40
JAVA_LEAST, JAVA_ALIGNMENT = 4 << 20, 1 << 20
PROGRAM_BYTES_MAX = 256 << 20  # of a program that is searched for texts of an allocator
PROGRAM_SECONDS = 5.0  # of the search
LIBRARIES = {
    "poolshim": re.compile(r"libpoolshim[.-]"), "jemalloc": re.compile(r"libjemalloc"),
    "tcmalloc": re.compile(r"libtcmalloc"), "mimalloc": re.compile(r"libmimalloc"),
    "snmalloc": re.compile(r"libsnmalloc"), "rpmalloc": re.compile(r"librpmalloc"),
    "Hoard": re.compile(r"libhoard"),
}  # fmt: skip
MUSL = re.compile(r"ld-musl|libc\.musl")
# Runtime -> the files that are mapped where it runs. The first that fits is taken.
RUNTIMES = {
    "Java": re.compile(r"libjvm\.so"), "V8": re.compile(r"node(js)?$|libnode\.so|libv8|deno$"),
    ".NET": re.compile(r"libcoreclr\.so"), "Ruby": re.compile(r"ruby[\d.]*$|libruby"),
    "Erlang": re.compile(r"beam\.smp$"), "PHP": re.compile(r"php[\d.]*$|php-fpm|libphp"),
}  # fmt: skip
WHOLE = (".NET", "Erlang", "PHP")  # all that they map counts as theirs


@dataclass
class Found:
    """What a process consists of."""

    allocator: str = ""  # another than glibc's; "" where there is none
    runtime: str = ""
    python_minor: int | None = None
    java_heap: tuple[int, int] = (0, 0)


def file_names(mappings: list[Mapping]) -> set[str]:
    """The names of program and libraries, of others, too."""
    return {Path(one.path).name for one in mappings if one.is_file}


def recognise(mappings: list[Mapping]) -> Found:
    """By the names of mapped files."""
    names, found = file_names(mappings), Found()
    for name, pattern in LIBRARIES.items():
        if any(pattern.match(one) for one in names):
            found.allocator = found.allocator or name
    if not found.allocator and any(MUSL.match(one) for one in names):
        found.allocator = "musl"
    found.runtime = next((name for name, pattern in RUNTIMES.items()
                          if any(pattern.match(one) for one in names)), "")  # fmt: skip
    if not found.runtime and any(is_of_go(one.start) for one in mappings):
        found.runtime = "Go"
    if found.runtime == "Java":
        found.java_heap = java_range(mappings)
    found.python_minor = pools.minor_of(mappings)
    return found


def is_of_go(address: int) -> bool:
    """Whether an address lies where Go maps its arenas."""
    return GO_START <= address < GO_START + GO_BYTES


def bundled(pid: int) -> str:
    """The allocator that is linked into the program itself, by its texts."""
    with contextlib.suppress(OSError, elf.Malformed, patience.Stuck):
        return patience.Call(text_of, pid).result(PROGRAM_SECONDS)
    return ""


def text_of(pid: int) -> str:
    """The allocator that a text in the program's file names."""
    with contextlib.suppress(OSError, elf.Malformed):
        contents = Contents(f"/proc/{pid}/exe")
        if contents.nbytes <= PROGRAM_BYTES_MAX:
            found = contents.search(re.compile(b"|".join(map(re.escape, TRACES))))
            return TRACES[found[0]] if found else ""
    return ""


def java_range(mappings: list[Mapping]) -> tuple[int, int]:
    """The heap: of the ranges without a file, reserved or in use, that with most memory."""
    best, most = (0, 0), 0
    start = end = rss = 0
    for one in [*mappings, Mapping(0, 0, "", 0, 1, "/")]:
        if one.is_anonymous and one.start == end and "x" not in one.permissions:
            end, rss = one.end, rss + one.rss
            continue
        if rss > most and end - start >= JAVA_LEAST and start % JAVA_ALIGNMENT == 0:
            best, most = (start, end), rss
        is_one = one.is_anonymous and "x" not in one.permissions
        start, end, rss = (one.start, one.end, one.rss) if is_one else (0, 0, 0)
    return best


def ruby_pages(memory: Memory, one: Mapping, mappings: list[Mapping]) -> int:
    """Resident bytes of the pages of Ruby's heap in a mapping: the first word of each is the
    address of its description, which malloc has."""
    writable = [other for other in mappings if "w" in other.permissions and not other.is_file]
    starts = [other.start for other in writable]
    pieces, total = Pieces(memory, one.start, one.end), 0
    at = one.start - RUBY_PAGE
    while (at := pools.aligned(pieces.next(at + RUBY_PAGE), RUBY_PAGE)) + RUBY_PAGE <= one.end:
        if not pieces.has(at):
            continue
        words, base, _ = pieces.piece(at)
        place = words[(at - base) // 8]
        is_outside = place % 8 == 0 and not at <= place < at + RUBY_PAGE
        index = bisect.bisect_right(starts, place) - 1
        if is_outside and index >= 0 and place < writable[index].end:
            total += pieces.resident(at, at + RUBY_PAGE)
    return total


def is_heap_of(found: Found) -> Callable[[Mapping], bool]:
    """Whether a mapping is the heap of the runtime; of Ruby its pages are looked at instead."""
    first, last = found.java_heap
    tests: dict[str, Callable[[Mapping], bool]] = {
        "Java": lambda one: first <= one.start < last,
        "V8": lambda one: one.start % V8_PAGE == 0,
        "Go": lambda one: is_of_go(one.start),
    }
    whole: Callable[[Mapping], bool] = lambda one: found.runtime in WHOLE
    return tests.get(found.runtime, whole)
