# SPDX-License-Identifier: MIT
"""The shim beside others that have malloc to themselves or want to see it.

    scripts/test tests/shim/test_neighbours.py

Wrappers and other allocators preloaded before and after it, programs with a malloc of their own,
plugins that bind past it. Programs with their own operator new are scenarios: own_operator_new_*.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import RunShim
from under_shim import need

pytestmark = pytest.mark.preload

ALLOCATORS = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"]
PROGRAMS = {
    "libc": "every_libc_call",
    "C++": "new_and_delete_forms",
    "exit": "static_and_thread_local_destructors",
}


def installed(name: str) -> Path:
    found = sorted(Path("/usr/lib").glob(f"*/{name}"))
    if not found:
        pytest.skip(f"{name} is not installed")
    return found[0]


def preloads(first: Path, second: Path) -> dict[str, str]:
    return {"LD_PRELOAD": f"{first}:{second}"}


@pytest.mark.compare
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_another_allocator_before_or_after(
    run_shim: RunShim, shim: Path, build_dir: Path, tmp_path: Path,
    allocator: str, program: str, place: str,
) -> None:  # fmt: skip
    """The first one serves; the other one's calls that the first lacks are built on the first's."""
    other = installed(allocator)
    order = (other, shim) if place == "before" else (shim, other)
    report = tmp_path / "report.json"
    command = [build_dir / "tests" / "scenarios" / PROGRAMS[program]]
    result = run_shim(
        command, env={**preloads(*order), "POOLSHIM_STATS": str(report)}, preload=False
    )
    assert result.returncode == 0, result.stderr
    assert "poolshim:" not in result.stderr
    classes = json.loads(report.read_text())["size_classes"]
    serves = any(entry["slab_count"] > 0 for entry in classes)
    assert serves or place == "before"


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("program", ["libc", "exit"])
def test_a_wrapper_of_malloc_before_or_after(
    run_shim: RunShim, shim: Path, build_dir: Path, program: str, place: str
) -> None:
    """One that finds the next malloc by dlsym and puts headers before blocks. Before the shim it
    sees every call of libc's that it wraps, reallocarray's too, but not operator new, which does
    not go through malloc here; after it, none."""
    wrapper = build_dir / "tests" / "scenarios" / "libmalloc_wrapper.so"
    order = (wrapper, shim) if place == "before" else (shim, wrapper)
    command = [build_dir / "tests" / "scenarios" / PROGRAMS[program]]
    result = run_shim(command, env=preloads(*order), preload=False)
    assert result.returncode == 0, result.stderr
    wrapped = re.fullmatch(r"wrapped: (\d+)\n", result.stderr)
    assert wrapped, result.stderr
    if place == "after":
        assert int(wrapped[1]) == 0
    elif program == "libc":
        assert int(wrapped[1]) >= 5 * 4000


@pytest.mark.parametrize("place", ["before", "after"])
def test_fakeroot(run_shim: RunShim, shim: Path, tmp_path: Path, place: str) -> None:
    """A preloaded library of everyday use, which starts and asks a server of its own."""
    need("fakeroot")
    file = tmp_path / "file"
    file.touch()
    # fakeroot puts its library in front of what LD_PRELOAD has; env puts ours in front of it.
    inner = ["stat", "-c", "%u", str(file)]
    if place == "after":
        command = ["fakeroot", "sh", "-c", f"chown 4321 {file} && stat -c %u {file}"]
        result = run_shim(command, timeout=60)
    else:
        script = f'chown 4321 {file} && LD_PRELOAD={shim}:$LD_PRELOAD {" ".join(inner)}'
        result = run_shim(["fakeroot", "sh", "-c", script], timeout=60, preload=False)
    if "fakeroot:" in result.stderr or "semop" in result.stderr:
        pytest.skip(result.stderr.strip()[-200:])
    assert (result.returncode, result.stdout, result.stderr) == (0, "4321\n", "")


# A bump allocator: its free does nothing, so it bears blocks of others.
OWN_BASE = """
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char arena[64 << 20] __attribute__((aligned(64)));
static size_t used;
static unsigned long calls;
static int is_own(const void *block) { return (uintptr_t)block - (uintptr_t)arena < sizeof arena; }
static void *bump(size_t align, size_t size) {
    calls++;
    uintptr_t start = ((uintptr_t)arena + used + 16 + align - 1) & ~(uintptr_t)(align - 1);
    ((size_t *)start)[-1] = size;
    used = start + size - (uintptr_t)arena;
    return (void *)start;
}
void *malloc(size_t size) { return bump(16, size); }
void free(void *block) { (void)block; calls++; }
"""
OWN_REST = """
void *calloc(size_t count, size_t size) { return memset(bump(16, count * size), 0, count * size); }
void *realloc(void *block, size_t size) {
    void *copy = bump(16, size);
    if (block != NULL) {
        if (!is_own(block)) { abort(); }
        size_t old = ((size_t *)block)[-1];
        memcpy(copy, block, old < size ? old : size);
    }
    return copy;
}
"""
OWN_ALIGNED = """
void *memalign(size_t align, size_t size) { return bump(align < 16 ? 16 : align, size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **block, size_t align, size_t size) {
    *block = memalign(align, size);
    return 0;
}
void *valloc(size_t size) { return memalign(4096, size); }
void *pvalloc(size_t size) { return memalign(4096, size); }
size_t malloc_usable_size(void *block) { return block == NULL ? 0 : ((size_t *)block)[-1]; }
"""
OWN_MAIN = """
int main_of_few(int count, char **words) {
    char *copy = strdup("some words"), *zeroes = calloc(100, 10);
    if (!is_own(copy) || zeroes == NULL || is_own(zeroes) || zeroes[999] != 0) { return 3; }
    free(zeroes);
    if (count > 1) { return realloc(copy, 5000) == NULL ? 4 : (int)(words[1] == NULL); }
    free(copy);
    fprintf(stderr, "own: %d\\n", calls > 2);
    return 0;
}
int main_of_all(int count, char **words) {
    char *line = NULL, *text = NULL, *copy = strdup("some words");
    size_t capacity = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file != NULL && getline(&line, &capacity, file) > 0) { }
    if (file != NULL) { fclose(file); }
    if (!is_own(copy) || asprintf(&text, "%s, %d", copy, count) != 13) { return 3; }
    if (!is_own(text)) { return 6; }
    char *zeroes = calloc(100, 10);
    if (zeroes == NULL || zeroes[999] != 0) { return 4; }
    free(zeroes);
    if (count > 1) {
        void *block = realloc(copy, 5000);
        block = reallocarray(block, 100, 100);
        if (!is_own(block) || strcmp(block, "some words") != 0) { return 5; }
        free(block);
    }
    free(line);
    free(text);
    fprintf(stderr, "own: %d\\n", calls > 4);
    return 0;
}
"""


def own_program(folder: Path, *parts: str) -> Path:
    need("gcc")
    source, program = folder / "own.c", folder / "own"
    main = "of_few" if parts == (OWN_BASE,) else "of_all"
    text = f"int main(int count, char **words) {{ return main_{main}(count, words); }}\n"
    source.write_text("".join([*parts, OWN_MAIN, text]))
    subprocess.run(["gcc", "-fno-builtin", source, "-o", program], check=True, timeout=60)
    return program


@pytest.mark.parametrize("preload", [False, True], ids=["libc", "shim"])
@pytest.mark.parametrize("parts", [(OWN_REST,), (OWN_REST, OWN_ALIGNED)], ids=["four", "all"])
def test_a_program_with_its_own_malloc_keeps_it(
    run_shim: RunShim, tmp_path: Path, parts: tuple[str, ...], preload: bool
) -> None:
    """malloc, free, calloc and realloc, or all: what libc makes comes from there, and what the
    shim builds on realloc (reallocarray) too."""
    program = own_program(tmp_path, OWN_BASE, *parts)
    result = run_shim([program, "realloc"], preload=preload)
    assert (result.returncode, result.stderr) == (0, "own: 1\n")


@pytest.mark.parametrize("preload", [False, True], ids=["libc", "shim"])
def test_a_program_with_malloc_and_free_only(
    run_shim: RunShim, tmp_path: Path, preload: bool
) -> None:
    """Its free gets blocks that another calloc made, and its blocks get to another realloc, with
    the shim and without: it works where it bears that, and realloc of its block is refused."""
    program = own_program(tmp_path, OWN_BASE)
    result = run_shim([program], preload=preload)
    assert (result.returncode, result.stderr) == (0, "own: 1\n")
    refused = run_shim([program, "realloc"], preload=preload)
    assert refused.returncode < 0
    if preload:
        assert re.fullmatch(
            r"poolshim: realloc of foreign pointer 0x[0-9a-f]+\n", refused.stderr
        ), refused.stderr


PLUGIN = """
#include <stdlib.h>
#include <string.h>
void *plugin_make(size_t size) { return malloc(size); }
void plugin_free(void *block) { free(block); }
int plugin_live(void) {
    for (unsigned i = 0; i < 10000; i++) {
        unsigned char *block = calloc(1, i % 5000 + 1);
        if (block == NULL || block[i % 5000] != 0) { return 0; }
        block = realloc(block, i + 100);
        block[i] = 1;
        free(block);
    }
    return 1;
}
"""
DEEP_HOST = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(int count, char **words) {
    void *plugin = dlopen(words[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (plugin == NULL) { return 3; }
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(plugin, "plugin_make");
    void (*give)(void *) = (void (*)(void *))dlsym(plugin, "plugin_free");
    int (*live)(void) = (int (*)(void))dlsym(plugin, "plugin_live");
    for (int i = 0; i < 20; i++) { free(malloc(5000)); if (!live()) { return 4; } }
    give(make(100));
    if (count > 2 && words[2][0] == 'o') { free(make(100)); }      /* ours gets theirs */
    if (count > 2 && words[2][0] == 't') { give(malloc(100)); }    /* theirs gets ours */
    return 0;
}
"""


@pytest.fixture
def deep_bound(tmp_path: Path) -> list[Path]:
    """A program and its plugin, which is bound to libc's malloc whatever is preloaded."""
    need("gcc")
    host, plugin = tmp_path / "host", tmp_path / "plugin.so"
    for text, target, flags in ((DEEP_HOST, host, []), (PLUGIN, plugin, ["-shared", "-fPIC"])):
        source = target.with_suffix(".c")
        source.write_text(text)
        command = ["gcc", "-fno-builtin", "-w", *flags, source, "-o", target]
        subprocess.run(command, check=True, timeout=60)
    return [host, plugin]


def test_a_plugin_bound_past_the_shim(run_shim: RunShim, deep_bound: list[Path]) -> None:
    """RTLD_DEEPBIND gives a plugin libc's malloc: two heaps, each for its own. Blocks that change
    sides end the program: ours by our line, and libc's free by libc's."""
    alone = run_shim(deep_bound)
    assert (alone.returncode, alone.stderr) == (0, "")
    ours = run_shim([*deep_bound, "ours"])
    assert ours.returncode == -signal.SIGABRT
    assert re.fullmatch(r"poolshim: free of foreign pointer 0x[0-9a-f]+\n", ours.stderr)
    warned = run_shim([*deep_bound, "ours"], env={"POOLSHIM_FOREIGN": "warn"})
    assert warned.returncode == 0
    theirs = run_shim([*deep_bound, "theirs"])
    assert theirs.returncode in (-signal.SIGABRT, -signal.SIGSEGV)
    assert "poolshim:" not in theirs.stderr


def test_python_with_allocators_on_both_sides(
    run_shim: RunShim, shim: Path, build_dir: Path
) -> None:
    """A larger program with a wrapper in front of the shim and an allocator after it."""
    wrapper = build_dir / "tests" / "scenarios" / "libmalloc_wrapper.so"
    behind = installed(ALLOCATORS[0])
    code = "import json, threading; print(len(json.dumps(list(range(100000)))))"
    result = run_shim(
        [sys.executable, "-S", "-c", code],
        env={"LD_PRELOAD": f"{wrapper}:{shim}:{behind}", "PYTHONMALLOC": "malloc"},
        preload=False,
    )
    assert (result.returncode, result.stdout) == (0, "688890\n")
    assert re.fullmatch(r"wrapped: \d{5,}\n", result.stderr)
