# SPDX-License-Identifier: MIT
"""Running processes for the commands that read and control one: stats, top, set, trim.

    def test_x(start: Start) -> None: process = start(SILENT)
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

sys.path.insert(0, str(ROOT / "scripts"))

from programs import compile_program  # noqa: E402

POOLSHIM = ROOT / "scripts" / "poolshim"
MIB = 1 << 20
KEEPS = {"POOLSHIM_PURGE_DELAY_MS": "100000000", "PYTHONMALLOC": "malloc"}
RISES = """
import sys, threading, time
def rise():
    blocks = [b'x' * (3000 + i * 7919 % 50000) for i in range(4000)]
    return len(blocks)
def wait():
    sys.stdin.read(1)
"""
SILENT = RISES + "rise(); print(1, flush=True); wait()"

# known: allocates blocks of known sizes, writes the library's own report, blocks. load: threads
# with 100 to 200 live blocks of 1000 bytes each, until the input ends; or for so many turns each,
# after which it prints the number of mallocs.
PROGRAM = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *blocks[20000];
static uint64_t turns;
static volatile int is_over;
static uint64_t calls;
static int begun;
static void *work(void *unused) {
    void *kept[200] = {0};
    unsigned random = 1;
    uint64_t count = 100;
    for (int i = 0; i < 100; i++) {
        kept[i] = malloc(1000);
    }
    __atomic_fetch_add(&begun, 1, __ATOMIC_RELEASE);
    for (uint64_t i = 0; turns != 0 ? i < turns : !is_over; i++) {
        void **place = &kept[100 + (random = random * 1103515245 + 12345) / 65536 % 100];
        if (*place != NULL) {
            free(*place);
            *place = NULL;
        } else {
            *place = malloc(1000);
            count++;
        }
    }
    __atomic_fetch_add(&calls, count, __ATOMIC_RELAXED);
    for (int i = 0; i < 200; i++) {
        free(kept[i]);
    }
    return unused;
}
static void load(int count) {
    pthread_t threads[64];
    for (int i = 0; i < count; i++) {
        pthread_create(&threads[i], NULL, work, NULL);
    }
    while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < count) {
        usleep(1000);
    }
    write(1, "1\n", 2);
    for (char c; turns == 0 && read(0, &c, 1) > 0;) {
    }
    is_over = 1;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    if (turns != 0) {
        char line[64], c;
        write(1, line, snprintf(line, sizeof line, "%llu\n", (unsigned long long)calls));
        read(0, &c, 1);
    }
}
static void known(const char *report) {
    for (int i = 0; i < 20000; i++) {
        size_t bytes = i < 10000 ? 90 : i < 15000 ? 1500 : i < 19900 ? 3000 : 20000;
        memset(blocks[i] = malloc(bytes), 1, bytes);
    }
    for (int i = 0; i < 10000; i += 3) {
        free(blocks[i]);
    }
    void *large = malloc(50 << 20), *run = malloc(3 << 20);
    void *volatile kept = calloc(1, 40 << 20);
    free(kept);
    memset(large, 1, 10 << 20);
    memset(run, 1, 3 << 20);
    free(blocks[19950]);
    int (*stats)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "poolshim_stats_write");
    if (stats != NULL && report != NULL) {
        stats(report);
    }
    write(1, "1\n", 2);
    char c;
    read(0, &c, 1);
    free(large);
    free(run);
}
int main(int count, char **words) {
    turns = count > 3 ? strtoull(words[3], NULL, 10) : 0;
    if (strcmp(words[1], "load") == 0) {
        load(atoi(words[2]));
    } else {
        known(count > 2 ? words[2] : NULL);
    }
    return 0;
}
"""

Start = Callable[..., "subprocess.Popen[str]"]


def ready(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """Once it says so."""
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    return process


@pytest.fixture
def spawn(shim: Path) -> Iterator[Start]:
    """Starts a command on the shim that says when it is ready; it ends with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(
        command: list[str | Path], preload: bool = True, **settings: str
    ) -> subprocess.Popen[str]:
        env = {**os.environ, **KEEPS, **settings, **({"LD_PRELOAD": str(shim)} if preload else {})}
        process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)  # fmt: skip
        running.append(process)
        return ready(process)

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def start(spawn: Start) -> Start:
    """Starts a Python program likewise."""

    def begin(program: str, preload: bool = True, **settings: str) -> subprocess.Popen[str]:
        return spawn([sys.executable, "-S", "-c", program], preload, **settings)

    return begin


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PROGRAM."""
    return compile_program(tmp_path_factory.mktemp("running"), "running", PROGRAM, "-pthread",
                           "-Wno-unused-result", "-ldl")  # fmt: skip


def run_as_nobody(command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A subcommand without rights."""
    if os.geteuid() != 0:
        pytest.skip("needs two users")
    script = (
        f"import os, sys; from poolshim_cli import __main__; from poolshim_cli.{command} import "
        "command; os.setgid(65534); os.setuid(65534); "
        f"__main__.names = lambda: ['{command}']; "
        f"sys.exit(__main__.attempt(['{command}', *sys.argv[1:]]))"
    )
    return run_captured([sys.executable, "-c", script, *words], cwd=ROOT / "scripts")


def complaint(done: subprocess.CompletedProcess[str], command: str, status: int) -> str:
    """The one line of a failure."""
    assert done.returncode == status and done.stdout == "", done
    assert done.stderr.startswith(f"poolshim {command}: ") and done.stderr.count("\n") == 1
    return done.stderr.removeprefix(f"poolshim {command}: ")
