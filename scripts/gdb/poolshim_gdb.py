# SPDX-License-Identifier: MIT
"""gdb's command `poolshim`, for processes and core files: heap totals, and what an address is in.

    (gdb) source poolshim_gdb.py
    (gdb) poolshim heap
    (gdb) poolshim block ADDRESS

Reads memory by the description that libpoolshim.so exports (pools/engine/record/layout.h). Calls
nothing in the process. docs/gdb.md is the manual.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gdb

HERE = Path(__file__).resolve()
# Installed in <prefix>/share/gdb/auto-load/<path of the library>; else in scripts/ of the sources.
FOLDERS = [folder.parents[2] / "lib" / "poolshim" / "python" for folder in HERE.parents
           if folder.name == "auto-load"] or [HERE.parents[1]]  # fmt: skip
sys.path.insert(0, str(FOLDERS[-1]))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.errors import GIVING_UP, Failed  # noqa: E402
from poolshim_cli.live.blocks import Blocks  # noqa: E402
from poolshim_cli.live.census import Census, Reader  # noqa: E402
from poolshim_cli.live.layout import find  # noqa: E402
from poolshim_cli.live.memory import Memory  # noqa: E402

MASK = (1 << 64) - 1  # makes an address of gdb's signed numbers


class Selected(Memory):
    """Reads the memory of the selected process or core file."""

    def __init__(self) -> None:
        super().__init__(gdb.selected_inferior().pid)

    def fetch(self, address: int, count: int) -> bytes:
        """Reads by gdb; BadAddress where a core file has no memory."""
        try:
            return bytes(gdb.selected_inferior().read_memory(address, count))
        except gdb.error:
            raise control.BadAddress(f"nothing at {address:#x}") from None

    def find_symbol(self, symbol: str) -> control.Place:
        """Finds an exported symbol, without debugging information."""
        try:
            address = int(gdb.parse_and_eval(f"(unsigned long)&{symbol}"))
        except gdb.error:
            raise Failed(f"no {control.LIBRARY} here, or one older than this command") from None
        return control.Place(address, gdb.solib_name(address) or "", 0)

    def pages(self, address: int, count: int, table: bytes) -> bytes:
        """Calls all pages touched: a core file does not list the touched ones."""
        return b"\1" * count

    def allow_bytes(self) -> None:
        """Sets no limit on the bytes of a reading."""


class Named(Blocks):
    """Names functions as gdb does."""

    def site_name(self, site: int) -> str:
        """The symbol of an address."""
        return gdb.execute(f"info symbol {site:#x}", to_string=True).split(" in section")[0].strip()


def summarise(census: Census) -> list[str]:
    """Totals, and a line for each class that has slabs."""
    totals = {
        "slabs of small blocks": census.small_slab_bytes,
        "regions of medium blocks": census.region_bytes,
        "large blocks": sum(nbytes for _, nbytes in census.arena_blocks),
        "free runs": census.run_free_bytes,
        "pools of the program": census.pages_bytes,
    }
    return [
        f"{census.arena_count} arenas, {census.arena_bytes / 2**20:,.1f} MiB reserved; "
        f"{len(census.fronts)} fronts",
        *(f"{nbytes / 2**20:>10,.1f} MiB {name}" for name, nbytes in totals.items() if nbytes),
        f"{'block bytes':>12}{'slabs':>9}{'slab bytes':>16}{'live blocks':>14}",
        *(f"{one.block_bytes:>12}{one.slabs:>9}{one.slab_bytes:>16,}{one.live_blocks:>14,}"
          for one in census.classes if one.slabs),
    ]  # fmt: skip


class Command(gdb.Command):  # type: ignore[misc]
    """poolshim heap: totals of the heap, and its size classes.
    poolshim block ADDRESS: what the address is in: block, state, slab; and where it was
    allocated, if it was sampled (POOLSHIM_PROFILE)."""

    def invoke(self, argument: str, from_tty: bool) -> None:
        """gdb calls it."""
        words = argument.split(None, 1)
        if words != ["heap"] and (len(words) != 2 or words[0] != "block"):
            raise gdb.GdbError("usage: poolshim heap, poolshim block ADDRESS")
        try:
            if words == ["heap"]:
                lines = summarise(Reader(Selected()).census())
            else:
                address = int(gdb.parse_and_eval(words[1])) & MASK
                lines = Named(Reader(Selected())).describe(address)
        except (*GIVING_UP, gdb.error) as error:
            raise gdb.GdbError(f"poolshim: {error}") from None
        gdb.write("\n".join(lines) + "\n")


def named(prefix: str, found: gdb.Value) -> str:
    """The name of a run's kind."""
    return find(Selected()).name_of(prefix, int(found))


LINES = {
    "ps_slab": lambda found: f"slab at {int(found['run']['base']):#x}, class "
                             f"{int(found['class_index'])}, "
                             f"{int(found['x_free_count'])} blocks free",
    "ps_run": lambda found: f"run at {int(found['base']):#x}, {int(found['granules'])} granules, "
                            f"{named('kind', found['kind'])}",
}  # fmt: skip


class Printer:
    """Prints a structure in a line, where there is debugging information."""

    def __init__(self, found: gdb.Value) -> None:
        self.to_string = lambda: LINES[found.type.strip_typedefs().tag](found)


Command("poolshim", gdb.COMMAND_DATA)
gdb.pretty_printers.append(lambda found: (
    Printer(found) if getattr(found.type.strip_typedefs(), "tag", None) in LINES else None))
