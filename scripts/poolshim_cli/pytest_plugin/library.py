# SPDX-License-Identifier: MIT
"""The library in this process, by ctypes: pools/include/poolshim/poolshim.h.

    heap = library.find(); heap.begin_peak(); heap.peak_bytes()
"""

from __future__ import annotations

import ctypes

PEAK_WORD = 24  # of struct poolshim_stats
NOTICE_BYTES = 1 << 20  # a block of so much takes a slow path


class Heap:
    """The heap of this process."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self.functions = functions
        self.words = (ctypes.c_uint64 * (PEAK_WORD + 1))()

    def begin_peak(self) -> bool:
        """Begins a period. False where allocations are not sampled."""
        return bool(self.functions.poolshim_peak_begin() == 0)

    def peak_bytes(self) -> int:
        """The peak of blocks that were allocated in the period."""
        self.functions.poolshim_stats_read(self.words, ctypes.sizeof(self.words))
        return self.words[PEAK_WORD]

    def set_interval(self, nbytes: int) -> None:
        """Of later samples. This thread notices it at its next large block, which is here."""
        self.functions.poolshim_set(b"PROFILE_INTERVAL", str(nbytes).encode())
        bytearray(NOTICE_BYTES)


def find() -> Heap | None:
    """None: it is not loaded, or older than this."""
    functions = ctypes.CDLL(None)
    return Heap(functions) if hasattr(functions, "poolshim_peak_begin") else None
