# SPDX-License-Identifier: MIT
"""What a table of size classes costs a program: bytes of slabs beyond those requested.

Three terms, each for the class that serves all requests above p and up to c bytes:

rounding     the sum of c - size over the live blocks.
tails        what a slab of the class cannot use, shared evenly by its blocks. Expected, not the
             ceiling of whole slabs: whether a count lies just below or above a multiple of the
             capacity is chance, and the next run's chance is another.
part-filled  a process that has live blocks in the class has a slab there which is not full: half of
             one on average. But memory that was never allocated was never touched, so the term is
             at most half a page and the blocks that were allocated but are not live.

Rounding and tails count addresses of slabs in use. Of a block's unused end, whole pages may never
have been touched; the prediction is an upper bound there, exact below the size of a page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from .recording import Recording

GRANULE_BYTES = 65536
SLAB_GRANULES_LIMIT = 16
SLAB_BLOCKS_WANTED = 8
RUN_BLOCK_BYTES = 256
CLASS_BYTES_LIMIT = 65536


@cache
def slab_plan(block_bytes: int) -> tuple[int, int]:
    """Bytes of a slab of a class and how many blocks it has: plan_granules and plan_blocks of
    pools/engine/small/size_class.c; a test compares it with the library."""
    granules = SLAB_GRANULES_LIMIT
    for candidate in range(1, SLAB_GRANULES_LIMIT):
        slab_bytes = candidate * GRANULE_BYTES
        blocks, tail = divmod(slab_bytes, block_bytes)
        if blocks >= SLAB_BLOCKS_WANTED and tail * 16 <= slab_bytes:
            granules = candidate
            break
    slab_bytes = granules * GRANULE_BYTES
    blocks, tail = divmod(slab_bytes, block_bytes)
    if block_bytes <= RUN_BLOCK_BYTES:
        blocks -= 2 if tail == 0 else 1
    return slab_bytes, blocks


def grid_points(top_bytes: int) -> list[int]:
    """Every size that a class may have up to the largest, after a 0: "no class below"."""
    return [0, 8, *range(16, top_bytes + 1, 16)]


@dataclass(frozen=True)
class Account:
    """What one table costs, by term. All in bytes."""

    live: float
    rounding: float
    tails: float
    part_filled: float

    @property
    def waste(self) -> float:
        return self.rounding + self.tails + self.part_filled

    @property
    def footprint(self) -> float:
        return self.live + self.waste


class Workload:
    """Sums over the grid of the blocks live at the peaks of all recordings, and the cost of a
    class.

    Several peaks of one process share its weight of 1, by their live bytes: they are one program at
    different times, and the highest decide how much memory it takes. runs: of the whole program,
    that the recordings are from; the sums are those of one.
    """

    def __init__(
        self,
        recordings: Iterable[Recording],
        points: Sequence[int],
        page_bytes: int = 4096,
        runs: int = 1,
    ) -> None:
        self.points = points
        self.page_bytes = page_bytes
        top_bytes = points[-1]
        blocks = [0.0] * len(self.points)
        live = [0.0] * len(self.points)
        requests = [0.0] * len(self.points)
        # Per point: (owner, weight) of the peaks with a live block there; an owner is one peak of
        # one process.
        self.owners: list[list[tuple[int, float]]] = [[] for _ in self.points]
        owner = 0
        for recording in recordings:
            for size, count in recording.requests:
                if size <= top_bytes:
                    requests[self.index(size)] += count / runs
            of_peaks = sum(peak.live_bytes for peak in recording.peaks)
            for peak in recording.peaks:
                weight = peak.live_bytes / of_peaks / runs if of_peaks else 0.0
                for size, count in peak.sizes:
                    if size <= top_bytes and count > 0:
                        index = self.index(size)
                        blocks[index] += weight * count
                        live[index] += weight * count * size
                        self.owners[index].append((owner, weight))
                owner += 1
        self.blocks = blocks
        self.live = live
        self.requests = requests
        self.blocks_upto = list(accumulate(blocks))
        self.live_upto = list(accumulate(live))
        self.requests_upto = list(accumulate(requests))

    @property
    def live_bytes(self) -> float:
        return self.live_upto[-1]

    def index(self, size_bytes: int) -> int:
        """The index of the smallest point that serves a request."""
        return bisect_left(self.points, size_bytes)

    def owner_sums(self) -> OwnerSums:
        return OwnerSums(self)

    def terms(self, below: int, upto: int, owners: float) -> tuple[float, float, float]:
        """The three terms of the class at point `upto` when the next one below is at `below`."""
        size = self.points[upto]
        slab_bytes, capacity = slab_plan(size)
        blocks = self.blocks_upto[upto] - self.blocks_upto[below]
        rounding = size * blocks - (self.live_upto[upto] - self.live_upto[below])
        tails = blocks * ((slab_bytes - capacity * size) / capacity)
        requests = self.requests_upto[upto] - self.requests_upto[below]
        touched = owners * (self.page_bytes / 2) + max(requests - blocks, 0.0) * size
        return rounding, tails, min(owners * (slab_bytes / 2), touched)

    def cost_row(self, lowest: int, upto: int, owners: Iterable[float]) -> Iterator[float]:
        """The sum of the terms, for each next class below from `lowest` to upto - 1; written out
        because it is called 1.5 million times."""
        size = self.points[upto]
        slab_bytes, capacity = slab_plan(size)
        block_bytes, half_slab = slab_bytes / capacity, slab_bytes / 2
        half_page = self.page_bytes / 2
        all_blocks, all_live = self.blocks_upto[upto], self.live_upto[upto]
        all_requests = self.requests_upto[upto]
        for blocks_below, live_below, requests_below, count in zip(
            self.blocks_upto[lowest:upto], self.live_upto[lowest:upto],
            self.requests_upto[lowest:upto], owners, strict=True,
        ):  # fmt: skip
            blocks = all_blocks - blocks_below
            freed = all_requests - requests_below - blocks
            touched = count * half_page + (freed * size if freed > 0 else 0.0)
            part_filled = count * half_slab
            yield block_bytes * blocks - (all_live - live_below) + (
                part_filled if part_filled < touched else touched
            )

    def account(self, table: Sequence[int]) -> Account:
        """The cost of any table, with or without our backbone; sizes above it cost nothing."""
        sums = self.owner_sums()
        totals = [0.0, 0.0, 0.0]
        below = 0
        for size in table:
            upto = self.index(size)
            sums.advance(upto)
            for i, term in enumerate(self.terms(below, upto, sums.owners_above(below))):
                totals[i] += term
            below = upto
        return Account(self.live_upto[below], *totals)


class OwnerSums:
    """How many owners have a live block in (p, c], for an ascending c: each owner counts at the
    highest point up to c where it has one."""

    def __init__(self, workload: Workload) -> None:
        self.owners = workload.owners
        self.at = 0
        self.highest: dict[int, int] = {}
        self.weights = [0.0] * len(workload.points)

    def advance(self, upto: int) -> None:
        """Makes c the point `upto`."""
        for index in range(self.at + 1, upto + 1):
            for owner, weight in self.owners[index]:
                before = self.highest.get(owner)
                if before is not None:
                    self.weights[before] -= weight
                self.weights[index] += weight
                self.highest[owner] = index
        self.at = upto

    def owners_above(self, below: int) -> float:
        return sum(self.weights[below + 1 : self.at + 1])

    def owners_above_each(self, lowest: int) -> list[float]:
        """owners_above of each p from `lowest` to c - 1."""
        sums = list(accumulate(self.weights[self.at : lowest : -1]))
        sums.reverse()
        return sums
