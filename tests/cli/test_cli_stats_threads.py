# SPDX-License-Identifier: MIT
"""`poolshim stats` of threads that exchange small blocks: fronts, windows, and free streaks.

    scripts/test tests/cli/test_cli_stats_threads.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from programs import compile_program
from running import Start, spawn
from table import each_row
from test_cli_stats import figures, without_pages

__all__ = ["spawn"]

pytestmark = pytest.mark.preload

THREADS, TURNS, PLACES = 8, 100_000, 5000
EXCHANGE = f"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *places[{PLACES}];
static pthread_barrier_t gate;
static void *work(void *number) {{
    unsigned random = (unsigned)(uintptr_t)number;
    for (int i = 0; i < {TURNS}; i++) {{
        random = random * 1103515245 + 12345;
        void *made = malloc(8 + (random >> 12) % 3000);
        free(__atomic_exchange_n(&places[(random >> 8) % {PLACES}], made, __ATOMIC_ACQ_REL));
    }}
    pthread_barrier_wait(&gate);
    pause();
    return NULL;
}}
int main(int count, char **words) {{
    pthread_barrier_init(&gate, NULL, {THREADS} + 1);
    for (uintptr_t i = 1; i <= {THREADS}; i++) {{
        pthread_t thread;
        pthread_create(&thread, NULL, work, (void *)i);
    }}
    pthread_barrier_wait(&gate);
    int (*stats)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "poolshim_stats_write");
    if (count < 2 || stats == NULL || stats(words[1]) != 0) {{
        return 1;
    }}
    return write(1, "1\\n", 2) == 2 ? pause() : 1;
}}
"""
BLOCKS = 20_000
STREAKS = f"""
#include <stdlib.h>
#include <unistd.h>
static void *blocks[{BLOCKS}];
int main(void) {{
    for (int i = 0; i < {BLOCKS}; i++) {{
        blocks[i] = malloc(60);
    }}
    for (int i = 0; i < {BLOCKS}; i++) {{
        free(blocks[i]);
    }}
    return write(1, "1\\n", 2) == 2 ? pause() : 1;
}}
"""


@each_row(
    "settings",
    [
        {},
        {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"},
        {"POOLSHIM_SIZE_CLASSES": "16,96,2048"},
    ],
)
def test_the_figures_of_threads_are_the_librarys_own(
    spawn: Start, tmp_path: Path, settings: dict[str, str]
) -> None:
    """Their fronts are those of the processors' or the threads' ids, or of locks."""
    program = compile_program(tmp_path, "exchange", EXCHANGE, "-pthread", "-ldl")
    settings = {**settings, "POOLSHIM_BACKGROUND": "0"}
    process = spawn([program, tmp_path / "own.json"], **settings)
    own, found = json.loads((tmp_path / "own.json").read_text()), figures(process.pid)
    assert without_pages(found) == without_pages(own)
    made = THREADS * TURNS
    assert made <= found["calls"]["malloc_count"] <= made + 100
    live = found["small_blocks"]["live_count"]
    assert PLACES <= live <= PLACES + 100  # libc's own
    assert found["calls"]["free_count"] == found["calls"]["malloc_count"] - live


def test_a_free_streak_counts_as_live(spawn: Start, tmp_path: Path) -> None:
    """Of one slab: 64 KiB."""
    found = figures(spawn([compile_program(tmp_path, "streaks", STREAKS)]).pid)
    (live,) = (one["live_count"] for one in found["size_classes"] if one["block_bytes"] == 64)
    assert live <= 1024
    assert found["calls"]["malloc_count"] - found["calls"]["free_count"] == (
        found["small_blocks"]["live_count"]
    )
