# SPDX-License-Identifier: MIT
"""gperftools' interfaces: the same programs with libtcmalloc and with the shim, and with both.

    scripts/test tests/shim/test_tcmalloc.py
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured
from table import each_row

pytestmark = pytest.mark.preload

NAME = "libtcmalloc_minimal.so.4"
PROGRAMS = ("malloc_extension", "tc_names")
LINKED = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *tc_malloc(size_t);
void tc_free(void *);
int MallocExtension_GetNumericProperty(const char *, size_t *);
static size_t live(void) {
    size_t value = 0;
    (void)MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &value);
    return value;
}
int main(void) {
    size_t before = live();
    char *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = i % 2 ? tc_malloc(10000) : malloc(10000);
        memset(blocks[i], 1, 10000);
    }
    size_t made = live() - before;
    for (int i = 0; i < 100; i++) {
        (i % 3 ? tc_free : free)(blocks[i]);
    }
    size_t after = live();
    printf("%zu", made);
    return after != before;
}
"""


def library() -> Path:
    found = next(Path("/usr/lib").glob(f"*/{NAME}"), None)
    if found is None:
        pytest.skip(f"{NAME} is not installed")
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_pass_with_the_original_too(build_dir: Path, program: str) -> None:
    """Under the shim they are scenarios."""
    path = build_dir / "tests" / "scenarios" / program
    result = run_captured([path], env={**os.environ, "LD_PRELOAD": str(library())})
    assert (result.returncode, result.stderr) == (0, "")


def test_a_program_linked_with_tcmalloc_has_one_heap(run_shim: RunShim, tmp_path: Path) -> None:
    source, program = tmp_path / "linked.c", tmp_path / "linked"
    source.write_text(LINKED)
    built = run_captured(["cc", "-fno-builtin", source, "-o", program, library()])
    assert built.returncode == 0, built.stderr
    for env in ({}, {"POOLSHIM_HARDEN": "2"}, {"POOLSHIM_HARDEN": "3"}):
        result = run_shim([program], env=env)
        assert (result.returncode, result.stderr) == (0, ""), env
        assert 1000000 <= int(result.stdout) < 1400000, env


# ---- Google's tcmalloc, by the functions that folly looks for ----

PRELUDE = """
import ctypes, json
libc = ctypes.CDLL(None)
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
get = libc.MallocExtension_Internal_GetNumericProperty
get.restype = ctypes.c_bool
libc.malloc.restype = pointer
libc.malloc.argtypes = [size_t]
libc.free.argtypes = [pointer]
usable = libc.MallocExtension_Internal_GetAllocatedSize
usable.argtypes, usable.restype = [pointer], size_t

def ask(name):
    value = size_t(4711)
    is_known = get(name.encode() + b"x", size_t(len(name)), ctypes.byref(value))
    return value.value if is_known else None
"""


def run_script(run_shim: RunShim, script: str) -> object:
    result = run_shim([sys.executable, "-S", "-c", PRELUDE + script])
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def properties_have_the_names_of_that_library(run_shim: RunShim) -> None:
    names = ["generic.current_allocated_bytes", "generic.heap_size", "generic.bytes_in_use_by_app",
             "generic.physical_memory_used", "generic.virtual_memory_used", "tcmalloc.cpu_free",
             "tcmalloc.metadata_bytes", "tcmalloc.local_bytes", "tcmalloc.page_heap_free",
             "tcmalloc.external_fragmentation_bytes", "tcmalloc.thread_cache_count"]  # fmt: skip
    unknown = ["generic.heap_siz", "", "tcmalloc.heap_limit_mb"]
    script = f"print(json.dumps([[ask(n) for n in {names}], [ask(n) for n in {unknown}]]))"
    known, others = run_script(run_shim, script)  # type: ignore[misc]
    assert all(value is not None and value != 4711 for value in known)
    assert others == [None] * 3


def allocated_bytes_change_with_one_byte(run_shim: RunShim) -> None:
    """As folly finds out which allocator serves."""
    script = """
name = "generic.current_allocated_bytes"
pairs = []
for i in range(100):
    before = ask(name)
    block = libc.malloc(1)
    pairs.append(ask(name) - before)
print(json.dumps([pairs, usable(block)]))
"""
    pairs, size = run_script(run_shim, script)  # type: ignore[misc]
    assert sum(pair > 0 for pair in pairs) >= 90 and size >= 1


def released_memory_is_counted(run_shim: RunShim) -> None:
    script = """
release = libc.MallocExtension_Internal_ReleaseMemoryToSystem
release.argtypes, release.restype = [size_t], size_t
blocks = [libc.malloc(1 << 20) for _ in range(30)]
for block in blocks:
    ctypes.memset(block, 1, 1 << 20)
for block in blocks:
    libc.free(block)
libc.MallocExtension_Internal_MarkThreadIdle()
libc.MallocExtension_Internal_MarkThreadBusy()
before = ask("tcmalloc.page_heap_unmapped")
some = release(5 << 20)
print(json.dumps([some, ask("tcmalloc.page_heap_unmapped") - before]))
"""
    some, unmapped = run_script(run_shim, script)  # type: ignore[misc]
    assert 5 << 20 <= some <= 8 << 20 and unmapped == some


@each_row(
    "check",
    [properties_have_the_names_of_that_library, allocated_bytes_change_with_one_byte,
     released_memory_is_counted],
)  # fmt: skip
def test_googles_functions(run_shim: RunShim, check: Callable[[RunShim], None]) -> None:
    check(run_shim)


def test_every_property_is_documented() -> None:
    names = set(re.findall(r'"((?:generic|tcmalloc)\.[\w.]+)"',
                           (ROOT / "shim" / "tcmalloc_figures.c").read_text()))  # fmt: skip
    assert len(names) > 30
    text = (ROOT / "docs" / "tcmalloc.md").read_text()
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


# ---- samples ----


def test_a_heap_sample_is_read_by_pprofs_format(run_shim: RunShim, tmp_path: Path) -> None:
    """ReadStackTraces, of the class, with a profile: each entry, to the end."""
    source, program = tmp_path / "sample.cpp", tmp_path / "sample"
    scenario = (ROOT / "tests" / "scenarios" / "malloc_extension.cpp").read_text()
    shown = """int main() {
    for (int i = 0; i < 200; i++) { claim_hide(malloc(100000)); }
    int period = -1;
    void **at = extension()->ReadStackTraces(&period);
    size_t sum = 0;
    for (void **e = at; e[0] != nullptr; e += 3 + (size_t)e[2]) { sum += (size_t)e[1]; }
    delete[] at;
    std::string text;
    extension()->GetHeapSample(&text);
    printf("%d %zu\\n%s", period, sum, text.c_str());
}
"""
    source.write_text(scenario[: scenario.index("int main() {")] + shown)
    include = (f"-I{ROOT}", f"-I{ROOT / 'tests' / 'scenarios'}")
    built = run_captured(["c++", "-w", "-O1", *include, source, "-o", program, "-pthread"])
    assert built.returncode == 0, built.stderr
    env = {"POOLSHIM_PROFILE": str(tmp_path / "p.pb.gz"), "POOLSHIM_PROFILE_INTERVAL": "4096"}
    lines = run_shim([program], env=env).stdout.splitlines()
    period, total = map(int, lines[0].split())
    assert period == 1 and 19_000_000 < total < 24_000_000
    words = lines[1].replace("[", " ").replace("]", " ").replace(":", " ").split()
    assert words[:2] == ["heap", "profile"] and words[-1] == "heap_v2/1"
    assert abs(int(words[3]) - total) < total / 10
    stacks = [line for line in lines[2:] if "] @ 0x" in line]
    assert stacks and "MAPPED_LIBRARIES:" in lines
