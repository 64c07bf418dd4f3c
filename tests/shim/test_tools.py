# SPDX-License-Identifier: MIT
"""Programs under the shim and under tools that look into them or replace malloc themselves.

    scripts/test tests/shim/test_tools.py

Where a tool brings its own malloc, the shim does not interpose, and the tool must find its errors.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import RunShim, run_captured
from under_shim import need

pytestmark = pytest.mark.preload

# Writes past a block of 10 bytes, uses a freed one, or leaks, as asked.
FAULTY = """
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    char *block = malloc(10);
    memset(block, 1, 10);
    char *volatile seen = block;
    if (count > 1 && words[1][0] == 'o') {
        seen[10] = 1;
    }
    free(block);
    if (count > 1 && words[1][0] == 'u') {
        seen[3] = 1;
    }
    if (count > 1 && words[1][0] == 'l') {
        seen = malloc(1234);
        seen = NULL;
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def faulty_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("faulty") / "faulty.c"
    source.write_text(FAULTY)
    return source


def build(source: Path, *command: str) -> Path:
    """The program, or a skip where the compiler cannot make it here."""
    need(command[0])
    program = source.with_name("-".join(word.strip("-").replace("=", "") for word in command))
    arguments = [*command, "-g", "-O0", "-fno-builtin", str(source), "-o", str(program)]
    made = run_captured(arguments, 120)
    if made.returncode != 0:
        pytest.skip(f"{command[0]} cannot build this here: {made.stderr[-200:]}")
    return program


MEMCHECK = ["valgrind", "--leak-check=full", "--error-exitcode=9"]


@pytest.mark.parametrize(
    ("what", "report"),
    [
        ("overflow", "0 bytes after a block of size 10 alloc'd"),
        ("use", "3 bytes inside a block of size 10 free'd"),
        ("leak", "1,234 bytes in 1 blocks are definitely lost"),
    ],
)
def test_memcheck_finds_what_it_is_for(
    run_shim: RunShim, faulty_source: Path, what: str, report: str
) -> None:
    need("valgrind")
    program = build(faulty_source, "gcc")
    result = run_shim([*MEMCHECK, program, what], timeout=120)
    assert report in result.stderr
    assert result.returncode == 9
    assert run_shim([*MEMCHECK, program], timeout=120).returncode == 0


# How the program is built, and whether the shim then may come before the sanitizer's run-time.
SANITIZED = {
    "clang": ["clang-16", "-fsanitize=address"],
    "gcc-static": ["gcc", "-fsanitize=address", "-static-libasan"],
}


@pytest.mark.parametrize("compiler", SANITIZED)
@pytest.mark.parametrize(
    ("what", "report"), [("overflow", "heap-buffer-overflow"), ("use", "heap-use-after-free")]
)
def test_address_sanitizer_inside_the_program_goes_first(
    run_shim: RunShim, faulty_source: Path, compiler: str, what: str, report: str
) -> None:
    program = build(faulty_source, *SANITIZED[compiler])
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    assert f"AddressSanitizer: {report}" in run_shim([program, what], env=env).stderr
    good = run_shim([program], env=env)
    assert (good.returncode, good.stderr) == (0, "")


def test_address_sanitizer_as_a_library_wants_to_be_first(
    run_shim: RunShim, faulty_source: Path
) -> None:
    """It refuses any library preloaded before it, and says so; preloaded first it works."""
    program = build(faulty_source, "gcc", "-fsanitize=address")
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    refused = run_shim([program], env=env)
    assert refused.returncode != 0
    assert "ASan runtime does not come first" in refused.stderr
    runtime = run_captured(["gcc", "-print-file-name=libasan.so"]).stdout.strip()
    shim = run_shim(["/bin/sh", "-c", "echo $LD_PRELOAD"]).stdout.strip()
    first = {**env, "LD_PRELOAD": f"{runtime}:{shim}"}
    found = run_shim([program, "overflow"], env=first, preload=False)
    assert "AddressSanitizer: heap-buffer-overflow" in found.stderr
    assert run_shim([program], env=first, preload=False).returncode == 0


@pytest.fixture
def heap_program(build_dir: Path) -> Path:
    """Uses every regime of the heap from several threads, and checks it."""
    return build_dir / "tests" / "scenarios" / "blocks_outlive_their_thread"


def assert_traced(result: subprocess.CompletedProcess[str]) -> None:
    if re.search("PTRACE|ptrace|not permitted", result.stderr):
        pytest.skip(f"tracing is not permitted here: {result.stderr[-200:]}")
    assert result.returncode == 0, result.stderr[-2000:]
    assert "poolshim:" not in result.stderr + result.stdout


def test_under_strace(run_shim: RunShim, heap_program: Path, tmp_path: Path) -> None:
    need("strace")
    log = tmp_path / "log"
    command = ["strace", "-f", "-o", log, "-e", "trace=mmap,munmap,madvise", heap_program]
    assert_traced(run_shim(command))
    assert "exited with 0" in log.read_text()


def test_under_gdb(run_shim: RunShim, shim: Path, heap_program: Path) -> None:
    """A breakpoint in our malloc, single steps through it, then the rest at full speed."""
    need("gdb")
    # Stepping over a breakpoint in a copy of the instruction, gdb has the address in a register
    # of the thread; `delete` at that moment leaves it there, and the program crashes (gdb 13).
    words = ["-ex", "set displaced-stepping off", "-ex", f"set environment LD_PRELOAD {shim}"]
    words += ["-ex", "break main", "-ex", "run"]
    for command in ("break malloc", "continue", "bt 1", "stepi 40", "delete", "continue"):
        words += ["-ex", command]
    command = ["gdb", "-nx", "-batch", *words, heap_program]
    result = run_shim(command, preload=False, timeout=120)
    assert_traced(result)
    assert re.search(r"#0 .*malloc", result.stdout)
    assert "exited normally" in result.stdout


AUDIT = """
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <unistd.h>
static unsigned bound;
unsigned la_version(unsigned version) { free(malloc(100)); return version; }
unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie) {
    (void)map; (void)id; (void)cookie;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name) {
    (void)index; (void)from; (void)to; (void)flags; (void)name;
    if (bound++ == 0) { write(2, "audited\\n", 8); }
    void *block = malloc(64);
    free(block);
    return symbol->st_value;
}
"""


def test_beside_an_auditing_library(
    run_shim: RunShim, heap_program: Path, tmp_path: Path
) -> None:
    """It has a libc and a heap of its own, and sees every symbol of the program being bound."""
    need("gcc")
    source, library = tmp_path / "audit.c", tmp_path / "audit.so"
    source.write_text(AUDIT)
    built = run_captured(["gcc", "-shared", "-fPIC", source, "-o", library])
    assert built.returncode == 0, built.stderr
    result = run_shim([heap_program], env={"LD_AUDIT": str(library)})
    assert (result.returncode, result.stderr) == (0, "audited\n")


@pytest.mark.parametrize(
    "command",
    [
        ["setarch", "-R"],
        ["sh", "-c", 'ulimit -s unlimited && exec "$@"', "sh"],
        ["sh", "-c", 'ulimit -s unlimited && exec setarch -R "$@"', "sh"],
        ["setarch", "--read-implies-exec"],
    ],
    ids=["no randomisation", "mappings from below", "both", "readable is executable"],
)
def test_address_space_in_another_layout(
    run_shim: RunShim, heap_program: Path, command: list[str]
) -> None:
    need("setarch")
    result = run_shim([*command, heap_program])
    if re.search("setarch: .*(failed|not permitted)|ulimit", result.stderr):
        pytest.skip(result.stderr.strip())
    assert (result.returncode, result.stderr) == (0, "")


def test_the_library_stays_when_it_is_closed(shim: Path) -> None:
    """Threads that end call into it, and its blocks are in use."""
    script = (
        "import ctypes, _ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "_ctypes.dlclose(library._handle)\n"
        "print(open('/proc/self/maps').read().count(sys.argv[1]))\n"
    )
    result = run_captured([sys.executable, "-c", script, str(shim.resolve())], 60)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 0


def test_static_programs_are_not_affected(run_shim: RunShim, faulty_source: Path) -> None:
    program = build(faulty_source, "gcc", "-static")
    result = run_shim([program], env={"POOLSHIM_VERBOSE": "1", "POOLSHIM_STATS": "1"})
    assert (result.returncode, result.stderr) == (0, "")
