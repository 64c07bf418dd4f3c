# SPDX-License-Identifier: MIT
"""Names call sites by the program's own functions: the innermost that is no layer of allocation.

    sites = CallSites([[names.frames_of(sample.locations) for sample in profile.samples]], folds)
    name, callers = sites.of(frames)

Memory of a pool that has a name is named by that, with the function that made it grow as the first
caller; of another pool the family is added to the function.

In a stack of an interpreted program its innermost function is named, with the line: those of the
interpreter, and of modules that it calls, are layers.

Functions of one name in several files, as static ones may have, are told apart by the file. No two
functions share a name, so rows of a report add up what one function allocated.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from .folds import Folds, paths_of
from .pprof import Line, Pool

CALLERS = 3
NAMED_WITHIN = 6  # frames of one file: the first with a name says more
NO_STACK = "[no stack]"
# Outermost functions that every stack has.
START = re.compile(r"_start|__libc_start\w*|start_thread|__?clone3?|__GI_\w*clone\w*")
POOLS = re.compile(r"(?:.*/)?libpoolshim-pools\.so[^/]*")
POOL_SOURCES = re.compile(r".*/pools/[a-z]+/[a-z_]+\.[ch]|(?:.*/)?poolshim-pools\.[ch]")
POOL_LAYERS = 16  # frames between a call of the library and the taking of pages
# Functions that an interpreter lists in a perf map, and its files: where the program's functions
# have names, those of the interpreter are layers.
RUNTIMES = (
    (re.compile(r"py::"), re.compile(r"(?:.*/)?(?:lib)?python3[^/]*")),
    (re.compile(r"(?:JS|LazyCompile|Function|Eval|Script):"),
     re.compile(r"(?:.*/)?(?:node(?:js)?|libnode[^/]*)")),
)  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """A function in a stack; name is a place where it has none."""

    name: str
    file: str = ""  # that is mapped there; "" of generated code
    source: str = ""  # of the line, where that is known
    is_place: bool = False
    line: Line | None = None  # of an interpreted program

    @property
    def pool(self) -> Pool | None:
        """The pool that this innermost frame names."""
        return self.line.pool if self.line is not None else None

    @property
    def origin(self) -> str:
        """The file of a function, which tells two functions of one name apart."""
        return self.source or self.file


@dataclass(frozen=True)
class Site:
    """The call site of one stack."""

    function: Frame
    place: Frame | None  # in an unnamed function that it calls
    callers: tuple[Frame, ...]


def interpreter_of(frames: Sequence[Frame]) -> re.Pattern[str] | None:
    """Whose functions are layers in this stack."""
    for names, files in RUNTIMES:
        if any(not one.file and names.match(one.name) for one in frames):
            return files
    return None


def layers_of(frames: Sequence[Frame], is_layer: Sequence[bool]) -> int:
    """How many innermost frames are layers, and unnamed functions that a layer of their file has
    called."""
    begin = 0
    while begin < len(frames):
        end, file = begin, frames[begin].file
        while end < len(frames) and not is_layer[end] and frames[end].is_place:
            if not file or frames[end].file != file:
                return begin
            end += 1
        if end == len(frames) or not is_layer[end] or (end > begin and frames[end].file != file):
            return begin
        begin = end + 1
    return begin


def named_of(frames: Sequence[Frame], at: int) -> int:
    """The function of the same file that has called an unnamed one; itself, where none is near."""
    for after in range(at + 1, min(at + NAMED_WITHIN, len(frames))):
        if not frames[at].file or frames[after].file != frames[at].file:
            break
        if not frames[after].is_place:
            return after
    return at


def is_layer_of(frames: Sequence[Frame], folds: Folds) -> list[bool]:
    """Whether each frame allocates on behalf of its caller."""
    interpreter = interpreter_of(frames)
    return [
        POOLS.fullmatch(one.file) is not None
        or interpreter is not None and interpreter.fullmatch(one.file) is not None
        or not one.is_place and folds.has(one.name)
        for one in frames
    ]


def line_at(frames: Sequence[Frame], folds: Folds) -> int | None:
    """The innermost function of an interpreted program that is none of its standard library; of
    such alone the innermost. None: there is no interpreted program."""
    lines = [(at, one.line) for at, one in enumerate(frames) if one.line is not None]
    own = (at for at, line in lines if not folds.has_line(line.file, line.function))
    return next(own, lines[0][0] if lines else None)


def line_callers_of(frames: Sequence[Frame], at: int, folds: Folds) -> Iterator[Frame]:
    """The callers of a function of an interpreted program, and those of it that have names."""
    for one in frames[at + 1 :]:
        line = one.line
        if not (one.is_place if line is None else folds.has_line(line.file, line.function)):
            yield one


def inner_of(frames: Sequence[Frame], folds: Folds) -> int:
    """How many innermost frames are layers; not all of them."""
    return min(layers_of(frames, is_layer_of(frames, folds)), max(len(frames) - 1, 0))


def pool_layers_of(frames: Sequence[Frame], pool: Pool) -> int:
    """How many innermost frames are the library's own, where a program has it linked in: up to the
    first of the family's functions, and those in files of the library."""
    word = pool.family.partition(" ")[0].removesuffix("s")
    starts = (f"ps_{word}", f"ps::{word}")
    begin = next((at + 1 for at, one in enumerate(frames[:POOL_LAYERS])
                  if one.name.startswith(starts)), 0)  # fmt: skip
    while begin < len(frames) and POOL_SOURCES.fullmatch(frames[begin].source):
        begin += 1
    return begin


def pool_site_of(frames: Sequence[Frame], pool: Pool, folds: Folds) -> Site:
    """Of memory of a pool, whose frame is the innermost."""
    site = site_of(frames[1 + pool_layers_of(frames[1:], pool) :], folds)
    if not pool.name:
        return Site(site.function, site.place or Frame(pool.family), site.callers)
    callers = (site.function, *site.callers) if site.function.name != NO_STACK else ()
    return Site(frames[0], None, callers[:CALLERS])


def site_of(frames: Sequence[Frame], folds: Folds) -> Site:
    """The innermost function that is no layer; of layers alone the outermost."""
    start = next((at for at, one in enumerate(frames) if START.fullmatch(one.name)), 0)
    frames = frames[:start] if start else frames
    if not frames:
        return Site(Frame(NO_STACK), None, ())
    if folds.is_off:
        return Site(frames[0], None, tuple(frames[1 : 1 + CALLERS]))
    if frames[0].pool is not None:
        return pool_site_of(frames, frames[0].pool, folds)
    line = line_at(frames, folds)
    if line is not None:
        callers = islice(line_callers_of(frames, line, folds), CALLERS)
        return Site(frames[line], None, tuple(callers))
    is_layer = is_layer_of(frames, folds)
    inner = min(layers_of(frames, is_layer), len(frames) - 1)
    at = named_of(frames, inner) if frames[inner].is_place else inner
    others = [frames[i] for i in range(at + 1, len(frames)) if not is_layer[i]]
    return Site(frames[at], frames[inner] if at != inner else None, tuple(others[:CALLERS]))


def short(name: str) -> str:
    """A name without return type, arguments and template parameters."""
    return paths_of(name)[0] or name


class CallSites:
    """The sites of some profiles, a list of stacks each, in which no two functions share a name."""

    def __init__(
        self, profiles: Iterable[Iterable[Sequence[Frame]]], folds: Folds, is_short: bool = False
    ) -> None:
        self.folds, self.is_short = folds, is_short
        self.origins: defaultdict[str, set[str]] = defaultdict(set)  # of ambiguous names
        self.longs: defaultdict[str, set[str]] = defaultdict(set)  # by short name
        for stacks in profiles:
            origins: defaultdict[str, set[str]] = defaultdict(set)
            for frame in {frame for stack in stacks for frame in stack}:
                origins[frame.name].add(frame.origin)
                self.longs[short(frame.name)].add(frame.name)
            for name, found in origins.items():
                if len(found) > 1:
                    self.origins[name] |= found

    def title(self, frame: Frame) -> str:
        """A name that no other function has."""
        name = frame.name
        if self.is_short and frame.file and len(self.longs[short(name)]) <= 1:
            name = short(name)
        if frame.name not in self.origins:
            return name
        parts = [one.split("/") for one in self.origins[frame.name]]
        is_told = len({one[-1] for one in parts}) == len(parts)
        return f"{name} ({'/'.join(frame.origin.split('/')[-1 if is_told else -2 :])})"

    def of(self, frames: Sequence[Frame]) -> tuple[str, tuple[str, ...]]:
        """The name of a stack's site, and those of its callers."""
        site = site_of(frames, self.folds)
        name = self.title(site.function)
        if site.place is not None:
            name += f" ({site.place.name})"
        return name, tuple(map(self.title, site.callers))
