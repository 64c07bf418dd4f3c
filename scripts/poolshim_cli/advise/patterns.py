# SPDX-License-Identifier: MIT
"""Call sites, and the pool that fits the pattern of each.

    for site in sites_of(trace):
        site.pattern                    # a Pattern, or None: malloc it is

A call site is the innermost call. Where its blocks have no pattern and it is called from several
places, as a wrapper of malloc is, these are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .order import Facts, Group, facts_of, mean_length
from .trace import Trace

DEPTH_MOST = 6  # calls that tell a site from another
COUNT_LEAST = 200  # traced blocks of a site; below, its order says little
SHARE_LEAST = 0.005  # of all allocations; below, no pool can gain much
MOST = 0.9  # of the blocks, for a pattern
NEARLY_ALL = 0.95
ONE_SIZE = 0.99
GROUP_LEAST = 16  # blocks, on average, that die together
SPELL_MOST = 16  # blocks, on average, of a call of a function
BATCH_LEAST = 4
RESIZED_MOST = 0.01


@dataclass(frozen=True)
class Pattern:
    """What the blocks of a site do, and what serves them."""

    pool: str  # as scripts/native/replay.c has it
    header: str
    what: str
    how: str


REGION = Pattern("region", "poolshim/region.h", "die together",
                 "allocate with ps_region_alloc, replace the frees by one ps_region_destroy")
STACK = Pattern("stack", "poolshim/stack.h", "die last in, first out",
                "allocate with ps_stack_alloc in a frame, replace the frees by one ps_stack_pop")
SCRATCH = Pattern("scratch", "poolshim/stack.h", "are scratch of one call of a function",
                  "open the function with PS_SCOPE, allocate with ps_t_alloc, and free nothing")
FIFO = Pattern("fifo", "poolshim/fifo.h", "die first in, first out",
               "allocate with ps_fifo_alloc, free with ps_fifo_free")
POOL = Pattern("pool", "poolshim/pool.h", "have one size",
               "allocate with ps_pool_alloc, free with ps_pool_free")
RING = Pattern("ring", "poolshim/ring.h", "are freed in batches by other threads",
               "allocate with ps_ring_alloc between ps_ring_begin and ps_ring_seal, and replace "
               "the frees of a batch by one ps_ring_release")  # fmt: skip


@dataclass
class Site:
    """A call site, by its innermost calls."""

    key: tuple[int, ...]
    facts: Facts
    pattern: Pattern | None
    reason: str  # why there is no pattern; "" where there is one
    parts: tuple[Site, ...] = ()  # call sites whose blocks die together; key: the first one's

    @property
    def groups(self) -> list[Group]:
        """What a pool of the pattern frees at once; [] where it frees single blocks."""
        if self.pattern is REGION:
            return self.facts.bursts
        if self.pattern is SCRATCH:
            return self.facts.spells
        return self.facts.batches if self.pattern is RING else []


def covers(facts: Facts, groups: list[Group]) -> bool:
    """Whether groups hold nearly all blocks of a site."""
    return sum(map(len, groups)) >= MOST * facts.count


def is_scratch(facts: Facts) -> bool:
    """Whether a call that allocates them frees them, and has few."""
    return (
        facts.freed >= NEARLY_ALL * facts.count
        and facts.share(facts.same_function) >= NEARLY_ALL
        and mean_length(facts.spells) < SPELL_MOST
    )


def is_region(facts: Facts) -> bool:
    """Whether successive blocks die with no allocation in between."""
    return covers(facts, facts.bursts) and mean_length(facts.bursts) >= GROUP_LEAST


def is_stack(facts: Facts) -> bool:
    """Whether the newest is freed first."""
    return facts.share(facts.newest_first) >= NEARLY_ALL and facts.live_most >= 2


def is_fifo(facts: Facts) -> bool:
    """Whether the oldest is freed first, nearly."""
    return facts.live_mean >= 2 and (
        facts.share(facts.oldest_first) >= MOST or facts.share(facts.forward) >= NEARLY_ALL
    )


def is_pool(facts: Facts) -> bool:
    """Whether they have one size, and are freed at all."""
    return facts.common_size[1] >= ONE_SIZE and facts.common_size[0] > 0 and facts.freed > 0


ORDER: tuple[tuple[Callable[[Facts], bool], Pattern], ...] = (
    (is_scratch, SCRATCH), (is_region, REGION), (is_stack, STACK), (is_fifo, FIFO),
    (is_pool, POOL),
)  # fmt: skip


def pattern_of(facts: Facts) -> tuple[Pattern | None, str]:
    """The pool that fits, or why none does."""
    if facts.resized > RESIZED_MOST * facts.count:
        return None, "its blocks are resized"
    if facts.share(facts.remote) >= MOST:
        if covers(facts, facts.batches) and mean_length(facts.batches) >= BATCH_LEAST:
            return RING, ""
        return None, "other threads free its blocks one by one"
    if facts.share(facts.remote) > 1 - NEARLY_ALL:
        return None, "some of its blocks are freed by other threads"
    for fits, pattern in ORDER:
        if fits(facts):
            return pattern, ""
    return None, "its blocks have many sizes and die in no order"


def split(trace: Trace, blocks: list[int], depth: int) -> dict[tuple[int, ...], list[int]]:
    """Splits blocks by so many innermost calls; leaves out blocks without a stack."""
    found: dict[tuple[int, ...], list[int]] = {}
    for block in blocks:
        stack = trace.stacks.get(trace.stack[block], ())
        if stack:
            found.setdefault(stack[:depth], []).append(block)
    return found


def descend(
    trace: Trace, blocks: list[int], depth: int, least: float, before: Site | None
) -> Iterator[Site]:
    """The sites among some blocks; `before` is what they were all together."""
    parts = {key: own for key, own in split(trace, blocks, depth).items()
             if len(own) >= COUNT_LEAST and sum(map(trace.weight, own)) >= least}
    if before is not None and (depth > DEPTH_MOST or not parts):
        yield before
        return
    for key, own in parts.items():
        if before is not None and len(own) == len(before.facts.blocks):
            site = Site(key, before.facts, None, before.reason)
        else:
            facts = facts_of(trace, own)
            site = Site(key, facts, *pattern_of(facts))
        if site.pattern is not None:
            yield site
        else:
            yield from descend(trace, own, depth + 1, least, site)


def sites_of(trace: Trace) -> list[Site]:
    """All that matter, by the number of their allocations."""
    everything = list(range(len(trace.size)))
    least = SHARE_LEAST * trace.made_count
    found = list(descend(trace, everything, 1, least, None))
    return sorted(found, key=lambda site: -site.facts.weight)
