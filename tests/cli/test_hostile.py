# SPDX-License-Identifier: MIT
"""Memory that a process has arranged against stats, top and exporter.

    scripts/test tests/cli/test_hostile.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from programs import compile_program
from running import POOLSHIM, SILENT, Start, complaint, program, spawn, start
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.foreign import patience  # noqa: E402
from poolshim_cli.live import layout, processes  # noqa: E402
from poolshim_cli.live.memory import Memory  # noqa: E402

__all__ = ["program", "spawn", "start"]

# Maps a page whose faults are never served, on which the kernel blocks, and prints its address.
# "2": this system does not let it.
STUCK = r"""
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    struct uffdio_api api = {.api = UFFD_API};
    void *page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)page, 1 << 20},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    long fd = syscall(SYS_userfaultfd, 0);
    int is_stuck = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 &&
                   ioctl(fd, UFFDIO_REGISTER, &range) == 0;
    char line[64], c;
    write(1, line, snprintf(line, sizeof line, "1\n%s %p\n", is_stuck ? "1" : "2", page));
    read(0, &c, 1);
    return 0;
}
"""


def change(pid: int, address: int, value: int, count: int = 8) -> None:
    """A word; of read-only memory too, which the process itself can make writable."""
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as file:
        file.seek(address)
        file.write(value.to_bytes(count, "little"))


def make_circle(pid: int) -> None:
    """Makes the process's list of windows circular."""
    with Memory(pid) as memory:
        found = layout.find(memory)
        windows = memory.number(found.place("windows"))
    change(pid, windows + found.offset("windows.next"), windows)


def change_place(pid: int, place: str, field: str, value: int) -> None:
    """A variable, or a field of one."""
    with Memory(pid) as memory:
        found = layout.find(memory)
    change(pid, found.place(place) + (found.offset(field) if field else 0), value)


def change_number(pid: int, name: str, value: int) -> None:
    """What the layout says of a field or a constant."""
    place = control.find_symbol(pid, layout.SYMBOL).address
    head = layout.HEADER.unpack(control.read(pid, place, layout.HEADER.size))
    data = control.read(pid, head[5], head[4] * layout.NUMBER.size)
    names = [layout.text_of(one[0]) for one in layout.NUMBER.iter_unpack(data)]
    change(pid, head[5] + names.index(name) * layout.NUMBER.size + 32, value)


@pytest.mark.preload
@each_row(
    ("place", "field", "value", "line"),
    [
        ("arena_count", "", 1 << 35, "34359738368 arenas are no table"),
        ("window", "window.reach", 1 << 63, ""),  # cut to what a window may have
        ("window", "window.slots_end", 5, "there is no memory at"),
        ("window", "window.end", (1 << 64) - 1, ""),
        ("table", "table.used_end", 1 << 62, ""),
        ("classes", "", 1 << 63, ""),
    ],
)
def test_words_of_its_own_choice(
    spawn: Start, program: Path, place: str, field: str, value: int, line: str
) -> None:
    """One line, or figures: nothing else, and soon."""
    process = spawn([program, "known"])
    change_place(process.pid, place, field, value)
    done = run_captured([POOLSHIM, "stats", str(process.pid)], timeout=120)
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done
    if done.returncode:
        assert line in complaint(done, "stats", 1)


@pytest.mark.preload
@each_row(
    ("name", "value"),
    [("granule.shift", 60), ("slot.shift", 0), ("leaf.shift", 3), ("arena", 0), ("arena", 1 << 40),
     ("windows.next", 1 << 62), ("class", (1 << 64) - 1)],
)  # fmt: skip
def test_a_layout_of_its_own_choice(start: Start, name: str, value: int) -> None:
    process = start(SILENT)
    change_number(process.pid, name, value)
    done = run_captured([POOLSHIM, "stats", str(process.pid)], timeout=120)
    assert "its memory contradicts itself" in complaint(done, "stats", 1)


@pytest.mark.preload
def test_its_words_have_no_control_characters(start: Start) -> None:
    process = start(SILENT)
    with Memory(process.pid) as memory:
        found = layout.find(memory)
        source = memory.number(found.place("limit_source"))
        assert memory.text(source) == "none"
        change(process.pid, source, int.from_bytes(b"\033[2J", "little"), 4)
        assert memory.text(source) == "?[2J"


@pytest.mark.preload
def test_windows_in_a_circle_leave_the_others_their_figures(start: Start) -> None:
    hostile, other = start(SILENT), start(SILENT)
    make_circle(hostile.pid)
    done = run_captured([POOLSHIM, "stats", str(hostile.pid)])
    assert "its list of windows has no end" in complaint(done, "stats", 1)
    watch = processes.Watch([hostile.pid, other.pid])
    assert [row.pid for row in watch.read()] == [other.pid]
    assert "its list of windows has no end" in watch.refused[hostile.pid]


@pytest.fixture
def stuck(spawn: Start, tmp_path: Path) -> subprocess.Popen[str]:
    """A process of which a read never ends."""
    path = compile_program(tmp_path, "stuck", STUCK, "-Wno-unused-result")
    process = spawn([path])
    assert process.stdout is not None
    answer, address = process.stdout.readline().split()
    if answer != "1":
        pytest.skip("this user may not block the kernel")
    change_place(process.pid, "windows", "", int(address, 16))
    return process


@pytest.mark.preload
@pytest.mark.root
def test_memory_that_blocks_its_reader_leaves_the_others_their_figures(
    start: Start, stuck: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "ONE_SECONDS", 5.0)
    other = start(SILENT)
    watch = processes.Watch([stuck.pid, other.pid])
    assert [row.pid for row in watch.read()] == [other.pid] and stuck.pid in watch.refused
    assert watch.aside.has(stuck.pid) and watch.aside.delays[os.geteuid()] == 1
    watch.aside.late[stuck.pid].until_s = 0  # nor later, while a thread is blocked by it
    assert watch.aside.has(stuck.pid)
    assert [row.pid for row in watch.read()] == [other.pid] and not watch.refused
    stuck.kill()
    stuck.wait()
    for thread in patience.left_behind:
        thread.join()
    assert patience.has_room() and patience.left_behind == []
    assert not watch.aside.has_any()


@pytest.mark.preload
@pytest.mark.root
def test_memory_that_blocks_its_only_reader_ends_it(stuck: subprocess.Popen[str]) -> None:
    script = (
        "import sys; from poolshim_cli import __main__; from poolshim_cli.foreign import patience\n"
        "patience.BLOCKED_SECONDS = 0.5; sys.exit(__main__.attempt(['stats', sys.argv[1]]))"
    )
    done = run_captured([sys.executable, "-c", script, str(stuck.pid)], cwd=ROOT / "scripts")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"poolshim: process {stuck.pid}: reading it is blocked: it waits for "
                           "memory that its owner does not deliver\n")  # fmt: skip


def test_requests_share_a_reading_and_hold_no_lock_meanwhile() -> None:
    from poolshim_cli.exporter import metrics
    begun, may_end, count = threading.Event(), threading.Event(), []

    class Slow:
        def read(self) -> list[Any]:
            count.append(1)
            begun.set()
            may_end.wait()
            return []

    collector = metrics.Collector(Slow())
    threads = [threading.Thread(target=collector.rows) for _ in range(2)]
    threads[0].start()
    begun.wait()
    with collector.lock:  # not that of the reading
        assert collector.reading is not None
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join()
    assert collector.reading is None and len(count) in (1, 2)
