# SPDX-License-Identifier: MIT
"""`poolshim why` names the cause of each of many processes whose cause is known, on glibc's malloc
and on others; where it cannot know, it says so.

    scripts/test tests/cli/test_why.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from memory_cgroup import bytes_in, entering, inner_group, limited_group, remove_group
from planting import MIB, Plant, plant, planted, why  # noqa: F401

pytestmark = [pytest.mark.preload, pytest.mark.slow]

ID = f"{os.getpid() & 0xFFFFF:05x}3f2a9c4" + "5b" * 26
READY = "import sys, time\nprint(1, flush=True)\n"
PYTHON_LEAK = READY + """
kept = []
while True:
    kept.append([object()])
    if len(kept) % 500 == 0:
        time.sleep(0.02)
"""
PYTHON_FREED = """
import sys
kept = [[one] for one in range(400000)]
kept = kept[::100]
""" + READY + "sys.stdin.read()\n"
PYTHON_LIVE = "kept = [[one] for one in range(200000)]\n" + READY + "sys.stdin.read()\n"
NODE = """
const kept = [];
for (let i = 0; i < 400000; i++) kept.push({ i, text: 'x' + i });
console.log(1);
process.stdin.resume();
process.on('exit', () => kept.length);
"""
NODE_LEAK = """
const kept = [];
console.log(1);
setInterval(() => { for (let i = 0; i < 2000; i++) kept.push({ i, text: 'x' + i }); }, 20);
"""
RUBY = "$kept = (0..600_000).map { |i| 'abc' + i.to_s }\nputs 1\n$stdout.flush\n$stdin.read\n"

# Cause and amount -> what the verdict has to be, and of which part, by allocator.
TRUTHS = [
    ("glibc", ("leak",), "growth", "live"),
    ("jemalloc", ("leak",), "growth", "heap"),
    ("poolshim", ("leak",), "growth", "live"),
    ("glibc", ("mappings",), "growth", "mappings"),
    ("poolshim", ("mappings",), "growth", "mappings"),
    ("glibc", ("swing", "20"), "nothing", ""),
    ("glibc", ("live", "30"), "nothing", ""),
    ("glibc", ("large", "30"), "nothing", ""),
    ("glibc", ("tail", "40"), "retained", "retained"),
    ("jemalloc", ("tail", "40"), "unknown", "heap"),
    ("poolshim", ("tail", "40"), "retained", "retained"),
    ("glibc", ("small", "8"), "retained", "retained"),
    ("glibc", ("arenas", "40"), "retained", "retained"),
    ("glibc", ("stacks",), "stacks", "stacks"),
    ("jemalloc", ("stacks",), "stacks", "stacks"),
    ("poolshim", ("stacks",), "stacks", "stacks"),
    ("glibc", ("fork", "20"), "fork", "fork"),
    ("jemalloc", ("fork", "20"), "fork", "fork"),
    ("poolshim", ("fork", "20"), "fork", "fork"),
    ("glibc", ("shared", "40"), "shared", "shared"),
    ("jemalloc", ("shared", "40"), "shared", "shared"),
]  # fmt: skip


def cause_of(found: dict[str, Any]) -> tuple[str, str]:
    """The verdict."""
    return found["verdict"]["cause"], found["verdict"]["part"]


@pytest.mark.parametrize("allocator, words, cause, part", TRUTHS)
def test_the_cause_is_named(
    plant: Plant, allocator: str, words: tuple[str, ...], cause: str, part: str  # noqa: F811
) -> None:
    found = why(plant(*words, allocator=allocator))
    assert cause_of(found) == (cause, part), found
    assert found["allocator"] == allocator
    assert found["verdict"]["next"]
    assert found["outlook"].startswith("it grows by") == (cause == "growth"), found["outlook"]


@pytest.mark.thp
@pytest.mark.parametrize("allocator", ["glibc", "jemalloc", "poolshim"])
def test_huge_pages_of_its_own_are_named(plant: Plant, allocator: str) -> None:  # noqa: F811
    found = why(plant("huge", "64", allocator=allocator))
    assert cause_of(found) == ("huge", "huge"), found
    assert found["verdict"]["bytes"] > 60 * MIB


@pytest.mark.parametrize("program, settings, cause, part", [
    (PYTHON_LEAK, {}, "growth", "python"),
    (PYTHON_FREED, {}, "retained", "python_free"),
    (PYTHON_LIVE, {}, "nothing", ""),
    (PYTHON_LEAK, {"PYTHONMALLOC": "malloc", "allocator": "poolshim"}, "growth", "live"),
    (PYTHON_LEAK, {"allocator": "jemalloc"}, "growth", "python"),
    (PYTHON_FREED, {"allocator": "jemalloc"}, "retained", "python_free"),
])  # fmt: skip
def test_a_python_program(
    plant: Plant, program: str, settings: dict[str, str], cause: str, part: str  # noqa: F811
) -> None:
    found = why(plant(command=[sys.executable, "-S", "-c", program], **settings))
    assert cause_of(found) == (cause, part), found


@pytest.mark.parametrize("command, cause, runtime", [
    (["node", "-e", NODE], "runtime", "V8"), (["node", "-e", NODE_LEAK], "growth", "V8"),
    (["ruby", "-e", RUBY], "runtime", "Ruby"),
])  # fmt: skip
def test_the_heap_of_a_runtime(
    plant: Plant, command: list[str], cause: str, runtime: str  # noqa: F811
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    found = why(plant(command=command), seconds="6")
    assert cause_of(found) == (cause, "runtime"), found
    assert found["runtime"] == runtime


# ---- control groups ----


@pytest.mark.root
@pytest.mark.parametrize("by", ["process", "container"])
@pytest.mark.parametrize("folder, cause", [("", "page-cache"), ("/dev/shm", "shared")])
def test_files_of_the_group(
    plant: Plant, tmp_path: Path, by: str, folder: str, cause: str  # noqa: F811
) -> None:
    path = Path(folder or tmp_path) / f"poolshim-why-{os.getpid()}"
    with limited_group(300 * MIB, "-why") as group:
        try:
            pid = plant("file", str(path), preexec_fn=entering(group))
            if not folder and bytes_in(group, "shmem") > 40 * MIB:
                end(pid)
                pytest.skip("the folder for temporary files is in memory")
            found = why(pid if by == "process" else group.name)
            assert cause_of(found) == (cause, cause), found
            assert 40 * MIB < found["verdict"]["bytes"] < 56 * MIB
            end(pid)
        finally:
            path.unlink(missing_ok=True)


@pytest.mark.root
@pytest.mark.parametrize("allocator", ["glibc", "jemalloc", "poolshim"])
def test_a_limit_that_the_live_set_fills(plant: Plant, allocator: str) -> None:  # noqa: F811
    with limited_group(64 * MIB, "-why") as group:
        pid = plant("live", "58", allocator=allocator, preexec_fn=entering(group))
        found = why(pid)
        assert cause_of(found) == ("limit", "limit"), found
        assert found["group"]["limits"][0]["bytes"] == 64 * MIB
        end(pid)


@pytest.mark.root
@pytest.mark.parametrize("word", ["{id:.12}", "container:{id:.5}", "--container={id}", "{host}"])
def test_a_container_by_its_id_and_by_its_host_name(plant: Plant, word: str) -> None:  # noqa: F811
    """Its names are those of this worker: others run the same test."""
    host = f"why-pod-{os.getpid()}"
    word = word.format(id=ID, host=host)
    with limited_group(100 * MIB, "-why") as outer:
        group = inner_group(outer, f"cri-containerd-{ID}.scope")
        try:
            small = plant("live", "4", preexec_fn=entering(group), HOSTNAME=host)
            large = plant("live", "30", preexec_fn=entering(group), HOSTNAME=host)
            found = why(word, seconds="1")
            assert found["is_container"] and found["pid"] == large
            assert {one["pid"] for one in found["processes"]} == {small, large}
            assert found["group"]["path"].endswith(group.name)
            assert cause_of(found) == ("nothing", "")
            end(small)
            end(large)
        finally:
            remove_group(group)


@pytest.mark.root
def test_when_a_limit_is_reached(plant: Plant) -> None:  # noqa: F811
    with limited_group(200 * MIB, "-why") as group:
        pid = plant("leak", preexec_fn=entering(group))
        found = why(pid)
        assert cause_of(found) == ("growth", "live")
        assert "the limit of 200.0 MiB is reached in" in found["outlook"], found["outlook"]
        end(pid)


def end(pid: int) -> None:
    """Before its group is removed."""
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


# ---- glibc's own figures ----


@pytest.mark.parametrize("flags", [[], ["-static"]])
@pytest.mark.parametrize("block_bytes", ["40", "1000", "20000"])
def test_chunks_add_up_to_what_malloc_says(
    plant: Plant, tmp_path: Path, flags: list[str], block_bytes: str  # noqa: F811
) -> None:
    """mallinfo2, before the process rests: taken from the system, free, of it in fastbins."""
    from planting import SOURCE
    from programs import compile_program

    program = compile_program(tmp_path, "account", SOURCE.read_text(), "-pthread", *flags)
    pid = plant(command=[program, "account", "8", block_bytes])
    output = plant.output  # type: ignore[attr-defined]
    system, free, fast = map(int, output.readline().split())
    found = why(pid, seconds="1")["glibc"]
    assert found["system_bytes"] == system
    assert found["fastbin_bytes"] == fast
    assert found["free_bytes"] - found["tcache_bytes"] == free
    assert found["returnable_bytes"] <= found["free_bytes"]


def test_what_could_return_is_what_trim_returns(plant: Plant) -> None:  # noqa: F811
    """In a process that then calls malloc_trim itself."""
    program = (READY.replace("print", "kept = ['x' * (1000 + one % 3) for one in range(40000)]\n"
               "kept = kept[::40]\nimport ctypes\nprint")
               + "sys.stdin.readline()\nctypes.CDLL(None).malloc_trim(0)\n"
               "print(2, flush=True)\nsys.stdin.readline()\n")  # fmt: skip
    process = subprocess.Popen([sys.executable, "-S", "-c", program], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "1\n"
        before = why(process.pid, seconds="1")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "2\n"
        after = why(process.pid, seconds="1")
    finally:
        process.kill()
        process.communicate()
    released = before["resident_bytes"] - after["resident_bytes"]
    promised = before["glibc"]["returnable_bytes"]
    assert promised > 20 * MIB
    assert abs(released - promised) < 0.05 * promised
