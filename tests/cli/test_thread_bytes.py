# SPDX-License-Identifier: MIT
"""Bytes by thread: `poolshim stats --threads`, `top --threads`, and the setting that counts frees.

    scripts/test tests/cli/test_thread_bytes.py
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import ROOT, run_captured
from programs import compile_program
from running import POOLSHIM, SILENT, Start, spawn, start
from running import complaint as complaint_of
from serving import samples_in, value_of

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.exporter import metrics  # noqa: E402
from poolshim_cli.live import threads  # noqa: E402

__all__ = ["spawn", "start"]

pytestmark = pytest.mark.preload

BLOCK, BLOCKS, KIB = 1024, 20000, 1024
EXTRA = 300 * KIB  # before the first slow call: requests, or blocks that fill a front

# Threads that allocate for the next one, which frees: each so many blocks; they write their ids.
# "again": at each line of input all do it again; the last line of output is the number of rounds.
PROGRAM = rf"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
enum {{ THREADS = 3, BLOCKS = {BLOCKS}, BLOCK = {BLOCK} }};
static void *blocks[THREADS][BLOCKS];
static int ids[THREADS];
static pthread_barrier_t gate;
static void *work(void *place) {{
    int self = (int)((int *)place - ids);
    char name[16];
    snprintf(name, sizeof name, "part %d", self);
    pthread_setname_np(pthread_self(), name);
    ids[self] = (int)syscall(SYS_gettid);
    for (;;) {{
        pthread_barrier_wait(&gate);
        for (int i = 0; i < BLOCKS * self; i++) {{
            blocks[self][i % BLOCKS] = malloc(BLOCK);
            if (i + BLOCKS < BLOCKS * self) {{
                free(blocks[self][i % BLOCKS]);
            }}
        }}
        pthread_barrier_wait(&gate);
        int before = (self + THREADS - 1) % THREADS;
        for (int i = 0; i < BLOCKS; i++) {{
            free(blocks[before][i]);
            blocks[before][i] = NULL;
        }}
        pthread_barrier_wait(&gate);
    }}
    return NULL;
}}
static void round_of_all(void) {{
    for (int i = 0; i < 3; i++) {{
        pthread_barrier_wait(&gate);
    }}
    printf("1\n");
    fflush(stdout);
}}
int main(void) {{
    char line[16];
    pthread_barrier_init(&gate, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {{
        pthread_t thread;
        pthread_create(&thread, NULL, work, &ids[i]);
    }}
    round_of_all();
    printf("%d %d %d\n", ids[0], ids[1], ids[2]);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {{
        round_of_all();
    }}
    return 0;
}}
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PROGRAM."""
    return compile_program(tmp_path_factory.mktemp("threads"), "threads", PROGRAM, "-pthread")


def threads_of(pid: int) -> dict[str, dict[str, Any]]:
    done = run_captured([POOLSHIM, "stats", "--threads", "--json", str(pid)])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["thread_count"] == len(found["threads"])
    return {row["name"]: row for row in found["threads"]}


def ids_of(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


def again(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("x\n")
    process.stdin.flush()
    assert process.stdout.readline() == "1\n"


def is_near(found: int, wanted: int) -> bool:
    return wanted - EXTRA <= found <= wanted + EXTRA


def test_each_thread_has_its_allocated_bytes(spawn: Start, program: Path) -> None:
    process = spawn([program])
    ids, found = ids_of(process), threads_of(process.pid)
    for number in (1, 2):
        row = found[f"part {number}"]
        assert row["id"] == ids[number]
        assert is_near(row["allocated_bytes"], number * BLOCKS * BLOCK)
        assert row["freed_bytes"] is None


def test_freed_bytes_are_counted_where_they_are_asked_for(spawn: Start, program: Path) -> None:
    """Thread n allocates n times the blocks, and frees all but one part, which the next frees."""
    process = spawn([program], POOLSHIM_THREAD_BYTES="1")
    ids, found = ids_of(process), threads_of(process.pid)
    for number, freed in enumerate((1, 0, 2)):
        row = found[f"part {number}"]
        assert row["id"] == ids[number]
        assert is_near(row["allocated_bytes"], number * BLOCKS * BLOCK)
        assert is_near(row["freed_bytes"], freed * BLOCKS * BLOCK)


def test_counting_begins_and_ends_in_a_running_process(spawn: Start, program: Path) -> None:
    process = spawn([program])
    ids_of(process)
    for setting, others in (("thread-bytes=1", 2), ("thread-bytes=0", 0)):
        done = run_captured([POOLSHIM, "set", str(process.pid), setting])
        assert done.returncode == 0, done.stderr
        again(process)
        again(process)
        found = threads_of(process.pid)
        for number in range(3):
            freed = found[f"part {number}"]["freed_bytes"]
            if others == 0:
                assert freed is None
            else:
                assert is_near(freed, (1, 0, 2)[number] * BLOCKS * BLOCK * others)


def test_ended_threads_are_summed_up(spawn: Start, tmp_path: Path) -> None:
    text = """
    #include <pthread.h>
    #include <stdlib.h>
    #include <unistd.h>
    static void *work(void *unused) {
        for (int i = 0; i < 10000; i++) {
            void *volatile block = malloc(1000);
            free(block);
        }
        return unused;
    }
    int main(void) {
        for (int i = 0; i < 10; i++) {
            pthread_t thread;
            pthread_create(&thread, NULL, work, NULL);
            pthread_join(thread, NULL);
        }
        return write(1, "1\\n", 2) == 2 ? pause() : 1;
    }
    """
    process = spawn([compile_program(tmp_path, "ended", text, "-pthread")])
    done = run_captured([POOLSHIM, "stats", "--threads", "--json", str(process.pid)])
    ended = json.loads(done.stdout)["ended_threads"]
    assert 0.98e8 <= ended["allocated_bytes"] <= 1.05e8
    table = run_captured([POOLSHIM, "stats", "--threads", str(process.pid)]).stdout
    assert re.search(rf"^ +- +{ended['allocated_bytes']} +0  \(ended\)$", table, re.MULTILINE)


def test_top_shows_threads(spawn: Start, program: Path) -> None:
    process = spawn([program])
    ids = ids_of(process)
    done = run_captured([POOLSHIM, "top", "--threads", "--json", str(process.pid)])
    found = {row["name"]: row for row in json.loads(done.stdout)}
    assert [found[f"part {i}"]["id"] for i in (1, 2)] == ids[1:]
    assert found["part 2"]["allocated_rate"] == 0
    table = run_captured([POOLSHIM, "top", "--threads", str(process.pid)]).stdout.splitlines()
    assert table[0].split() == ["pid", "thread", "name", "alloc", "freed", "alloc/s", "freed/s"]
    assert table[1].split()[:4] == [str(process.pid), str(ids[2]), "part", "2"]


def test_hardened_processes_do_not_count_frees(start: Start) -> None:
    process = start(SILENT, POOLSHIM_HARDEN="2", POOLSHIM_THREAD_BYTES="1")
    assert all(row["freed_bytes"] is None for row in threads_of(process.pid).values())
    done = run_captured([POOLSHIM, "set", str(process.pid), "thread-bytes=1"])
    assert "is hardened" in complaint_of(done, "set", 1)


def test_the_exporter_sums_up_by_name(spawn: Start, program: Path) -> None:
    counted, other = spawn([program], POOLSHIM_THREAD_BYTES="1"), spawn([program])
    done = run_captured([POOLSHIM, "exporter", "--once", str(counted.pid), str(other.pid)])
    assert done.returncode == 0, done.stderr
    found = samples_in(done.stdout)
    pid = str(counted.pid)
    made = value_of(found, "poolshim_thread_allocated_bytes", pid=pid, thread="part #")
    freed = value_of(found, "poolshim_thread_freed_bytes", pid=pid, thread="part #")
    assert is_near(int(made), 3 * BLOCKS * BLOCK) and is_near(int(freed), 3 * BLOCKS * BLOCK)
    names = [labels for name in ("allocated", "freed")
             for labels, _ in found[f"poolshim_thread_{name}_bytes"]]  # fmt: skip
    assert {labels["pid"] for labels in names} == {pid}


def test_names_of_threads_are_bounded() -> None:
    rows = [threads.Thread(i, "x" * (i + 1), 100 + i, 1) for i in range(40)]
    row = Mock(threads=threads.Threads(40, rows))
    found = metrics.sums_by_name(row)
    assert len(found) == metrics.THREAD_NAMES_MAX + 1
    assert found["other"] == [sum(100 + i for i in range(24)), 24]
    assert found["x" * 40] == [139, 1]


def test_top_of_threads_needs_a_process() -> None:
    done = run_captured([POOLSHIM, "top", "--threads"])
    assert complaint_of(done, "top", 2) == "which process? poolshim top --threads PID\n"
