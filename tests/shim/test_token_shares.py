# SPDX-License-Identifier: MIT
"""Allocation tokens above 7: types with and without pointers never share a partition.

    scripts/test tests/shim/test_token_shares.py
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import run_captured
from test_tokens import built

pytestmark = pytest.mark.preload

# Ids of a maximum: data in the lower half, pointers in the upper one; then ids beyond it.
SPLIT = r"""
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void *__alloc_token_malloc(size_t size, size_t token);

#define PAGES (1 << 20)
static struct {
    uintptr_t page;
    int kind;
} pages[PAGES];

static void note(const void *block, int kind) {
    uintptr_t page = (uintptr_t)block >> 12;
    size_t at = page % PAGES;
    while (pages[at].page != 0 && pages[at].page != page) {
        at = (at + 1) % PAGES;
    }
    if (pages[at].page != 0 && pages[at].kind != kind) {
        printf("page %#zx of %d serves %d\n", (size_t)page, pages[at].kind, kind);
        exit(1);
    }
    pages[at].page = page;
    pages[at].kind = kind;
}

int main(int count, char **words) {
    size_t max = strtoul(words[1], NULL, 10), end = strtoul(words[count - 1], NULL, 10);
    for (size_t size = 24; size < 100000; size *= 11) {
        for (size_t id = 0; id < end; id++) {
            note(__alloc_token_malloc(size, id), id < max / 2 ? 1 : id < max / 2 * 2 ? 2 : 3);
        }
    }
    malloc_stats();
    return 0;
}
"""


@pytest.mark.parametrize("most", [9, 11, 64, 100, 1023, 1024])
def test_data_and_pointers_share_no_partition(build_dir: Path, tmp_path: Path, most: int) -> None:
    program = built(tmp_path, SPLIT, f"-L{build_dir}", f"-Wl,-rpath,{build_dir}", "-lpoolshim")
    result = run_captured([program, str(most), str(most // 2 * 2)], timeout=60)
    assert (result.returncode, result.stdout) == (0, "")
    assert f"\nheaps: {most // 2 * 2}\n" in result.stderr


@pytest.mark.parametrize("most", [9, 11, 64, 100, 1023, 20000])
def test_a_known_maximum_makes_eight_shares(build_dir: Path, tmp_path: Path, most: int) -> None:
    program = built(tmp_path, SPLIT, f"-L{build_dir}", f"-Wl,-rpath,{build_dir}", "-lpoolshim")
    env = {"POOLSHIM_TOKEN_MAX": str(most)}
    words = [program, str(most), str(most + 50 if most > 9 else most - 1)]
    result = run_captured(words, timeout=60, env=env)
    assert (result.returncode, result.stdout) == (0, "")
    found = re.search(r"^heaps: (\d+)$", result.stderr, re.MULTILINE)
    assert found is not None and 8 <= int(found[1]) <= 17
