# SPDX-License-Identifier: MIT
"""scripts/gdb/poolshim_gdb.py: gdb's command `poolshim`, on processes and core files of programs
whose variables name their blocks, with a library that is stripped.

    scripts/test tests/shim/test_gdb.py
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured

pytestmark = pytest.mark.preload

SCRIPT = ROOT / "scripts" / "gdb" / "poolshim_gdb.py"
PROGRAM = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void *small, *freed, *medium, *medium_freed, *large, *mapping, *others, *ordered, *many[1000];
static char of_program[64];
void *foreign = of_program;

__attribute__((noinline)) void *allocate_small(void) { return memset(malloc(100), 7, 100); }
void stop(void) {}

static void *work(void *gate) {
    others = memset(malloc(3000), 7, 3000);
    pthread_barrier_wait(gate);
    pthread_barrier_wait(gate);
    return NULL;
}

int main(void) {
    pthread_barrier_t gate;
    pthread_t thread;
    pthread_barrier_init(&gate, NULL, 2);
    pthread_create(&thread, NULL, work, &gate);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 1000; i++) {
        many[i] = memset(malloc(500), 7, 500);
    }
    for (int i = 100; i < 200; i++) { /* a free streak, or a gap */
        free(many[i]);
    }
    small = allocate_small();
    freed = malloc(100);
    free(freed);
    medium = memset(malloc(20000), 7, 20000);
    medium_freed = malloc(40000);
    free(medium_freed);
    large = memset(malloc(1 << 20), 7, 1 << 20);
    mapping = malloc((size_t)40 << 20);
    stop();
    pthread_barrier_wait(&gate);
    pthread_join(thread, NULL);
    return 0;
}
"""
# Fronts have the freed blocks.
THREADED = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

void *freed[40], *kept;
void stop(void) {}
static pthread_barrier_t gate;

static void *work(void *is_last) {
    for (int i = 0; i < 1000; i++) {
        free(memset(malloc(200), 7, 200));
    }
    if (is_last != NULL) {
        for (int i = 0; i < 40; i++) {
            freed[i] = memset(malloc(200), 7, 200);
        }
        kept = memset(malloc(200), 7, 200);
        for (int i = 0; i < 40; i++) {
            free(freed[i]);
        }
    }
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    return NULL;
}

int main(void) {
    int count = 2 * get_nprocs() + 4;
    pthread_t thread;
    pthread_barrier_init(&gate, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        pthread_create(&thread, NULL, work, i == count - 1 ? &gate : NULL);
    }
    pthread_barrier_wait(&gate);
    stop();
    return 0;
}
"""


def gdb(*words: str | Path) -> str:
    result = run_captured(["gdb", "-nx", "-batch", *words], timeout=200)
    if re.search("ptrace|not permitted", result.stderr):
        pytest.skip(f"tracing is not permitted here: {result.stderr[-200:]}")
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shim: Path) -> Path:
    """The program, a core file of it with the answers in the process, and a core file of a run that
    samples each block, with debugging information of the library."""
    for tool in ("gdb", "gcc", "strip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("gdb")
    (folder / "program.c").write_text(PROGRAM)
    command = ["gcc", "-g", "-O0", "-pthread", folder / "program.c", "-o", folder / "program"]
    assert run_captured(command).returncode == 0
    stripped = folder / shim.name
    assert run_captured(["strip", "-s", "-o", stripped, shim]).returncode == 0
    profile = f"POOLSHIM_PROFILE {folder}/p.pb.gz"
    for core, library, settings in (("core", stripped, ""), ("sampled", shim, profile)):
        env = ["-ex", f"set environment LD_PRELOAD {library}",
               "-ex", "set environment POOLSHIM_BACKGROUND 0"]  # fmt: skip
        if settings:
            env += ["-ex", f"set environment {settings}",
                    "-ex", "set environment POOLSHIM_PROFILE_INTERVAL 1"]  # fmt: skip
        text = gdb(*env, "-ex", "break stop", "-ex", "run", "-ex", f"source {SCRIPT}",
                   "-ex", "echo ----\\n", "-ex", "poolshim heap", "-ex", "poolshim block small",
                   "-ex", "echo ----\\n", "-ex", f"gcore {folder / core}", "-ex", "kill",
                   folder / "program")  # fmt: skip
        (folder / f"{core}.answers").write_text(text.split("----\n")[1])
        assert (folder / core).exists()
    return folder


def ask(folder: Path, *commands: str, core: str = "core") -> list[str]:
    """The answer to each command; a line between two answers."""
    words = ["-ex", f"source {SCRIPT}"]
    for command in commands:
        words += ["-ex", "echo ----\\n", "-ex", command]
    text = gdb(*words, folder / "program", folder / core)
    return [answer.strip() for answer in text.split("----\n")[1:]]


def test_blocks_are_named(folder: Path) -> None:
    questions = {
        "small": r"live small block 0x\w+, 112 bytes\nslab 0x\w+, 64 KiB, \d+ of 584 blocks live$",
        "(char *)small + 5": r"live small block 0x\w+, 112 bytes, 5 bytes inside\n",
        "freed": r"free \(in a front\) small block 0x\w+, 112 bytes\n",
        "freed + 112": r"free \(in a window\) small block 0x\w+, 112 bytes\n",
        "freed + 112 * 100": r"free \(fresh\) small block 0x\w+, 112 bytes\n",
        "many[3]": r"live small block 0x\w+, 512 bytes\n",
        "many[150]": r"free \(in a front\) small block 0x\w+, 512 bytes\n",
        "many[199]": r"free \(in a front\) small block 0x\w+, 512 bytes\n",
        "many[200]": r"live small block 0x\w+, 512 bytes\n",
        "others": r"live small block 0x\w+, 3072 bytes\nslab 0x\w+, \d+ KiB, 1 of \d+ blocks live$",
        "medium": r"live medium block 0x\w+, 20480 bytes$",
        "(char *)medium + 9000": r"live medium block 0x\w+, 20480 bytes, 9000 bytes inside$",
        "medium_freed": r"free \(in a front\) medium block 0x\w+, 40960 bytes$",
        "large": r"live large block 0x\w+, 1048576 bytes, a run$",
        "(char *)large + 100000": r"live large .* 1048576 bytes, a run, 100000 bytes inside$",
        "mapping": r"live large block 0x\w+, 41943040 bytes, in a mapping of its own$",
        "(char *)mapping + 5000000": r"live large .* a mapping of its own, 5000000 bytes inside$",
        "foreign": "not of the heap$",
        "0x1234": "not of the heap$",
        "0xffffffffffff": "not of the heap$",
    }  # fmt: skip
    answers = ask(folder, *(f"poolshim block {question}" for question in questions))
    for (question, pattern), answer in zip(questions.items(), answers, strict=True):
        assert re.match(pattern, answer), f"{question}: {answer}"


def test_a_process_is_read_as_its_core_file(folder: Path) -> None:
    heap, block = ask(folder, "poolshim heap", "poolshim block small")
    assert f"{heap}\n{block}\n" == (folder / "core.answers").read_text()


def test_heap_is_summed_up(folder: Path) -> None:
    (answer,) = ask(folder, "poolshim heap")
    assert re.match(r"\d arenas, [\d.]+ MiB reserved; \d fronts\n", answer)
    found = re.findall(r"^ +(\d+) +(\d+) +([\d,]+) +([\d,]+)$", answer, re.MULTILINE)
    rows = {int(row[0]): [int(word.replace(",", "")) for word in row[1:]] for row in found}
    slabs, slab_bytes, live = rows[512]
    assert slab_bytes == slabs * 65536 and live == 900
    assert rows[3072][2] == 1
    assert re.search(r"1\.0 MiB large blocks", answer)


def test_samples_say_where_they_were_allocated(folder: Path) -> None:
    small, medium, large = ask(folder, "poolshim block small", "poolshim block (char *)medium + 1",
                               "poolshim block large", core="sampled")  # fmt: skip
    for answer, size, first in ((small, 112, "allocate_small"), (medium, 20480, "main"),
                                (large, 1048576, "main")):  # fmt: skip
        pattern = rf"sampled: block 0x\w+, {size} bytes, allocated at\n  0x\w+ (\w+)"
        stack = re.search(pattern, answer)
        assert stack is not None and stack[1] == first, answer
        assert re.search(r"\n  0x\w+ main", answer)


def test_bad_input_costs_one_line(folder: Path, tmp_path: Path) -> None:
    wrong = ["poolshim", "poolshim thing", "poolshim block", "poolshim block nothing"]
    words = [word for one in wrong for word in ("-ex", one)]
    text = gdb("-ex", f"source {SCRIPT}", *words, folder / "program", folder / "core")
    lines = [line for line in text.splitlines() if "poolshim" in line and "/" not in line]
    assert lines[:3] == ["usage: poolshim heap, poolshim block ADDRESS"] * 3
    assert len(lines) == 4 and "nothing" in lines[3]
    without = gdb("-ex", f"source {SCRIPT}", "-ex", "poolshim heap", "/bin/true")
    lines = [line for line in without.splitlines() if "poolshim" in line]
    assert len(lines) == 1 and "no libpoolshim.so here" in lines[0]


def test_structures_are_printed_in_a_line(folder: Path) -> None:
    (slab,) = ask(folder, "print *(struct ps_slab *)ps_page_map.zero_leaf", core="sampled")
    assert re.fullmatch(r"\$1 = slab at 0x0, class 0, 0 blocks free", slab)
    (run,) = ask(folder, "print ps_page_map.zero_leaf[0].run", core="sampled")
    assert run == "$1 = run at 0x0, 0 granules, none"


@pytest.mark.parametrize("settings", ["POOLSHIM_STATS 0", "POOLSHIM_HARDEN 1", "POOLSHIM_HARDEN 2"])
def test_blocks_that_threads_have_freed_are_free(
    folder: Path, shim: Path, settings: str
) -> None:
    (folder / "threaded.c").write_text(THREADED)
    command = ["gcc", "-g", "-O0", "-pthread", folder / "threaded.c", "-o", folder / "threaded"]
    assert run_captured(command).returncode == 0
    text = gdb("-ex", f"set environment LD_PRELOAD {shim}", "-ex", f"source {SCRIPT}",
               "-ex", f"set environment {settings}",
               "-ex", "break stop", "-ex", "run", "-ex", "poolshim block kept",
               *(word for i in range(40) for word in ("-ex", f"poolshim block freed[{i}]")),
               "-ex", "kill", folder / "threaded")  # fmt: skip
    states = re.findall(r"^(live|free)[^\n]* small block 0x\w+, 224 bytes$", text, re.MULTILINE)
    assert states == ["live", *["free"] * 40]


def test_an_installed_library_brings_it(build_dir: Path, tmp_path: Path, folder: Path) -> None:
    """gdb loads it with the library, by its name; it finds the installed command's modules."""
    env = {**os.environ, "DESTDIR": str(tmp_path)}
    result = run_captured(["cmake", "--install", build_dir], env=env, timeout=120)
    assert result.returncode == 0, result.stderr
    (found,) = tmp_path.rglob("libpoolshim.so.*-gdb.py")
    text = gdb("-ex", f"source {found}", "-ex", "python print(control.__file__)",
               "-ex", "poolshim block small", folder / "program", folder / "core")  # fmt: skip
    (module,) = tmp_path.rglob("lib/poolshim/python/poolshim_cli/control.py")
    assert f"\n{module}\nlive small block 0x" in text
    assert found.read_text() == SCRIPT.read_text()
    (library,) = (path for path in tmp_path.rglob("libpoolshim.so.0.*") if path.suffix != ".py")
    library = Path("/") / library.relative_to(tmp_path)
    assert str(found).endswith(f"/share/gdb/auto-load{library}-gdb.py")
