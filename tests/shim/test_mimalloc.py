# SPDX-License-Identifier: MIT
"""mimalloc's interface: the same program with libmimalloc and with the shim, and with both.

    scripts/test tests/shim/test_mimalloc.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import RunShim, run_captured

pytestmark = pytest.mark.preload

NAME = "libmimalloc.so.2"
MODES: list[dict[str, str]] = [
    {}, {"POOLSHIM_HARDEN": "1"}, {"POOLSHIM_HARDEN": "2"}, {"POOLSHIM_HARDEN": "3"},
    {"POOLSHIM_GUARD_SAMPLE": "20"},
]  # fmt: skip
LINKED = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
extern "C" {
void *mi_malloc(size_t);
void *mi_new(size_t);
void *mi_new_n(size_t, size_t);
void *mi_new_realloc(void *, size_t);
void *mi_new_reallocn(void *, size_t, size_t);
void *mi_heap_alloc_new(void *, size_t);
void *mi_heap_alloc_new_n(void *, size_t, size_t);
void *mi_heap_new();
void mi_heap_destroy(void *);
void mi_free(void *);
}
static int calls;
static void handler() {
    if (++calls == 3) {
        std::set_new_handler(nullptr);
    }
}
template <typename Call> static bool throws(Call call) {
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}
int main() {
    volatile size_t huge = ~(size_t)0 / 2 + 7;
    void *heap = mi_heap_new();
    free(mi_new(100));
    mi_free(mi_new_n(10, 100));
    delete (char *)mi_malloc(5);
    void *block = mi_new_realloc(strdup("text"), 100000);
    block = mi_new_reallocn(block, 100, 2000);
    printf("%s\\n", (char *)block);
    mi_free(block);
    memset(mi_heap_alloc_new(heap, 5000), 1, 5000);
    memset(mi_heap_alloc_new_n(heap, 50, 100), 1, 5000);
    bool thrown = throws([&] { mi_new(huge); }) && throws([&] { mi_new_n(huge, 4); }) &&
                  throws([&] { mi_heap_alloc_new(heap, huge); }) &&
                  throws([&] { mi_heap_alloc_new_n(heap, huge, 9); }) &&
                  throws([&] { mi_new_realloc(nullptr, huge); }) &&
                  throws([&] { mi_new_reallocn(nullptr, huge, 3); });
    mi_heap_destroy(heap);
    std::set_new_handler(handler);
    thrown = thrown && throws([&] { mi_new(huge); });
    printf("%d %d\\n", thrown, calls);
    return 0;
}
"""


def library() -> Path:
    found = next(Path("/usr/lib").glob(f"*/{NAME}"), None)
    if found is None:
        pytest.skip(f"{NAME} is not installed")
    return found


def test_the_program_passes_with_the_original_too(build_dir: Path) -> None:
    """Under the shim it is a scenario."""
    path = build_dir / "tests" / "scenarios" / "mimalloc_names"
    result = run_captured([path], env={**os.environ, "LD_PRELOAD": str(library())})
    assert result.returncode == 0, result.stderr


def test_the_program_passes_in_each_mode(
    build_dir: Path, run_shim: RunShim, tmp_path: Path
) -> None:
    path = build_dir / "tests" / "scenarios" / "mimalloc_names"
    files = [{"POOLSHIM_RECORD": str(tmp_path / "r.json")}, {"POOLSHIM_TRACE": str(tmp_path / "t")}]
    for env in (*MODES, *files):
        result = run_shim([path], env=env)
        assert (result.returncode, result.stderr) == (0, ""), env


def test_a_program_linked_with_mimalloc_has_one_heap(run_shim: RunShim, tmp_path: Path) -> None:
    source, program = tmp_path / "linked.cpp", tmp_path / "linked"
    source.write_text(LINKED)
    first = ["-Wl,--no-as-needed", "-lstdc++"]  # its operator new throws, mimalloc's ends
    built = run_captured(["c++", "-fno-builtin", "-w", source, "-o", program, *first, library()])
    assert built.returncode == 0, built.stderr
    for env in ({}, {"POOLSHIM_HARDEN": "1"}):
        result = run_shim([program], env=env)
        assert (result.returncode, result.stdout, result.stderr) == (0, "text\n1 3\n", ""), env
