# SPDX-License-Identifier: MIT
"""A profile of a running process without any earlier setting.

    found = live.sample(1234, seconds=30); found.profile, found.names

The other side of pools/engine/profile/demand.h: sampling begins when a number in the process's
memory changes, goes on while it changes again and again, and ends by itself a few seconds after the
last time, however this command ends. Stacks and live samples are read from the memory of the
process; it takes no part in that. Earlier allocations have no samples.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from .. import control, elf, pprof, symbols
from ..errors import Failed, OwnFailure
from ..explain import mappings
from ..foreign import files
from ..foreign.perf_map import PerfMap
from ..live import layout as layouts
from ..live import report, slots
from ..live.memory import PAGE_BYTES, Memory, Unreadable, contradictions
from ..live.roots import Root, root_of
from ..live.samples import Samples, Snapshot, Stack

BEAT_SECONDS = 0.5
BEGIN_PAUSE_SECONDS = 0.01
NUMBER_LIMIT = 1 << 32
TYPES = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
         ("inuse_space", "bytes"), ("pinned_space", "bytes")]  # fmt: skip
LOST = "[stacks beyond POOLSHIM_PROFILE_MAX]"
NO_STACK = "[no stack]"


class NothingSampled(Failed):
    """The process allocated too little meanwhile."""


@dataclass
class Found:
    """A profile, its names, and what it is of."""

    profile: pprof.Profile
    names: symbols.Symbols
    program: str
    seconds: float
    notes: list[str]


class Tables:
    """What the library says of its samples, in any memory: also in a core file."""

    def __init__(self, memory: Memory, layout: Layout) -> None:
        self.memory, self.pid, self.layout = memory, memory.pid, layout
        self.samples = Samples(memory, layout)

    def number(self, place: str, field: str = "") -> int:
        """A variable, or a field of one."""
        at = self.layout.place(place)
        if not field:
            return self.memory.number(at, self.layout.places[place][1])
        one = self.layout.field(field)
        return self.memory.number(at + one.offset, one.length)

    def has(self, demand: str) -> bool:
        """Is it sampled for that?"""
        return bool(self.number("demand") & self.layout.offset(f"demand.{demand}"))


class Target(Tables):
    """A process that is sampled."""

    def __init__(self, memory: Memory) -> None:
        self.begun = report.start_of(memory.pid)
        self.writer = control.Writer(memory.pid)
        super().__init__(memory, layouts.find(memory))
        layouts.check_writer(self.writer, self.layout)
        self.beat_at = self.layout.place("set.sample-beat")
        self.interval_at = self.layout.place("set.sample-interval")
        self.configured = self.number("profile_settings", "profile.interval")
        if self.configured == 0:
            raise Failed(
                f"process {self.pid} cannot be sampled: it runs with POOLSHIM_HARDEN, "
                "POOLSHIM_GUARD_SAMPLE or POOLSHIM_RECORD"
            )

    def ask(self, interval: int) -> None:
        """For samples, for some seconds. 0: any interval. Another reader's may be lower."""
        before = self.number("set.sample-interval")
        wanted = interval
        if self.has("reader"):
            theirs = before or self.configured
            wanted = min(interval, theirs) if interval else before
        if wanted != before:
            self.writer.write(self.interval_at, wanted.to_bytes(8, "little"))
        beat = (self.number("set.sample-beat") + 1) % NUMBER_LIMIT
        self.writer.write(self.beat_at, beat.to_bytes(4, "little"))

    def is_sampled(self) -> bool:
        """For readers, at the interval that was asked for."""
        asked = 0 if self.has("file") else self.number("set.sample-interval")
        return self.has("reader") and self.number("demand_interval") == (asked or self.configured)

    def has_ended(self) -> bool:
        """Also one that its parent has not noticed yet, and one whose number has another now."""
        try:
            stat = files.read_proc(self.pid, "stat").decode(errors="replace")
            state = stat.rpartition(")")[2].split()[0]
            return state in "ZX" or report.start_of(self.pid) != self.begun
        except (OSError, IndexError, OwnFailure):
            return True


def wait_until_begun(target: Target, interval: int, seconds: float) -> None:
    """Polls until a thread of the process has noticed the request."""
    end = time.monotonic() + seconds
    next_beat = 0.0
    while not target.is_sampled():
        now = time.monotonic()
        if now >= end:
            raise NothingSampled(
                f"process {target.pid} has noticed nothing in {seconds:g} s, since it calls malloc "
                "too rarely, or has no memory for the samples: try for longer"
            )
        if now >= next_beat:
            target.ask(interval)
            next_beat = now + BEAT_SECONDS
        time.sleep(BEGIN_PAUSE_SECONDS)
    target.ask(interval)


def wait(target: Target, interval: int, seconds: float) -> bool:
    """Sleeps so long. Whether it was interrupted."""
    end = time.monotonic() + seconds
    try:
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, BEAT_SECONDS))
            target.ask(interval)
    except KeyboardInterrupt:
        return True
    return False


# ---- what the tables say ----


class Slabs:
    """Free memory that blocks of the slabs pin, as pools/engine/profile/pinned.c counts it, but not
    scaled: most blocks are unknown."""

    def __init__(self, target: Tables) -> None:
        layout, self.memory = target.layout, target.memory
        self.kind = layout.offset("kind.slab")
        self.granule = 1 << layout.offset("granule.shift")
        self.sizes = slots.read_sizes(self.memory, layout)
        self.kind_at, self.accounts = layout.offset("run.kind"), slots.Slabs(layout, self.sizes)
        self.slot_bytes = 1 << layout.offset("slot.shift")
        self.known: dict[int, tuple[int, int, int]] = {}

    def read(self, slot: int) -> tuple[int, int, int]:
        """Block size, live blocks, free blocks; 0 where it is no slab any more."""
        try:
            data = self.memory.read(slot, self.slot_bytes)
        except Unreadable:
            return 0, 0, 0
        account = self.accounts.of(data)
        if data[self.kind_at] != self.kind or account.class_index >= len(self.sizes):
            return 0, 0, 0
        free = max(0, account.fresh - account.live)
        return self.sizes[account.class_index].block_bytes, account.live, free

    def share(self, slot: int, nbytes: int) -> float:
        """Free bytes for each block of the slab, with one more; where it is gone, of a granule."""
        if slot not in self.known:
            self.known[slot] = self.read(slot)
        block, live, free = self.known[slot]
        if block == nbytes and live > 0:
            return free * block / (live + 1)
        return max(0, self.granule - nbytes)


def weighted(weight: int, nbytes: int, one: int) -> int:
    """The weighted bytes, computed as ps_draw_weighted does."""
    return weight // one * nbytes + (weight % one * nbytes + one // 2) // one


def values_of(
    target: Tables, before: Snapshot, after: Snapshot
) -> dict[int, tuple[int, int, int, int, int]]:
    """Stack -> the five values, of the allocations between two readings of the table."""
    with target.memory.reading(), contradictions(target.pid):
        return weigh(target, before, after)


def weigh(
    target: Tables, before: Snapshot, after: Snapshot
) -> dict[int, tuple[int, int, int, int, int]]:
    """Values of each stack, as values_of computes them, by words of the process."""
    one, slabs = target.layout.offset("weight.one"), Slabs(target)
    live_weight: Counter[int] = Counter()
    live_bytes: Counter[int] = Counter()
    pinned: defaultdict[int, float] = defaultdict(float)
    lost = target.layout.place("lost_stack")
    for sample in after.live:
        if (sample.number - before.sample_count - 1) % NUMBER_LIMIT >= NUMBER_LIMIT // 2:
            continue  # of an earlier time
        stack = sample.stack if sample.stack in after.stacks else lost
        live_weight[stack] += sample.weight
        live_bytes[stack] += weighted(sample.weight, sample.nbytes, one)
        if sample.slab:
            pinned[stack] += sample.weight / one * slabs.share(sample.slab, sample.nbytes)
    found = {}
    for address, stack_now in after.stacks.items():
        was = before.stacks.get(address, Stack())
        weight = stack_now.made_weight - was.made_weight
        if weight > 0:
            found[address] = (
                (weight + one // 2) // one, stack_now.made_bytes - was.made_bytes,
                (live_weight[address] + one // 2) // one, live_bytes[address],
                round(pinned[address]),
            )  # fmt: skip
    return found


# ---- code ----


def build_id_of(memory: Memory, path: str, start: int) -> str:
    """The build ID of the file mapped there, from the process's own memory; "" without one."""
    try:
        return elf.parse(Path(path), memory.read(start, PAGE_BYTES)).build_id
    except (elf.Malformed, Failed):
        return ""


def code_of(memory: Memory, root: Root) -> list[pprof.Mapping]:
    """The mappings of code and their files, in order, by the paths that the process sees."""
    return code_in(memory, mappings.parse(control.maps_of(memory.pid)), root.inside)


def code_in(
    memory: Memory, found_mappings: Iterable[mappings.Mapping], inside: Callable[[str], str] = str
) -> list[pprof.Mapping]:
    """The same of given mappings. inside: the path by which a file is found."""
    found, heads = [], {}
    for one in found_mappings:
        if one.offset == 0 and "r" in one.permissions:
            heads[one.path] = one.start  # the code of a file follows its head
        if "x" in one.permissions and one.path:
            head = heads.get(one.path)
            build_id = "" if head is None else build_id_of(memory, one.path, head)
            found.append(
                pprof.Mapping(one.start, one.end, one.offset, inside(one.path), build_id)
            )
    return found


def mapping_at(code: list[pprof.Mapping], address: int) -> pprof.Mapping | None:
    """The one that has it."""
    index = bisect.bisect_right(code, address, key=lambda one: one.start) - 1
    return code[index] if index >= 0 and address < code[index].limit else None


def perf_map_of(pid: int, root: Path) -> PerfMap:
    """The perf map of a process, by its number in its own namespace."""
    status = ""
    with contextlib.suppress(OSError):
        status = files.read_proc(pid, "status").decode(errors="replace")

    def last_of(key: str) -> int | None:
        """The last number of a line: of Uid and Gid, that of files which the process makes."""
        found = re.search(rf"^{key}:.*\s(\d+)$", status, re.M)
        return int(found.group(1)) if found else None

    path = root / "tmp" / f"perf-{last_of('NSpid') or pid}.map"
    return PerfMap(path, last_of("Uid"), last_of("Gid"))


# ---- the profile ----


def sites_of(
    stack: Stack, is_lost: bool, code: list[pprof.Mapping], lines: dict[int, pprof.Line]
) -> tuple[pprof.Location, ...]:
    """Locations, innermost first; one that says so where there is no stack."""
    if not stack.sites:
        return (pprof.Location(0, None, (LOST if is_lost else NO_STACK,)),)
    return tuple(
        pprof.location_of(lines[site]) if site in lines
        else pprof.Location(site, mapping_at(code, site))
        for site in stack.sites if site != 0
    )  # fmt: skip


def comments_of(before: Snapshot, after: Snapshot) -> list[str]:
    """What did not fit, as the library words it."""
    stacks, blocks = after.lost_stacks - before.lost_stacks, after.lost_blocks - before.lost_blocks
    found = []
    if stacks:
        found.append(f"{stacks} samples whose stacks did not fit POOLSHIM_PROFILE_MAX")
    if blocks:
        found.append(f"{blocks} samples that did not fit POOLSHIM_PROFILE_MAX: not in inuse "
                     "figures")  # fmt: skip
    if not after.is_settled:
        found.append("the table changed while it was read: a few samples may be wrong")
    return found


def profile_of(
    target: Tables, before: Snapshot, after: Snapshot, code: list[pprof.Mapping]
) -> pprof.Profile:
    """The samples between two readings, as a profile for pprof."""
    lost = target.layout.place("lost_stack")
    samples = [
        pprof.Sample(sites_of(after.stacks[address], address == lost, code, after.lines), values)
        for address, values in values_of(target, before, after).items()
    ]
    used = {site.mapping for sample in samples for site in sample.locations}
    return pprof.Profile(
        types=TYPES, default_type="inuse_space", samples=samples,
        mappings=[one for one in code if one in used], comments=comments_of(before, after),
        period=target.number("demand_interval"), time_nanos=time.time_ns(),
    )  # fmt: skip


def observe(target: Target, seconds: float, interval: int) -> Found:
    """Samples the process, and reads what the samples say."""
    pid = target.pid
    target.ask(interval)
    wait_until_begun(target, interval, seconds)
    before, epoch = target.samples.read(), target.number("demand_epoch")
    began = time.monotonic()
    is_interrupted = wait(target, interval, seconds)
    after, elapsed = target.samples.read(), time.monotonic() - began
    if after.base != before.base:
        raise Unreadable("another program")
    root = root_of(pid)
    profile = profile_of(target, before, after, code_of(target.memory, root))
    profile.duration_nanos = round(elapsed * 1e9)
    notes = []
    if is_interrupted:
        notes.append(f"interrupted after {elapsed:.1f} of {seconds:g} s")
    if target.number("demand_epoch") != epoch:
        notes.append("another command asked for other samples meanwhile, or this one was held up: "
                     "the interval has changed, or some time is missing")  # fmt: skip
    if interval and profile.period != interval:
        reason = "POOLSHIM_PROFILE" if target.has("file") else "another command"
        notes.append(f"{reason} has set the interval: {profile.period / 1024:g} KiB")
    names = symbols.names_of(profile, perf_map_of(pid, root.folder), root.folder)
    return Found(profile, names, report.program_of(pid), elapsed, notes)


def sample(pid: int, seconds: float, interval: int) -> Found:
    """One process; one line where it ends, or becomes another, meanwhile."""
    with Memory(pid) as memory:
        target, began = Target(memory), time.monotonic()
        try:
            found = observe(target, seconds, interval)
            if found.profile.samples:
                return found
        except (Unreadable, OwnFailure):
            elapsed = time.monotonic() - began
            if target.has_ended():
                raise Failed(f"process {pid} ended after {elapsed:.1f} s: no profile") from None
            raise Failed(f"process {pid} runs another program after {elapsed:.1f} s: no profile"
                         ) from None  # fmt: skip
    raise NothingSampled(
        f"process {pid}: no allocation was sampled in {found.seconds:.1f} s, at a sample every "
        f"{found.profile.period / 1024:g} KiB: there is nothing to report"
    )
