# SPDX-License-Identifier: MIT
"""Profiles of heaps and tokens: their blocks are sampled as others, under the heap's name.

    scripts/test tests/shim/test_profile_heaps.py
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured
from poolshim_cli import pprof

pytestmark = pytest.mark.preload

INTERVAL = 64 << 10
MIB = 1 << 20

# Holds 8 MiB of blocks of 200 bytes in a heap, 4 MiB in one without a name, 16 MiB of tokens, 6 MiB
# of blocks of 300,000 bytes in a heap; a heap of 8 MiB was destroyed, and 8 MiB were freed.
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "poolshim/heap.h"
#define MIB (1 << 20)
static poolshim_heap *heap_of(const char *name) {
    struct poolshim_heap_options options = {.bytes = sizeof options, .name = name};
    return poolshim_heap_create(&options);
}
static void *volatile last;
__attribute__((noinline)) void fill(poolshim_heap *heap, size_t total, size_t bytes) {
    for (size_t i = 0; i < total / bytes; i++) {
        last = poolshim_heap_alloc(heap, bytes);
    }
}
__attribute__((noinline)) void hold_tokens(size_t total, size_t bytes) {
    void *(*alloc)(size_t, size_t) = dlsym(RTLD_DEFAULT, "__alloc_token_malloc");
    for (size_t i = 0; i < total / bytes; i++) {
        last = alloc(bytes, 3);
    }
}
int main(int count, char **words) {
    poolshim_heap *gone = heap_of("gone"), *freed = heap_of("freed");
    fill(heap_of("session"), 8 * MIB, 200);
    fill(heap_of(NULL), 4 * MIB, 1000);
    fill(heap_of("long"), 6 * MIB, 300000);
    hold_tokens(16 * MIB, 100);
    fill(gone, 8 * MIB, 200);
    poolshim_heap_destroy(gone);
    for (int i = 0; i < 8 * MIB / 200; i++) {
        free(poolshim_heap_zalloc(freed, 200));
    }
    if (count > 1) {
        char byte;
        return write(1, "1\n", 2) == 2 && read(0, &byte, 1) >= 0 ? 0 : 1;
    }
    return words == NULL;
}
"""
LIVE = {"session": 8 * MIB, "": 4 * MIB, "long": 6 * MIB, "token 3": 16 * MIB}


def built(folder: Path, text: str) -> Path:
    (folder / "program.c").write_text(text)
    subprocess.run(["gcc", "-O1", "-g", f"-I{ROOT / 'pools' / 'include'}", folder / "program.c",
                    "-o", folder / "program", "-ldl"], check=True, timeout=60)  # fmt: skip
    return folder / "program"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PROGRAM."""
    return built(tmp_path_factory.mktemp("heaps"), PROGRAM)


def heaps_of(profile: pprof.Profile, name: str) -> Counter[str]:
    """The bytes of each heap, "" of those without a name."""
    found: Counter[str] = Counter()
    index = profile.index_of(name)
    for sample in profile.samples:
        line = sample.locations[0].line if sample.locations else None
        if line is not None and line.pool is not None and line.pool.family == "heap":
            found[line.pool.name] += sample.values[index]
    return found


def test_blocks_of_heaps_are_sampled_by_name(
    run_shim: RunShim, program: Path, tmp_path: Path
) -> None:
    path = tmp_path / "h.pb.gz"
    env = {"POOLSHIM_PROFILE": str(path), "POOLSHIM_PROFILE_INTERVAL": str(INTERVAL),
           "POOLSHIM_PROFILE_SEED": "5"}  # fmt: skip
    result = run_shim([program], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    profile = pprof.read(path)
    live, made = heaps_of(profile, "inuse_space"), heaps_of(profile, "alloc_space")
    for name, nbytes in LIVE.items():
        # Of blocks of a class, with rounding up to 12 %; 128 samples in 8 MiB: 18 % at two sigma.
        assert nbytes * 0.75 < live[name] < nbytes * 1.4, name
    for name in ("gone", "freed"):
        assert live[name] == 0 and made[name] > 6 * MIB


def test_the_command_has_rows_of_heaps(program: Path) -> None:
    command = [ROOT / "scripts" / "poolshim", "profile", "--json", f"--interval={INTERVAL}", "--",
               program]  # fmt: skip
    done = run_captured(command, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout.splitlines()[-1])["sites"]}
    assert rows['heap "session"']["callers"][:2] == ["fill", "main"]
    assert rows['heap "token 3"']["callers"][:2] == ["hold_tokens", "main"]


def test_sampled_blocks_remain_in_their_heap(run_shim: RunShim, tmp_path: Path) -> None:
    """By poolshim_heap_of, their usable size, and the counts of the heap."""
    text = r"""
    #include <malloc.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include "poolshim/heap.h"
    #define REQUIRE(condition) if (!(condition)) { printf("%d\n", __LINE__); return 1; }
    int main(void) {
        struct poolshim_heap_options options = {
            .bytes = sizeof options, .name = "x", .limit_bytes = 1 << 20};
        poolshim_heap *heap = poolshim_heap_create(&options);
        struct poolshim_heap_stats stats;
        size_t count = 0, live = 0;
        for (void *block; (block = poolshim_heap_zalloc(heap, 200)) != NULL; count++) {
            REQUIRE(poolshim_heap_of(block) == heap);
            REQUIRE(malloc_usable_size(block) >= 200 && malloc_usable_size(block) < 240);
            live += malloc_usable_size(block);
            if (count % 3 == 0) {
                block = realloc(block, 100);
                REQUIRE(poolshim_heap_of(block) == heap);
                live -= 208;
                free(block);
            }
        }
        REQUIRE(poolshim_heap_stats_read(heap, &stats, sizeof stats) == 0);
        REQUIRE(stats.live_count == count - (count + 2) / 3);
        REQUIRE(stats.live_bytes <= 1 << 20 && stats.live_bytes > (1 << 20) - 4096);
        REQUIRE(poolshim_heap_destroy(heap) == 0);
        return 0;
    }
    """
    program = built(tmp_path, text)
    env = {"POOLSHIM_PROFILE": str(tmp_path / "p"), "POOLSHIM_PROFILE_INTERVAL": "500"}
    result = run_shim([program], env=env)
    assert (result.returncode, result.stdout) == (0, "")
