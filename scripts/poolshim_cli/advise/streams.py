# SPDX-License-Identifier: MIT
"""The calls of one site as files for the replayer: by malloc, and by the pool that fits.

    pair = streams_of(trace, site)
    pair.malloc, pair.pool               # bytes for scripts/native/replay.c, which has the format

Both make the same allocations in the same order. Frees that the pool does not need, since the
blocks die with their group, are left out of its stream, as they would be of the program.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field

from .order import END, Group
from .patterns import POOL, RING, STACK, Site
from .trace import LIVE, Trace

MAGIC = 0x31595250  # "PRY1"
HEADER = struct.Struct("<8I")
ALLOC, FREE, OPEN, CLOSE, SEAL, THREAD, USE = range(7)
BLOCKS_MOST = 200_000
THREADS_MOST = 64
BYTES_MOST = 1 << 30

# Calls at one time: a group is opened before its first block, and ends after its last.
FIRST, MIDDLE, LAST = range(3)
Event = tuple[int, int, int, int, int, int]  # time, order, kind, thread, place, bytes


@dataclass
class Stream:
    """A file in the making."""

    ops: array[int] = field(default_factory=lambda: array("I"))
    timed: int = 0  # operations before the clearing away of what lives on
    thread: int = -1
    group: int = -1

    def add(self, kind: int, place: int, nbytes: int = 0) -> None:
        """One call."""
        self.ops.extend((kind, place, nbytes))

    def turn_to(self, thread: int) -> None:
        """The next calls are this thread's."""
        if thread != self.thread:
            self.add(THREAD, thread)
            self.thread, self.group = thread, -1

    @property
    def count(self) -> int:
        """Operations."""
        return len(self.ops) // 3


@dataclass
class Pair:
    """Both streams, and how many blocks they have."""

    malloc: bytes
    pool: bytes
    blocks: int
    operations: int


class Maker:
    """The streams of one site."""

    def __init__(self, trace: Trace, site: Site) -> None:
        self.trace, self.site = trace, site
        self.is_ring = site.pattern is RING
        self.groups = self.chosen_groups()
        if self.groups:
            self.blocks = sorted(block for group in self.groups for block in group)
        else:
            self.blocks = self.chosen_blocks()[:BLOCKS_MOST]
        self.place_of = {block: place for place, block in enumerate(self.blocks)}
        threads = dict.fromkeys(trace.thread[one] for one in self.blocks)
        threads.update(dict.fromkeys(trace.free_thread[one] for one in self.blocks))
        self.threads = {name: at % THREADS_MOST for at, name in enumerate(threads)}

    def chosen_groups(self) -> list[Group]:
        """The groups for which a stream has room."""
        chosen, total = [], 0
        for group in sorted(self.site.groups):
            total += len(group)
            if total > BLOCKS_MOST and chosen:
                break
            chosen.append(group)
        return chosen

    def chosen_blocks(self) -> list[int]:
        """The blocks that the pool can serve."""
        facts = self.site.facts
        if self.site.pattern is not POOL:
            return facts.blocks
        return [one for one in facts.blocks if self.trace.size[one] == facts.common_size[0]]

    def died(self, block: int) -> int:
        """When; after all else if it lives on."""
        time = self.trace.died[block]
        return END if time == LIVE else time

    def maker_of(self, block: int) -> int:
        """The thread that allocated it."""
        return self.threads[self.trace.thread[block]]

    def freer_of(self, block: int) -> int:
        """The thread whose turn its free is: in a ring's stream the one that did it."""
        is_live = self.trace.died[block] == LIVE
        return self.maker_of(block) if is_live or not self.is_ring else self.threads[
            self.trace.free_thread[block]]  # fmt: skip

    def births(self) -> list[Event]:
        """All allocations."""
        return [
            (self.trace.born[one], MIDDLE, ALLOC, self.maker_of(one), place,
             min(self.trace.size[one], BYTES_MOST))
            for place, one in enumerate(self.blocks)
        ]  # fmt: skip

    def deaths(self) -> list[Event]:
        """All frees."""
        return [(self.died(one), MIDDLE, FREE, self.freer_of(one), place, 0)
                for place, one in enumerate(self.blocks)]  # fmt: skip

    def stack_frames(self) -> list[Event]:
        """A frame for each block, which is closed when the block is dead and the newest."""
        found: list[Event] = []
        stacks: dict[int, list[int]] = {}
        dead: set[int] = set()
        for time, _, kind, thread, place, _ in sorted(self.births() + self.deaths()):
            stack = stacks.setdefault(thread, [])
            if kind == ALLOC:
                stack.append(place)
                found.append((time, FIRST, OPEN, thread, place, 0))
                continue
            dead.add(place)
            while stack and stack[-1] in dead:
                found.append((time, LAST + len(found), CLOSE, thread, stack.pop(), 0))
        return found

    def ends(self) -> list[Event]:
        """The ends of groups, which free their blocks."""
        found: list[Event] = []
        for number, group in enumerate(self.groups):
            first, thread = self.trace.born[group[0]], self.maker_of(group[0])
            last = max(group, key=self.died)
            found.append((first, FIRST, OPEN, thread, number, 0))
            found.append((self.died(last), LAST, CLOSE, self.freer_of(last), number, 0))
            if self.is_ring:
                found.append((self.trace.born[group[-1]], LAST, SEAL, thread, 0, 0))
        return found

    def stream(self, events: list[Event], group_of: dict[int, int]) -> Stream:
        """The calls in order."""
        stream = Stream()
        for time, _, kind, thread, place, nbytes in sorted(events):
            if time != END:
                stream.timed = -1
            elif stream.timed <= 0:
                stream.timed = stream.count
            stream.turn_to(thread)
            group = group_of.get(place, -1)
            if kind == ALLOC and group not in (-1, stream.group):
                stream.add(USE, group)
                stream.group = group
            stream.add(kind, place, nbytes)
            if kind == OPEN:
                stream.group = place
        stream.timed = stream.timed if stream.timed > 0 else stream.count
        return stream

    def file(self, stream: Stream) -> bytes:
        """The contents of a stream's file, with its header."""
        size = self.site.facts.common_size[0]
        groups = len(self.groups) or len(self.blocks)
        head = HEADER.pack(MAGIC, stream.count, stream.timed, len(self.blocks), groups,
                           max(self.threads.values()) + 1, max(size, 1),
                           int(self.is_ring))  # fmt: skip
        return head + stream.ops.tobytes()

    def pair(self) -> Pair:
        """Both."""
        births = self.births()
        malloc = self.stream(births + self.deaths(), {})
        if self.groups:
            group_of = {} if self.is_ring else {
                self.place_of[block]: number
                for number, group in enumerate(self.groups) for block in group
            }  # fmt: skip
            pool = self.stream(births + self.ends(), group_of)
        else:
            is_stack = self.site.pattern is STACK
            pool = self.stream(births + (self.stack_frames() if is_stack else self.deaths()), {})
        return Pair(self.file(malloc), self.file(pool), len(self.blocks), malloc.count)


def streams_of(trace: Trace, site: Site) -> Pair:
    """The streams of a site that has a pattern."""
    return Maker(trace, site).pair()
