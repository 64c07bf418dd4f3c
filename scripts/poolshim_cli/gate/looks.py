# SPDX-License-Identifier: MIT
"""The live blocks of a program and its children at one moment, counted from outside.

    looks = Looks(root=pid); look = looks.take(); look.nbytes[64]

Blocks of each size are counted, not sampled: slabs, and the sampled blocks, which lie elsewhere.
The count is exact while no call of malloc or free is in progress. Samples say which call sites
allocated the blocks.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from .. import control, pprof
from ..compare.processes import Family, descendants, read_family
from ..errors import CANNOT_EXECUTE, OWN_FAILURE, Failed, OwnFailure
from ..explain.watch import FAMILY_MAX, Watch
from ..live.census import Reader
from ..live.memory import PAGE_BYTES, Memory, contradictions
from ..live.samples import Samples, Snapshot
from ..profile import live

LARGE = 0  # in place of a block size: above the size classes
SETTLE_S = 0.05  # between two looks that have to agree
FAMILY_S = 0.25  # for which a list of processes is used: to read it costs as much as a small heap


@dataclass
class Look:
    """All processes of the program."""

    at_s: float
    nbytes: Counter[int] = field(default_factory=Counter)  # by block size
    blocks: Counter[int] = field(default_factory=Counter)
    samples: dict[int, Snapshot] = field(default_factory=dict)  # by process

    @property
    def total(self) -> int:
        """Live bytes."""
        return sum(self.nbytes.values())


class Process:
    """Reads one process on poolshim."""

    def __init__(self, pid: int) -> None:
        self.memory = Memory(pid)
        self.reader = Reader(self.memory)
        self.layout = self.reader.layout
        self.samples = Samples(self.memory, self.layout)
        with contradictions(pid):
            self.weight_one = self.layout.offset("weight.one")
            self.page_bytes = max(PAGE_BYTES, 1 << self.layout.offset("medium.page_shift"))
        self.maps = ""
        self.code: list[pprof.Mapping] = []
        self.root = live.root_of(pid)
        self.perf_map = live.perf_map_of(pid, self.root.folder)

    def add_to(self, look: Look) -> None:
        """Adds its blocks. A sampled block of a size class has pages of its own."""
        with self.memory.reading():
            census, snapshot = self.reader.census(), self.samples.read()
            self.note_code()
        if not census.classes:
            return
        largest = census.classes[-1].block_bytes
        for one in census.classes:
            look.nbytes[one.block_bytes] += one.live_bytes
            look.blocks[one.block_bytes] += one.live_blocks
        look.nbytes[LARGE] += census.run_live_bytes + census.map_live_bytes
        look.blocks[LARGE] += census.run_live_count + census.map_live_count
        for sample in snapshot.live:
            if sample.is_medium and sample.nbytes <= largest:
                look.nbytes[sample.nbytes] += sample.nbytes
                look.blocks[sample.nbytes] += 1
                look.nbytes[LARGE] -= -(-sample.nbytes // self.page_bytes) * self.page_bytes
                look.blocks[LARGE] -= 1
        look.samples[self.memory.pid] = snapshot

    def note_code(self) -> None:
        """Notes the files of its code. A process that has ended maps nothing."""
        maps = control.maps_of(self.memory.pid)
        if maps and maps != self.maps:
            self.maps, self.code = maps, live.code_of(self.memory, self.root)


class Looks:
    """A program, followed."""

    def __init__(self, root: int = 0, starter: int = 0) -> None:
        self.watch = Watch(root, starter=starter)  # which finds the command below its launcher
        self.start_s = time.monotonic()
        self.known: dict[int, Process] = {}
        self.ended: dict[int, Process] = {}
        self.family: Family = {}
        self.family_s = 0.0  # when it was read
        self.refusal = ""
        self.refusal_status = OWN_FAILURE

    def take(self) -> Look:
        """Now. Processes that end meanwhile, or are not on poolshim, add nothing."""
        look = Look(time.monotonic() - self.start_s)
        watch, family = self.watch, self.family
        if not watch.root or time.monotonic() - self.family_s > FAMILY_S:
            family = self.family = read_family()
            self.family_s = time.monotonic()
            watch.root = watch.root or watch.find_root(family)
        pids = {watch.root} | descendants(watch.root, family) if watch.root else set()
        alive = sorted(pid for pid in pids if pid in family and not family[pid][1])
        for pid in alive[:FAMILY_MAX]:
            try:
                if pid not in self.known:
                    self.known[pid] = Process(pid)
                self.known[pid].add_to(look)
            except (Failed, OwnFailure, OSError) as error:
                self.refuse(error)
                self.forget(pid)
        for pid in set(self.known) - set(alive):
            self.forget(pid)
        return look

    def refuse(self, error: Exception) -> None:
        """Why a process cannot be read; that it is not permitted has a status of its own."""
        self.refusal = str(error)
        is_denied = getattr(error, "status", 0) == CANNOT_EXECUTE
        self.refusal_status = CANNOT_EXECUTE if is_denied else OWN_FAILURE

    def forget(self, pid: int) -> None:
        """A process that has ended, or runs another program now."""
        process = self.known.pop(pid, None)
        if process is not None:
            process.memory.close()
            self.ended[pid] = process

    def settled(self, most_s: float, pause_s: float = SETTLE_S) -> Look:
        """When two readings agree; the last one where they do not in that time."""
        self.family_s = 0.0
        until_s, look = time.monotonic() + most_s, self.take()
        while time.monotonic() < until_s:
            time.sleep(pause_s)
            before, look = look, self.take()
            if before.nbytes == look.nbytes:
                break
        return look

    def process(self, pid: int) -> Process:
        """One that was looked at."""
        return self.known.get(pid) or self.ended[pid]

    def close(self) -> None:
        """Its descriptors."""
        for pid in list(self.known):
            self.forget(pid)
