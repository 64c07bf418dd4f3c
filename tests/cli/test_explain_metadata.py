# SPDX-License-Identifier: MIT
"""The library's own memory in a reading of `poolshim explain`: what `poolshim top` has of the same
process: fronts, or heaps with the caches at their ends, included.

    scripts/test tests/cli/test_explain_metadata.py
"""

from __future__ import annotations

import os
import signal
import sys

import pytest
from conftest import ROOT
from running import Start, spawn, start  # noqa: F401

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.explain.heap import Heap  # noqa: E402
from poolshim_cli.live.census import Census, Reader  # noqa: E402
from poolshim_cli.live.memory import PAGE_BYTES, Memory  # noqa: E402
from poolshim_cli.live.residence import Residence  # noqa: E402

pytestmark = pytest.mark.preload

THREADS = 8
# Each thread fills the caches of its heap, those of classes above 1 KiB and of medium blocks.
CACHES = f"""
import sys, threading
filled, stay = threading.Barrier({THREADS} + 1), threading.Event()
def work():
    for size in range(1100, 60000, 300):
        blocks = [bytes(size) for _ in range(6)]
        del blocks
    filled.wait()
    stay.wait()
threads = [threading.Thread(target=work, daemon=True) for _ in range({THREADS})]
for thread in threads:
    thread.start()
filled.wait()
print(1, flush=True)
sys.stdin.read(1)
"""


def readings(start: Start, **settings: str) -> tuple[Heap, Memory, Census]:  # noqa: F811
    """Both of a stopped process, which have the same metadata."""
    process = start(CACHES, **settings)
    process.send_signal(signal.SIGSTOP)  # a thread may give memory back between two readings
    os.waitpid(process.pid, os.WUNTRACED)
    heap, memory = Heap(process.pid), Memory(process.pid)
    reader = Reader(memory)
    census = reader.census()
    counted = Residence(memory, reader, census).metadata()
    assert heap.read().metadata == pytest.approx(counted, abs=2 * PAGE_BYTES)
    return heap, memory, census


def test_fronts_windows_and_bitmaps_are_metadata(start: Start) -> None:  # noqa: F811
    heap, memory, census = readings(start)
    assert 1 <= len(census.fronts) <= THREADS + 1
    for front, nbytes in census.fronts:
        assert memory.resident(front, nbytes // PAGE_BYTES).count(1) > 0
    windows = {record // PAGE_BYTES for record, _ in heap.fronts.windows()}
    assert windows and windows <= census.metadata_pages
    assert heap.bitmaps == census.metadata_pages, "of slabs of small blocks, too"
