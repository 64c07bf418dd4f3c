# SPDX-License-Identifier: MIT
"""Programs that a preload does or does not reach, for the tests of `poolshim run` and `doctor`.

Each prints the libraries it has mapped, so that a test sees what became of the preload.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured

POOLSHIM = ROOT / "scripts" / "poolshim"
MACHINE_OFFSET = 18  # of e_machine
AARCH64 = 183
LEVELS = {"fatal", "warning", "note", "fine"}

PRINT_MAPS = """
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
int main(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, "r-xp") != NULL && strchr(line, '/') != NULL) {
            fputs(strchr(line, '/'), stdout);
        }
    }
    free(malloc(100));
    return 0;
}
"""

OWN_NEW = """
#include <cstdlib>
#include <new>
#include <string>
void *operator new(std::size_t size) { return std::malloc(size); }
void operator delete(void *block) noexcept { std::free(block); }
void operator delete(void *block, std::size_t) noexcept { std::free(block); }
int main(int count, char **) {
    std::string text(100 + count, 'x');
    return text.empty();
}
"""

OWN_MALLOC = """
#include <stddef.h>
#include <string.h>
static char arena[1 << 20];
static size_t used;
void *malloc(size_t bytes) { used += (bytes | 15) + 1; return arena + used - (bytes | 15) - 1; }
void *calloc(size_t n, size_t bytes) { return memset(malloc(n * bytes), 0, n * bytes); }
void *realloc(void *p, size_t bytes) {
    void *q = malloc(bytes);
    return p ? memcpy(q, p, bytes) : q;
}
void free(void *p) { (void)p; }
int main(void) { return malloc(10) == 0; }
"""

# Serves every call that it gets, and would win by its place. Frees nothing.
OTHER_ALLOCATOR = """
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
static char *arena;
static size_t used;
static void *take(size_t alignment, size_t bytes) {
    if (arena == NULL) { /* at the loader's first call: there is one thread */
        arena = mmap(NULL, (size_t)64 << 30, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    size_t whole = (bytes + alignment + 31) & ~(size_t)15;
    size_t at = (size_t)arena + __atomic_fetch_add(&used, whole, __ATOMIC_RELAXED) + 16;
    at = (at + alignment - 1) & ~(alignment - 1);
    ((size_t *)at)[-1] = bytes;
    return (void *)at;
}
void *malloc(size_t bytes) { return take(16, bytes); }
void *calloc(size_t count, size_t bytes) { return take(16, count * bytes); }
void *realloc(void *block, size_t bytes) {
    void *copy = take(16, bytes);
    size_t before = block == NULL ? 0 : ((size_t *)block)[-1];
    return before == 0 ? copy : memcpy(copy, block, before < bytes ? before : bytes);
}
void *memalign(size_t alignment, size_t bytes) { return take(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return take(alignment, bytes); }
int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = take(alignment, bytes);
    return 0;
}
void free(void *block) { (void)block; }
"""

def compile_program(folder: Path, name: str, source: str, *flags: str) -> Path:
    """A program from C, or from C++ if the name ends in .cpp; a skip where that cannot be built."""
    compiler, suffix = ("g++", ".cpp") if name.endswith(".cpp") else ("gcc", ".c")
    program = folder / name.removesuffix(".cpp")
    text = program.with_suffix(suffix)
    text.write_text(source)
    made = run_captured([compiler, "-O1", text, "-o", program, *flags], timeout=120)
    if made.returncode != 0:
        pytest.skip(f"{compiler} {' '.join(flags)} cannot build here: {made.stderr[-200:]}")
    return program


def patched(program: Path, name: str, offset: int, replacement: bytes) -> Path:
    """A copy with some bytes replaced."""
    data = bytearray(program.read_bytes())
    data[offset : offset + len(replacement)] = replacement
    copy = program.with_name(name)
    copy.write_bytes(data)
    copy.chmod(0o755)
    return copy


def bare_environment(**more: str) -> dict[str, str]:
    """Ours, without preloads and settings of allocators."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("POOLSHIM_", "LD_", "MALLOC_")) or name == "POOLSHIM_BUILD_DIR"
    }
    return {**env, **more}


def poolshim(
    *words: str | Path, env: dict[str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    """scripts/poolshim with these words, in a bare environment."""
    return run_captured([POOLSHIM, *words], env=bare_environment(**(env or {})), **options)


def examine(*words: str | Path, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The JSON of doctor about a command; the exit status agrees with it."""
    done = poolshim("doctor", "--json", *words, env=env)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["takes_effect"] == (done.returncode == 0)
    assert {finding["level"] for finding in found["findings"]} <= LEVELS
    return found


def codes(found: dict[str, Any], *levels: str) -> list[str]:
    """The codes of findings, without the limit of a container in which the tests may run."""
    return [f["code"] for f in found["findings"] if f["level"] in levels and f["code"] != "limit"]


def compile_library(folder: Path, name: str, source: str, *flags: str) -> Path:
    """A shared library in C; a skip where that cannot be built."""
    library = folder / name
    text = library.with_suffix(".c")
    text.write_text(source)
    made = run_captured(["gcc", "-shared", "-fPIC", text, "-o", library, *flags], timeout=120)
    if made.returncode != 0:
        pytest.skip(f"gcc {' '.join(flags)} cannot build here: {made.stderr[-200:]}")
    return library


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Short and open for every user."""
    with tempfile.TemporaryDirectory(prefix="poolshim-cli-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture(scope="module")
def mapper(folder: Path) -> Path:
    """Prints what it has mapped."""
    return compile_program(folder, "mapper", PRINT_MAPS)
