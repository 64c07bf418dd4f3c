# SPDX-License-Identifier: MIT
"""gdb's command `poolshim`, for processes and core files: heap totals, and what an address is in.

    (gdb) source poolshim_gdb.py
    (gdb) poolshim heap
    (gdb) poolshim block ADDRESS

Reads memory and debugging information of libpoolshim.so; calls nothing in the process. docs/gdb.md
is the manual.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import gdb

MASK = (1 << 64) - 1
GRANULE_SHIFT, GRANULE = 16, 1 << 16
PAGE_SHIFT = 12  # of medium blocks
LEAF, LEAF_BYTES = 1 << 25, 512 * 128  # bytes of addresses, and of their slots
MAPPING_GRANULES = 1 << 14  # examined in front of an address
KINDS = ("none", "free", "busy", "span", "inside", "block", "mapping", "medium", "pages", "guard",
         "zero")  # fmt: skip
KEY_MASK, KEY_ORPHAN, KEY_HEAP_LEAST = 3, 2, 4096
HEAP_STATES = (
    "of a thread",
    "of an ended thread",
    "of calls without a thread",
    "of a thread before a fork",
    "taken from its thread",
    "taken from its thread",
)


def value(text: str) -> gdb.Value:
    """The value of an expression; a file's own variables as 'file.c'::name."""
    try:
        return gdb.parse_and_eval(text)
    except gdb.error as error:
        raise gdb.GdbError(
            f"poolshim: {error}: no debugging information of libpoolshim.so"
        ) from None


class Layout:
    """Offsets of a structure's fields."""

    def __init__(self, name: str) -> None:
        try:
            kind = gdb.lookup_type(f"struct {name}")
        except gdb.error as error:
            raise gdb.GdbError(
                f"poolshim: {error}: no debugging information of libpoolshim.so"
            ) from None
        self.bytes = kind.sizeof
        self.fields = {
            field.name: (field.bitpos // 8, field.type.strip_typedefs().sizeof)
            for field in kind.fields()
            if field.name is not None and field.bitsize == 0
        }

    def get(self, data: bytes, name: str, base: int = 0) -> int:
        """The field of a structure at `base` in its bytes."""
        at, size = self.fields[name]
        return int.from_bytes(data[base + at : base + at + size], "little")


def read(address: int, size: int) -> bytes:
    """Memory of the process."""
    return bytes(gdb.selected_inferior().read_memory(address & MASK, size))


def word(address: int) -> int:
    """Eight bytes."""
    return int(struct.unpack("<Q", read(address, 8))[0])


class Slot:
    """What describes a granule."""

    def __init__(self, heap: Heap, address: int) -> None:
        self.address = heap.slot_address(address)
        self.data = read(self.address, 128)
        self.run_at = heap.span.fields["run"][0]
        self.kind = KINDS[heap.run.get(self.data, "kind", self.run_at)]
        self.base = heap.run.get(self.data, "base", self.run_at)
        self.granules = heap.run.get(self.data, "granules", self.run_at)
        self.back = heap.run.get(self.data, "back", self.run_at)
        self.heap = heap

    def span(self, name: str) -> int:
        """A field of a span."""
        return self.heap.span.get(self.data, name)


class Heap:
    """The library's tables in the selected process or core file."""

    def __init__(self) -> None:
        self.span, self.run, self.of_thread = (
            Layout(name) for name in ("ps_span", "ps_run", "ps_heap")
        )
        self.words = Layout("ps_thread_words")
        window = value("ps_window")
        self.end, self.reach, self.slots_end = (
            int(window[name]) & MASK for name in ("x_end", "x_reach", "x_slots_end")
        )
        self.root, self.zero_branch, self.zero_leaf = (
            int(value(f"&ps_page_map.{name}"))
            for name in ("x_root", "zero_branch", "zero_leaf")
        )

    def slot_address(self, address: int) -> int:
        """The address of a slot, as ps_page_map_slot finds it."""
        distance = (address - self.end) & MASK
        index = ((distance - (1 << 64) if distance >> 63 else distance) >> GRANULE_SHIFT) & MASK
        if index >= self.reach:
            return (self.slots_end + (index << 7)) & MASK
        branch = self.zero_branch + word(self.root + (address >> 32 & 0xFFFF) * 8)
        leaf = word(branch + ((address & 0xFFFFFFFF) >> 25) * 8)
        return (self.zero_leaf + leaf + (address >> 9 & 511 << 7)) & MASK

    def arenas(self) -> Iterator[tuple[int, int, int]]:
        """Base, accessible granules, reserved granules after them."""
        for index in range(int(value("ps_page_arena_x_count"))):
            arena = value(f"ps_page_arenas[{index}]")
            yield int(arena["base"]), int(arena["granules"]), int(arena["rest_granules"])

    def runs(self) -> Iterator[Slot]:
        """The runs of all arenas, without their inner slots."""
        for base, granules, _ in self.arenas():
            address, end = base, base + (granules << GRANULE_SHIFT)
            while address < end:
                slot = Slot(self, address)
                is_head = slot.kind not in ("none", "inside") and slot.back == 0
                if is_head or slot.kind == "medium":
                    yield slot
                length = slot.granules if is_head and slot.kind != "medium" else 1
                address += max(length, 1) << GRANULE_SHIFT

    def mapping(self, address: int) -> Slot | None:
        """The mapping of one block that an address is in: its first granule alone names it."""
        zeroes = range(self.zero_leaf, self.zero_leaf + LEAF_BYTES)
        at = address & ~(GRANULE - 1)
        for _ in range(MAPPING_GRANULES):
            slot = Slot(self, at)
            if slot.kind != "none":
                end = slot.base + (slot.granules << GRANULE_SHIFT)
                return slot if slot.kind == "mapping" and slot.base <= address < end else None
            if at < LEAF:
                break
            at = (at & ~(LEAF - 1)) - GRANULE if slot.address in zeroes else at - GRANULE
        return None

    def heaps(self) -> Iterator[tuple[int, bytes]]:
        """Address and contents of each thread's heap."""
        at = int(value("ps_registry_x_heaps"))
        while at != 0:
            data = read(at, self.of_thread.bytes)
            yield at, data
            at = self.of_thread.get(data, "next_heap")

    def live_blocks(self, slot: Slot) -> int:
        """Live blocks of a span, counted as in the census: with other threads' prepared blocks."""
        out = slot.span("used") + slot.span("free_countdown") + slot.span("popped")
        remote = slot.span("x_remote")
        back = slot.span("countdown_start") + remote_blocks(remote)
        return max(out - back, 0) if not remote >> 57 & 3 else 0


def remote_blocks(remote: int) -> int:
    """Blocks that other threads have returned to a span; as ps_span_remote_blocks."""
    return (remote >> 14 & 0x3FFF) + (remote >> 42 & 0x3FFF)


def thread_at(pointer: int) -> str:
    """The thread whose thread pointer that is."""
    register = {"aarch64": "$tpidr"}.get(gdb.selected_inferior().architecture().name(), "$fs_base")
    selected, found = gdb.selected_thread(), ""
    for thread in gdb.selected_inferior().threads():
        try:
            thread.switch()
            if int(gdb.parse_and_eval(register)) & MASK == pointer:
                found = f"thread {thread.num} (LWP {thread.ptid[1] or thread.ptid[0]})"
        except gdb.error:
            continue
    if selected is not None:
        selected.switch()
    return found or f"a thread at {pointer:#x}"


def owner_of(heap: Heap, key: int) -> str:
    """The owner of a span in words, by its key."""
    at = key & ~KEY_MASK
    if at < KEY_HEAP_LEAST:
        return "an orphan: its thread has ended, or its heap has enough" if (
            key == KEY_ORPHAN) else "no thread's"  # fmt: skip
    at &= (1 << 63) - 1
    data = read(at, heap.of_thread.bytes)
    state = heap.of_thread.get(data, "x_state")
    if state == 0:
        return f"of {thread_at(heap.of_thread.get(data, 'x_thread_pointer'))}, heap {at:#x}"
    return f"{HEAP_STATES[state]}, heap {at:#x}"


def in_gap(heap: Heap, slot: Slot, index: int) -> bool:
    """Is the block in a range of free ones?"""
    block_bytes, at = slot.span("block_bytes"), slot.span("gap_head")
    for _ in range(slot.span("limit")):
        if at == 0:
            break
        following, blocks = struct.unpack("<HH", read(slot.base + (at - 1) * block_bytes, 4))
        if at - 1 <= index < at - 1 + blocks:
            return True
        at = following
    return False


def in_streak(heap: Heap, slot: Slot, block: int) -> bool:
    """Is it in an open free streak?"""
    for _, data in heap.heaps():
        words_at = heap.of_thread.get(data, "x_thread")
        if heap.of_thread.get(data, "streak_span") != slot.address or words_at == 0:
            continue
        words = read(words_at, heap.words.bytes)
        step = heap.words.get(words, "streak_step")
        step -= step >> 63 << 64
        first = heap.of_thread.get(data, "streak_first")
        following = heap.words.get(words, "streak_next")
        if step and 0 <= (block - first) // step < (following - first) // step:
            return True
    return False


def state_of(heap: Heap, slot: Slot, index: int) -> str:
    """The state of a block in a span."""
    block = slot.base + index * slot.span("block_bytes")
    if index < slot.span("first") or index >= slot.span("limit"):
        return "no block"
    if index >= slot.span("carved"):
        return "free (fresh)"
    for _, data in heap.heaps():
        at = heap.of_thread.fields["bins"][0] + slot.span("class_index") * 32
        first, end = struct.unpack("<QQ", data[at + 8 : at + 24])
        if first <= block < end:
            return "free (fresh, in a window)"
    link = word(block) ^ slot.span("salt")
    if link ^ block < GRANULE or in_gap(heap, slot, index) or in_streak(heap, slot, block):
        return "free"
    return "live"


def describe_span(heap: Heap, slot: Slot, address: int) -> list[str]:
    """A small block."""
    size = slot.span("block_bytes")
    index = (address - slot.base) // size
    block = slot.base + index * size
    lines = [f"{state_of(heap, slot, index)} small block {block:#x}, {size} bytes"
             + (f", {address - block} bytes inside" if address != block else "")]  # fmt: skip
    live, capacity = heap.live_blocks(slot), slot.span("limit") - slot.span("first")
    lines.append(f"span {slot.base:#x}, {slot.granules * 64} KiB, {live} of {capacity} blocks live,"
                 f" {owner_of(heap, slot.span('x_owner'))}")  # fmt: skip
    return lines


def describe_medium(heap: Heap, slot: Slot, address: int) -> list[str]:
    """A block of a medium region: the mark of the page where it starts has its length."""
    region = (address & ~(GRANULE - 1)) - (slot.back << GRANULE_SHIFT)
    page = (address - region) >> PAGE_SHIFT
    for start in range(page, max(page - 127, 0) - 1, -1):
        at = region + (start << PAGE_SHIFT)
        mark = read(heap.slot_address(at) + 8 + (start & 15), 1)[0]
        if mark == 0x80:  # sampled: the table has its length
            return [f"sampled block {at:#x}"] + ([f"{address - at} bytes inside"] if (
                address != at) else [])  # fmt: skip
        if mark != 0:
            pages = mark & 0x7F
            if page >= start + pages:
                break
            state = "free (kept by a thread)" if mark & 0x80 else "live"
            inside = f", {address - at} bytes inside" if address != at else ""
            return [f"{state} medium block {at:#x}, {pages << PAGE_SHIFT} bytes{inside}"]
    return ["free pages of a medium region"]


OTHER_USES = {
    "pages": "pages of a pool of the program",
    "guard": "the pool of guarded samples",
    "zero": "a block of size 0",
    "busy": "memory between two uses",
}


def describe(heap: Heap, address: int) -> list[str]:
    """What an address is in."""
    slot = Slot(heap, address)
    if slot.kind == "inside":
        slot = Slot(heap, (address & ~(GRANULE - 1)) - (slot.back << GRANULE_SHIFT))
    if slot.kind == "span":
        return describe_span(heap, slot, address)
    if slot.kind == "medium":
        return describe_medium(heap, slot, address)
    if slot.kind in ("pages", "guard", "zero", "busy"):
        return [OTHER_USES[slot.kind]]
    for run in heap.runs() if slot.kind in ("none", "free") else iter([slot]):
        end = run.base + (run.granules << GRANULE_SHIFT)
        if run.kind in ("block", "mapping", "free") and run.base <= address < end:
            return [describe_run(run, address)]
    mapping = heap.mapping(address)
    return [describe_run(mapping, address) if mapping is not None else "not of the heap"]


def describe_run(run: Slot, address: int) -> str:
    """A large block, or free pages."""
    if run.kind == "free":
        return f"free run {run.base:#x}, {run.granules * 64} KiB"
    size = int.from_bytes(run.data[8:16], "little")
    inside = f", {address - run.base} bytes inside" if address != run.base else ""
    what = "in a mapping of its own" if run.kind == "mapping" else "a run"
    return f"live large block {run.base:#x}, {size} bytes, {what}{inside}"


def sample_at(address: int) -> gdb.Value | None:
    """The live sample whose block has the address."""
    samples = value("'table.c'::samples")
    if int(samples) == 0:
        return None
    for index in range(int(value("ps_table_memory.bucket_count"))):
        sample = samples[index]
        while int(sample) != 0:
            if int(sample["block"]) <= address < int(sample["block"]) + int(sample["bytes"]):
                return sample
            sample = sample["chain"]
    return None


def describe_sample(address: int) -> list[str]:
    """Where a sampled block was allocated."""
    sample = sample_at(address)
    if sample is None:
        return []
    stack = sample["stack"]
    block, size = int(sample["block"]), int(sample["bytes"])
    lines = [f"sampled: block {block:#x}, {size} bytes, allocated at"]
    for index in range(int(stack["count"])):
        site = int(stack["sites"][index])
        symbol = gdb.execute(f"info symbol {site:#x}", to_string=True).strip()
        lines.append(f"  {site:#x} {symbol.split(' in section')[0]}")
    return lines if len(lines) > 1 else [lines[0].replace(", allocated at", ", without a stack")]


def mib(size: int) -> str:
    """A size, for reading."""
    return f"{size / (1 << 20):,.1f} MiB"


NAMES = {
    "span": "spans of small blocks",
    "medium": "regions of medium blocks",
    "block": "large blocks",
    "free": "free runs",
    "pages": "pools of the program",
}


def summarise(heap: Heap) -> list[str]:
    """Totals, and a line for each class that has spans."""
    totals: dict[str, int] = {}
    classes: dict[int, list[int]] = {}
    for run in heap.runs():
        size = (1 if run.kind == "medium" else run.granules) << GRANULE_SHIFT
        totals[run.kind] = totals.get(run.kind, 0) + size
        if run.kind == "span":
            row = classes.setdefault(run.span("block_bytes"), [0, 0, 0])
            row[0] += 1
            row[1] += size
            row[2] += heap.live_blocks(run)
    arenas = list(heap.arenas())
    reserved = sum(granules + rest for _, granules, rest in arenas) << GRANULE_SHIFT
    heaps = [heap.of_thread.get(data, "x_state") for _, data in heap.heaps()]
    lines = [f"{len(arenas)} arenas, {mib(reserved)} reserved; {heaps.count(0)} heaps of threads, "
             f"{len(heaps)} made"]  # fmt: skip
    lines += [f"{mib(totals[kind]):>14} {NAMES[kind]}" for kind in NAMES if kind in totals]
    lines.append(f"{'block bytes':>12}{'spans':>9}{'span bytes':>16}{'live blocks':>14}")
    for size, (spans, span_bytes, live) in sorted(classes.items()):
        lines.append(f"{size:>12}{spans:>9}{span_bytes:>16,}{live:>14,}")
    return lines


class Command(gdb.Command):  # type: ignore[misc]
    """poolshim heap: totals of the heap, and its size classes.
    poolshim block ADDRESS: what the address is in: block, state, span, thread; and where it was
    allocated, if it was sampled (POOLSHIM_PROFILE)."""

    def __init__(self) -> None:
        super().__init__("poolshim", gdb.COMMAND_DATA)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """gdb calls it."""
        words = argument.split(None, 1)
        try:
            if words == ["heap"]:
                lines = summarise(Heap())
            elif len(words) == 2 and words[0] == "block":
                address = int(value(words[1])) & MASK
                lines = describe(Heap(), address) + describe_sample(address)
            else:
                raise gdb.GdbError("usage: poolshim heap, poolshim block ADDRESS")
        except gdb.MemoryError as error:
            raise gdb.GdbError(f"poolshim: {error}: is the heap in this core file?") from None
        gdb.write("\n".join(lines) + "\n")


class Printer:
    """A span, a heap or a run in a line, in place of its fields."""

    def __init__(self, found: Any) -> None:
        self.value = found

    def to_string(self) -> str:
        """gdb calls it."""
        name = str(self.value.type.strip_typedefs().tag)
        if name == "ps_span":
            base, size = int(self.value["run"]["base"]), int(self.value["block_bytes"])
            return f"span at {base:#x}, blocks of {size} bytes, used {int(self.value['used'])}"
        if name == "ps_run":
            base, length = int(self.value["base"]), int(self.value["granules"])
            return f"run at {base:#x}, {length} granules, {KINDS[int(self.value['kind'])]}"
        return f"heap {HEAP_STATES[int(self.value['x_state'])]}"


def printer_of(found: Any) -> Printer | None:
    """For gdb's list of printers."""
    kind = found.type.strip_typedefs()
    is_ours = kind.code == gdb.TYPE_CODE_STRUCT and kind.tag in ("ps_span", "ps_run", "ps_heap")
    return Printer(found) if is_ours else None


Command()
gdb.pretty_printers.append(printer_of)
