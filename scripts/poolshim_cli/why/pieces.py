# SPDX-License-Identifier: MIT
"""Reads a range of another process's memory in pieces: only pages that the process has touched.

    words, base, end = Pieces(memory, start, stop).piece(address)

A read of a page that was never touched would map the page of zeroes there, and pagemap would report
it as present from then on.
"""

from __future__ import annotations

import re

from ..live.memory import IS_TOUCHED, PAGE_BYTES, PRESENT, Memory, Unreadable

WINDOW_PAGES = 256  # of a piece at most
PIECES_MAX = 256  # in memory
WORD_BYTES = 8
TOUCHED = re.compile(rb"[\1\2]")
# 0: never touched, 1: in swap, 2: present.
STATES = bytes(2 if value & PRESENT else one for value, one in enumerate(IS_TOUCHED))


class Pieces:
    """One range of addresses. Call it within a reading of the memory."""

    def __init__(self, memory: Memory, start: int, stop: int) -> None:
        self.memory, self.start, self.stop = memory, start, stop
        count = (stop - start + PAGE_BYTES - 1) // PAGE_BYTES
        self.states = memory.pages(start, count, STATES)
        self.pieces: dict[int, memoryview] = {}

    def has(self, address: int) -> bool:
        """Whether the page of an address was touched."""
        page = (address - self.start) // PAGE_BYTES
        return 0 <= page < len(self.states) and self.states[page] != 0

    def next(self, address: int) -> int:
        """The first address from there on whose page was touched, or the end."""
        found = TOUCHED.search(self.states, max(0, (address - self.start) // PAGE_BYTES))
        return max(address, self.start + found.start() * PAGE_BYTES) if found else self.stop

    def resident(self, start: int, stop: int) -> int:
        """Bytes of the whole pages between two addresses that are in memory."""
        first = -(-(start - self.start) // PAGE_BYTES)
        last = (stop - self.start) // PAGE_BYTES
        return self.states.count(2, first, last) * PAGE_BYTES if last > first else 0

    def piece(self, address: int) -> tuple[memoryview, int, int]:
        """Words of 64 bits around an address, and the addresses where they begin and end."""
        page = (address - self.start) // PAGE_BYTES
        if not 0 <= page < len(self.states) or self.states[page] == 0:
            raise Unreadable(f"process {self.memory.pid}: there is no memory at {address:#x}")
        low = page - page % WINDOW_PAGES
        first = self.states.rfind(b"\0", low, page) + 1 or low
        last = self.states.find(b"\0", page, low + WINDOW_PAGES)
        last = min(low + WINDOW_PAGES, len(self.states)) if last < 0 else last
        base, end = self.start + first * PAGE_BYTES, self.start + last * PAGE_BYTES
        words = self.pieces.get(base)
        if words is None:
            self.memory.check()
            if len(self.pieces) >= PIECES_MAX:
                self.pieces.clear()
            words = memoryview(self.memory.read(base, end - base)).cast("Q")
            self.pieces[base] = words
        return words, base, end

    def word(self, address: int) -> int:
        """One word."""
        words, base, _ = self.piece(address)
        return words[(address - base) // WORD_BYTES]

    def whole(self) -> bytes:
        """All of it, zeroes where nothing was touched. For ranges of some MiB."""
        data, at = bytearray(self.stop - self.start), self.start
        while (at := self.next(at)) < self.stop:
            words, base, end = self.piece(at)
            data[base - self.start : end - self.start] = words.cast("B")
            at = end
        return bytes(data[: self.stop - self.start])
