# SPDX-License-Identifier: MIT
"""In which order the blocks of a call site die: the facts from which the patterns follow.

    facts = facts_of(trace, blocks)      # blocks: places in the trace's columns, ascending
    facts.lifo_share                     # of the frees that freed the newest live block

Each thread's blocks are looked at by themselves, because a pool belongs to one thread.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from .trace import LIVE, Trace

END = 1 << 62  # when blocks die that the trace leaves alive
BURST_LEAST = 8  # blocks, below which a burst is no end of a group
Group = list[int]  # blocks, in the order of allocation


@dataclass
class Facts:
    """The facts of one call site; shares are of its blocks."""

    blocks: list[int]
    count: int = 0
    weight: float = 0.0  # allocations of the process that they represent
    sizes: Counter[int] = field(default_factory=Counter)
    freed: int = 0
    resized: int = 0
    remote: int = 0  # freed by another thread
    same_function: int = 0  # freed by the function that allocated, called from the same place
    newest_first: int = 0
    oldest_first: int = 0
    forward: int = 0  # frees of a block that is younger than the one freed before
    live_most: int = 0
    live_sum: int = 0  # over all allocations
    bursts: list[Group] = field(default_factory=list)  # successive blocks that died together
    spells: list[Group] = field(default_factory=list)  # from none live to none live
    batches: list[Group] = field(default_factory=list)  # successive blocks freed by one other

    def share(self, part: int) -> float:
        """A part as a share of the freed blocks."""
        return part / self.freed if self.freed else 0.0

    @property
    def live_mean(self) -> float:
        """Live blocks at an allocation, itself included."""
        return self.live_sum / self.count if self.count else 0.0

    @property
    def common_size(self) -> tuple[int, float]:
        """The most frequent size, and its share."""
        if not self.sizes:
            return 0, 0.0
        size, count = self.sizes.most_common(1)[0]
        return size, count / self.count


def mean_length(groups: list[Group]) -> float:
    """The mean number of blocks of a group."""
    return sum(map(len, groups)) / len(groups) if groups else 0.0


class Walk:
    """The births and deaths of one thread's blocks, in order."""

    def __init__(self, trace: Trace, blocks: list[int], facts: Facts) -> None:
        self.trace, self.blocks, self.facts = trace, blocks, facts
        self.live: set[int] = set()
        self.by_age: deque[int] = deque()  # live ones, and dead ones within
        self.burst: list[int] = []
        self.spell: list[int] = []
        self.last = -1

    def run(self) -> None:
        """All of it."""
        trace = self.trace
        deaths = [(trace.died[one] if trace.died[one] != LIVE else END, place)
                  for place, one in enumerate(self.blocks)]  # fmt: skip
        deaths.sort()
        at = 0
        for place, block in enumerate(self.blocks):
            born = trace.born[block]
            while deaths[at][0] < born:
                self.die(deaths[at][1], True)
                at += 1
            self.end_burst()
            self.be_born(place)
        for time, place in deaths[at:]:
            self.die(place, time != END)
        self.end_burst()

    def be_born(self, place: int) -> None:
        """An allocation."""
        self.live.add(place)
        self.by_age.append(place)
        self.spell.append(place)
        self.facts.live_most = max(self.facts.live_most, len(self.live))
        self.facts.live_sum += len(self.live)

    def die(self, place: int, is_freed: bool) -> None:
        """A free, or the end of the trace."""
        while self.by_age and self.by_age[-1] not in self.live:
            self.by_age.pop()
        while self.by_age and self.by_age[0] not in self.live:
            self.by_age.popleft()
        if is_freed:
            self.facts.newest_first += self.by_age[-1] == place
            self.facts.oldest_first += self.by_age[0] == place
            self.facts.forward += place > self.last
            self.last = place
        self.live.discard(place)
        self.burst.append(place)
        if not self.live:
            self.facts.spells.append([self.blocks[one] for one in self.spell])
            self.spell = []
            self.by_age.clear()

    def end_burst(self) -> None:
        """Blocks died, and now another is allocated. Successive ones of them were a group."""
        self.burst.sort()
        start = 0
        for at in range(1, len(self.burst) + 1):
            if at == len(self.burst) or self.burst[at] != self.burst[at - 1] + 1:
                if at - start >= BURST_LEAST:
                    group = self.burst[start:at]
                    self.facts.bursts.append([self.blocks[one] for one in group])
                start = at
        self.burst = []


def is_same_function(trace: Trace, block: int) -> bool:
    """Whether a call from one place made and freed it: the frames above are the same."""
    made = trace.stacks.get(trace.stack[block], ())
    freed = trace.stacks.get(trace.free_stack[block], ())
    return len(made) > 1 and made[1:] == freed[1:]


def find_batches(trace: Trace, blocks: list[int], facts: Facts) -> None:
    """Groups of successive blocks, all allocated before another thread frees the first of them."""
    place_of = {block: place for place, block in enumerate(blocks)}
    remote = [one for one in blocks
              if trace.died[one] != LIVE and trace.free_thread[one] != trace.thread[one]]
    by_thread: dict[int, list[int]] = {}
    for block in sorted(remote, key=lambda one: trace.died[one]):
        by_thread.setdefault(trace.free_thread[block], []).append(block)
    for freed in by_thread.values():
        batch: list[int] = []
        for block in freed:
            is_next = bool(batch) and (
                abs(place_of[block] - place_of[batch[-1]]) == 1
                and trace.born[block] < trace.died[batch[0]]
            )
            if batch and not is_next:
                facts.batches.append(sorted(batch))
                batch = []
            batch.append(block)
        if batch:
            facts.batches.append(sorted(batch))


def facts_of(trace: Trace, blocks: list[int]) -> Facts:
    """All that the patterns ask for."""
    facts = Facts(blocks, count=len(blocks))
    by_thread: dict[int, list[int]] = {}
    for block in blocks:
        facts.weight += trace.weight(block)
        facts.sizes[trace.size[block]] += 1
        facts.resized += trace.is_resized[block]
        if trace.died[block] != LIVE:
            facts.freed += 1
            facts.remote += trace.free_thread[block] != trace.thread[block]
            facts.same_function += is_same_function(trace, block)
        by_thread.setdefault(trace.thread[block], []).append(block)
    for own in by_thread.values():
        Walk(trace, own, facts).run()
        find_batches(trace, own, facts)
    return facts
