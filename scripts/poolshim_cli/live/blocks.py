# SPDX-License-Identifier: MIT
"""Describes the memory at an address of a process or core file: a block and its state, or free.

    Blocks(Reader(memory)).describe(0x7F52A0010040)  # lines
"""

from __future__ import annotations

from .census import Reader
from .memory import contradictions
from .samples import Samples, Stack
from .slots import Leaf, Slabs, read_sizes

KIB = 1024
OTHER_USES = {
    "pages": "pages of a pool of the program",
    "guard": "the pool of guarded samples",
    "zero": "a block of size 0",
    "busy": "memory between two uses",
}


class Slot:
    """The slot of a granule; its fields by the names of the layout."""

    def __init__(self, reader: Reader, leaf: Leaf, at: int) -> None:
        self.layout = reader.layout
        self.address, self.data = leaf.slots + at, leaf.data[at : at + reader.slot_bytes]
        self.granule = leaf.first + at // reader.slot_bytes * reader.granule
        self.kind = self.layout.name_of("kind", self["run.kind"])
        self.nbytes = self["run.granules"] * reader.granule

    def __getitem__(self, name: str) -> int:
        return self.layout.record(name).of(self.data)[0]

    def has(self, address: int) -> bool:
        """True if the run of the slot has an address."""
        return self["run.base"] <= address < self["run.base"] + self.nbytes


def inside(address: int, block: int) -> str:
    """The offset of an address in a block, in words; "" at its start."""
    return f", {address - block} bytes inside" if address != block else ""


class Blocks:
    """Describes addresses of one process by its slots at one moment."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.memory, self.layout = reader, reader.memory, reader.layout
        self.leaves = sorted(reader.map.leaves(), key=lambda leaf: leaf.first)

    def site_name(self, site: int) -> str:
        """The function of a call site; "" if unknown."""
        return ""

    def describe(self, address: int) -> list[str]:
        """Lines with the block, its slab, and the stack that allocated it, if it was sampled."""
        with contradictions(self.memory.pid):
            return self.place_of(address) + self.sample_of(address)

    def slot(self, address: int) -> Slot | None:
        """The slot of an address; None if it was never touched."""
        found = self.reader.map.find(self.leaves, address)
        return Slot(self.reader, *found) if found else None

    def run_below(self, address: int) -> Slot | None:
        """The nearest used slot at or below an address: the first slot alone may name a run."""
        for leaf in reversed(self.leaves):
            count = max(0, (address - leaf.first) // self.reader.granule + 1)
            kinds = leaf.data[self.reader.kind_at :: self.reader.slot_bytes][:count].rstrip(b"\0")
            if kinds:
                return Slot(self.reader, leaf, (len(kinds) - 1) * self.reader.slot_bytes)
        return None

    def place_of(self, address: int) -> list[str]:
        """Lines with the block, or the kind of free memory, at an address."""
        slot = self.slot(address)
        if slot is None or slot.kind == "none":
            slot = self.run_below(address)
            if slot is None or not slot.has(address):
                return ["not of the heap"]
        if slot.kind == "medium":
            return [self.medium(address)]
        if slot.kind in OTHER_USES:
            return [OTHER_USES[slot.kind]]
        head = self.slot(slot.granule - slot["run.back"] * self.reader.granule)
        if head is None or not head.has(address):
            return ["not of the heap"]
        base = head["run.base"]
        if head.kind == "slab":
            return self.of_slab(head, address)
        if head.kind == "free":
            return [f"free run {base:#x}, {head.nbytes // KIB} KiB"]
        what = "in a mapping of its own" if head.kind == "mapping" else "a run"
        return [f"live large block {base:#x}, {head['large.bytes']} bytes, {what}"
                f"{inside(address, base)}"]  # fmt: skip

    # ---- small blocks ----

    def of_slab(self, slab: Slot, address: int) -> list[str]:
        """Lines with a block of a slab, and the slab."""
        sizes, fronts = read_sizes(self.memory, self.layout), self.reader.fronts
        size = sizes[slab["slab.class"]]
        base, nbytes = slab["run.base"], size.block_bytes
        index = (address - base) // nbytes
        block = base + index * nbytes
        held = fronts.by_granule(self.reader.granule)
        cached = sum(held[at] for at in range(base, base + slab.nbytes, self.reader.granule))
        live = max(0, Slabs(self.layout, sizes).of(slab.data).live - cached)
        state = "no block"
        if size.first <= index < size.limit:
            state = self.state_in(slab, index, block, nbytes)
        return [
            f"{state} small block {block:#x}, {nbytes} bytes{inside(address, block)}",
            f"slab {base:#x}, {slab.nbytes // KIB} KiB, {live} of {slab['slab.capacity']} blocks "
            "live",
        ]

    def state_in(self, slab: Slot, index: int, block: int, nbytes: int) -> str:
        """The state of a block of a slab, by its bit, and by where free ones are held."""
        word = self.memory.number(slab["slab.bits"] + index // 64 * 8)
        if word >> index % 64 & 1:
            return "free (fresh)" if index >= slab["slab.fresh"] else "free"
        fronts = self.reader.fronts
        if fronts.holds(block, slab["slab.class"], nbytes):
            return "free (in a window)"
        if block in (held for _, held in fronts.quarantined()):
            return "free (in quarantine)"
        return "free (in a front)" if block in fronts.blocks() else "live"

    # ---- others ----

    def medium(self, address: int) -> str:
        """A block of a medium region: the mark of the page where it starts has its length."""
        marks, waits, size = self.reader.marks, self.reader.waits, self.reader.page_bytes
        for at in range(address // size * size, address - waits * size, -size):
            self.memory.check()
            slot = self.slot(at)
            if slot is None or slot.kind != "medium":
                break
            mark = slot.data[marks.offset + at // size % marks.length]
            if mark == waits:
                return f"sampled medium block {at:#x}{inside(address, at)}"
            nbytes = mark % waits * size
            if mark and address < at + nbytes:
                state = "free (in a front)" if mark > waits else "live"
                return f"{state} medium block {at:#x}, {nbytes} bytes{inside(address, at)}"
            if mark:
                break
        return "free pages of a medium region"

    def sample_of(self, address: int) -> list[str]:
        """Lines with a sampled block and the stack that allocated it."""
        table = Samples(self.memory, self.layout).read()
        for one in table.live:
            if one.block <= address < one.block + one.nbytes:
                sites = table.stacks.get(one.stack, Stack()).sites
                where = ", allocated at" if sites else ", without a stack"
                lines = {site: line.title for site, line in table.lines.items()}
                names = (lines.get(site) or f"{site:#x} {self.site_name(site)}" for site in sites)
                return [f"sampled: block {one.block:#x}, {one.nbytes} bytes{where}",
                        *(f"  {name}" for name in names)]  # fmt: skip
        return []
