# SPDX-License-Identifier: MIT
"""A program with known call sites, and `poolshim profile --pid` on it while it runs.

    def test_x(spawn: Start, sample: Sample, program: Path) -> None: sample(spawn([program]))
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from programs import compile_program
from running import POOLSHIM
from running import complaint as complaint_of

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.live.memory import Memory  # noqa: E402
from poolshim_cli.profile import live  # noqa: E402

# Allocates before it is sampled; then, for each x of the input, known amounts in each thread, and
# for each t what makes it read the clock.
SITES = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#define SITE __attribute__((noinline)) static void
/* In the function that calls it; the compiler must not see what becomes of the block. */
#define TAKE(bytes) void *block = malloc(bytes); __asm__ volatile("" : "+r"(block) : : "memory")
SITE before(void) { TAKE(1000); }
SITE turn(void) { TAKE(100000); free(block); __asm__ volatile(""); }
SITE keep_small(void) { TAKE(1000); }
SITE churn_small(void) { TAKE(3000); free(block); __asm__ volatile(""); }
SITE keep_large(void) { TAKE(2000000); }
static int count;
static pthread_barrier_t barrier;
static void *work(void *first) {
    char c;
    for (;;) {
        if (first != NULL && read(0, &c, 1) <= 0) {
            _exit(0);
        }
        if (first != NULL && c == 't') {
            for (int i = 0; i < 100; i++) {
                turn();
            }
            write(1, "2\n", 2);
            continue;
        }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 8000; i++) {
            keep_small();
            for (int j = 0; j < 5; j++) {
                churn_small();
            }
        }
        for (int i = 0; i < 5; i++) {
            keep_large();
        }
        pthread_barrier_wait(&barrier);
        if (first != NULL) {
            write(1, "2\n", 2);
        }
    }
    return NULL;
}
int main(int argc, char **words) {
    pthread_t thread;
    count = argc > 1 ? atoi(words[1]) : 1;
    for (int i = 0; i < 50000; i++) {
        before();
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int i = 1; i < count; i++) {
        pthread_create(&thread, NULL, work, NULL);
    }
    write(1, "1\n", 2);
    work(&count);
}
"""
INTERVAL = 16 << 10

Sample = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SITES."""
    return compile_program(tmp_path_factory.mktemp("sites"), "sites", SITES, "-O1", "-pthread",
                           "-Wno-unused-result")  # fmt: skip


def poolshim(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "profile", *words])


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    return complaint_of(done, "profile", status)


def work(process: subprocess.Popen[str], what: str = "x") -> None:
    """One round."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(what)
    process.stdin.flush()
    assert process.stdout.readline() == "2\n"


def await_that(is_so: Callable[[], bool]) -> None:
    """Something that another process is about to do."""
    end = time.monotonic() + 30 * SLOWNESS
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def await_looks(target: live.Target) -> None:
    """Blocks until a command has looked at the process: it asks for samples before each look, and
    until the next one."""
    for _ in range(2):
        before = target.number("set.sample-beat")
        await_that(lambda: target.number("set.sample-beat") != before)  # noqa: B023


def target_of(process: subprocess.Popen[str]) -> live.Target:
    return live.Target(Memory(process.pid))


@pytest.fixture
def sample() -> Iterator[Sample]:
    """Starts the command on a process that works, and returns when what follows is sampled."""
    running: list[subprocess.Popen[str]] = []

    def begin(
        process: subprocess.Popen[str], *words: str | Path, interval: int = INTERVAL
    ) -> subprocess.Popen[str]:
        target = target_of(process)
        before = target.number("set.sample-beat")
        command = subprocess.Popen(
            [POOLSHIM, "profile", "--pid", str(process.pid), "--seconds", "600", *words,
             "--interval", str(interval)],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        running.append(command)
        await_that(lambda: target.number("set.sample-beat") != before)
        while not target.is_sampled():
            work(process, "t")
        # One beat may have been due, one follows the beginning, and then the table was read.
        before = target.number("set.sample-beat")
        await_that(lambda: target.number("set.sample-beat") >= before + 3)
        assert command.poll() is None
        return command

    yield begin
    for command in running:
        command.kill()
        command.communicate()


def end(command: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """Ends the command by SIGINT, as Ctrl-C does."""
    command.send_signal(signal.SIGINT)
    output, errors = command.communicate(timeout=60 * SLOWNESS)
    return subprocess.CompletedProcess(command.args, command.returncode, output, errors)
