# SPDX-License-Identifier: MIT
"""A program may interpose any function of libc that the library calls, by one that allocates.

    python -m pytest tests/shim/test_interposed.py

A preloaded library in front has each function of shim/libc_calls.def, in a few lines of assembly
that end in a jump to the next definition: whatever the arguments are, and so that dlsym(RTLD_NEXT)
still refers to its caller. The chosen one allocates, first: "guarded" not while it does, as careful
hooks do, or "nested" each time.
"""

from __future__ import annotations

import platform
import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured
from table import each_row

pytestmark = pytest.mark.preload

ROWS = re.findall(
    r"^PS_LIBC\((\w+), (\w+)\)", (ROOT / "shim" / "libc_calls.def").read_text(), re.MULTILINE
)
FUNCTIONS = [name for name, when in ROWS if when not in ("VARIABLE", "LOADER")]

# The library's ways: freed blocks checked at exit; reports written from within malloc and at exit.
HARDENED = {"POOLSHIM_HARDEN": "2", "POOLSHIM_GUARD_SAMPLE": "100"}
REPORTING = {
    "POOLSHIM_PROFILE": "/dev/null",
    "POOLSHIM_PROFILE_PEAK": "1",
    "POOLSHIM_PROFILE_INTERVAL": "64KiB",
    "POOLSHIM_STATS": "/dev/null",
    "POOLSHIM_STATS_EVERY": "1",
}

HOOKS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_LIMIT 100

static const char *const names[] = { NAMES };
static const char *const versions[] = { VERSIONS };
static void *next[sizeof names / sizeof names[0]];
static volatile int chosen = -2; /* -1: none; -2: the environment is not there yet */
static int is_nested;
static int calls;
static __thread int depth __attribute__((tls_model("initial-exec")));

static void choose(void) {
    extern char **environ;
    if (environ != NULL) {
        const char *name = getenv("HOOK");
        is_nested = getenv("HOOK_NESTED") != NULL;
        int found = -1;
        for (int i = 0; name != NULL && i < (int)(sizeof names / sizeof names[0]); i++) {
            found = strcmp(names[i], name) == 0 ? i : found;
        }
        chosen = found;
    }
}

static void use_heap(void) {
    void *kept[8] = {0};
    for (int i = 0; i < (is_nested ? 20 : 60); i++) {
        free(kept[i % 8]);
        kept[i % 8] = malloc((size_t)(10 + i * 300));
        memset(kept[i % 8], 0x5a, 10);
    }
    for (int i = 0; i < 8; i++) {
        free(kept[i]);
    }
}

__attribute__((visibility("hidden"))) void *hook(int index) {
    if (next[index] == NULL) {
        next[index] = dlvsym(RTLD_NEXT, names[index], versions[index]);
    }
    if (chosen == -2) {
        choose();
    }
    if (index == chosen && (is_nested || depth == 0)) {
        if (++depth > DEPTH_LIMIT) {
            static const char line[] = "the hook calls itself without end\n";
            (void)!write(2, line, sizeof line - 1);
            _exit(3);
        }
        __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
        use_heap();
        depth--;
    }
    return next[index];
}

__attribute__((destructor)) static void say(void) {
    static const char line[] = "the hook was called\n";
    if (calls != 0) {
        (void)!write(1, line, sizeof line - 1);
    }
}
"""

# Preserves all registers that may have arguments, and the stack as the caller left it.
TRAMPOLINE = """
    .globl {name}
    .type {name}, @function
{name}:
    pushq %rbp
    movq %rsp, %rbp
    pushq %rax; pushq %rdi; pushq %rsi; pushq %rdx; pushq %rcx; pushq %r8; pushq %r9; pushq %r10
    subq $128, %rsp
    movups %xmm0, (%rsp); movups %xmm1, 16(%rsp); movups %xmm2, 32(%rsp); movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp); movups %xmm5, 80(%rsp); movups %xmm6, 96(%rsp); movups %xmm7, 112(%rsp)
    movl ${index}, %edi
    call hook
    movq %rax, %r11
    movups (%rsp), %xmm0; movups 16(%rsp), %xmm1; movups 32(%rsp), %xmm2; movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4; movups 80(%rsp), %xmm5; movups 96(%rsp), %xmm6; movups 112(%rsp), %xmm7
    addq $128, %rsp
    popq %r10; popq %r9; popq %r8; popq %rcx; popq %rdx; popq %rsi; popq %rdi; popq %rax
    popq %rbp
    jmp *%r11
"""

# Blocks of all kinds with their contents checked, by one thread and by several that end; requests
# that fail, in C and in a C++ plugin that the program does not know; a fork; malloc_info; a path.
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLAIM(condition) \
    do { if (!(condition)) { fprintf(stderr, "line %d: " #condition "\n", __LINE__); _exit(1); } } \
    while (0)
#define BLOCKS 64
#define ROUNDS 600
#define THREADS 4

char *mi_realpath(const char *, char *) __attribute__((weak)); /* the library's */

struct block { unsigned char *at; size_t bytes; unsigned char mark; };

static void check(const struct block *block) {
    for (size_t i = 0; i < block->bytes; i += 97) {
        CLAIM(block->at[i] == block->mark);
    }
}

static void *use(void *seed) {
    struct block blocks[BLOCKS] = {{0}};
    uint32_t draw = (uint32_t)(uintptr_t)seed * 2654435761u + 1;
    for (int round = 0; round < ROUNDS; round++) {
        draw = draw * 1664525u + 1013904223u;
        struct block *block = &blocks[(draw >> 8) % BLOCKS];
        size_t bytes = (draw >> 16) % 7 == 0 ? (draw >> 10) % 200000 + 1 : (draw >> 14) % 2000 + 1;
        check(block);
        if (draw >> 30 == 0) {
            size_t kept = block->bytes < bytes ? block->bytes : bytes;
            block->at = realloc(block->at, bytes);
            CLAIM(block->at != NULL);
            block->bytes = kept;
            check(block);
        } else {
            free(block->at);
            block->at = draw >> 30 == 1 ? calloc(1, bytes) : malloc(bytes);
            CLAIM(block->at != NULL);
            CLAIM(draw >> 30 != 1 || (block->at[0] == 0 && block->at[bytes - 1] == 0));
        }
        block->bytes = bytes;
        block->mark = (unsigned char)draw;
        memset(block->at, block->mark, bytes);
        if (round % 200 == 0) {
            errno = 0;
            CLAIM(malloc(SIZE_MAX / 4) == NULL && errno == ENOMEM);
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        check(&blocks[i]);
        free(blocks[i].at);
    }
    return NULL;
}

static void use_once(void) {
    for (int i = 0; i < 20; i++) {
        free(malloc(1000000));
    }
}

/* By code that no file has, which calls its argument: such stacks are searched for the thread of a
 * virtual machine. */
static void use_by_made_code(void) {
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CLAIM(page != MAP_FAILED);
    memcpy(page, code, sizeof code);
    ((void (*)(void (*)(void)))page)(use_once);
}

static void use_in_threads(void) {
    pthread_t threads[THREADS];
    pthread_attr_t usual;
    CLAIM(pthread_attr_init(&usual) == 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], i == 0 ? &usual : NULL, use, (void *)(i + 2)) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
}

int main(int count, char **words) {
    (void)count;
    int status;
    use((void *)1);
    use_by_made_code();
    use_in_threads();
    pid_t child = fork();
    if (child == 0) {
        use((void *)9);
        _exit(0);
    }
    CLAIM(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    use_in_threads();
    FILE *stream = fopen("/dev/null", "w");
    CLAIM(stream != NULL && malloc_info(0, stream) == 0 && fclose(stream) == 0);
    CLAIM(mi_realpath != NULL && mi_realpath("/proc/none", NULL) == NULL);
    void *plugin = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    CLAIM(plugin != NULL);
    void *(*fail)(void) = (void *(*)(void))dlsym(plugin, "fail");
    CLAIM(fail != NULL && fail() == NULL);
    return 0;
}
"""

PLUGIN = r"""
#include <new>
extern "C" void *fail() {
    volatile unsigned long bytes = ~0ul / 4;
    return new (std::nothrow) char[bytes];
}
"""

CLOCK_READER = r"""
import threading, time

def work(count):
    kept = [bytes(100 + i % 700) for i in range(count)]
    for _ in range(4):
        kept = [bytes(len(block) % 3000 + 40) for block in kept]

threads = [threading.Thread(target=work, args=(3000,)) for _ in range(4)]
for thread in threads:
    thread.start()
work(20000)
for thread in threads:
    thread.join()
print(time.gmtime().tm_year)
"""


def undefined_symbols(library: Path) -> dict[str, str]:
    """Undefined symbols and their versions; variables and optional ones may have none."""
    result = run_captured(["nm", "-D", "--undefined-only", library])
    assert result.returncode == 0, result.stderr
    return {name: version for name, version in re.findall(r" [Uw] (\w+)@?(\S*)", result.stdout)}


def test_the_library_needs_what_the_table_says(shim: Path) -> None:
    found = set(undefined_symbols(shim))
    if "__libc_stack_end" not in found:
        pytest.skip("the table is of programs with glibc")
    if platform.machine() == "aarch64":
        found -= {"__getauxval"}  # gcc's functions for atomics ask which instructions there are
    assert found == {name for name, _ in ROWS}


@pytest.fixture(scope="session")
def folder(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hooks, and a program that uses the heap."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        pytest.skip("the hooks are in assembly of x86-64")
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("gcc or g++ is not installed")
    path = tmp_path_factory.mktemp("interposed")
    symbols = undefined_symbols(shim)
    names = ", ".join(f'"{name}"' for name in FUNCTIONS)
    versions = ", ".join(f'"{symbols[name]}"' for name in FUNCTIONS)
    code = "".join(TRAMPOLINE.format(name=name, index=i) for i, name in enumerate(FUNCTIONS))
    (path / "hooks.c").write_text(HOOKS.replace("NAMES", names).replace("VERSIONS", versions))
    (path / "code.S").write_text(f'    .text\n{code}    .section .note.GNU-stack, "", @progbits\n')
    (path / "program.c").write_text(PROGRAM)
    (path / "plugin.cpp").write_text(PLUGIN)
    for command in (
        "gcc -O1 -fno-builtin -fPIC -shared hooks.c code.S -o hooks.so -ldl",
        "gcc -O1 -fno-builtin -pthread program.c -o program -ldl",
        "g++ -O1 -fPIC -shared plugin.cpp -o plugin.so",
    ):
        built = run_captured(command.split(), cwd=path)
        assert built.returncode == 0, built.stderr
    return path


@pytest.mark.parametrize(
    ("kind", "ways"), [("guarded", [{}, HARDENED, REPORTING]), ("nested", [HARDENED, REPORTING])]
)
@each_row("name", FUNCTIONS)
def test_a_function_that_allocates_may_be_interposed(
    run_shim: RunShim, shim: Path, folder: Path, name: str, kind: str, ways: list[dict[str, str]]
) -> None:
    called = 0
    for settings in ways:
        env = {**settings, "HOOK": name, "LD_PRELOAD": f"{folder / 'hooks.so'}:{shim}"}
        if kind == "nested":
            env["HOOK_NESTED"] = "1"
        result = run_shim([folder / "program", folder / "plugin.so"], env=env, preload=False)
        assert (result.returncode, result.stderr) == (0, ""), settings
        called += "the hook was called" in result.stdout
    assert called, "the library has called it nowhere: the test says nothing about it"


@pytest.mark.parametrize("order", ["before", "after"])
def test_python_with_a_clock_from_a_file(
    run_shim: RunShim, shim: Path, tmp_path: Path, order: str
) -> None:
    """libfaketime's clock reads a file, by which it allocates."""
    found = sorted(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("libfaketime is not installed")
    (tmp_path / "stamp").write_text("@2020-01-01 00:00:00\n")
    libraries = [str(found[0]), str(shim)]
    env = {
        "LD_PRELOAD": ":".join(libraries if order == "before" else libraries[::-1]),
        "FAKETIME_TIMESTAMP_FILE": str(tmp_path / "stamp"),
        "FAKETIME_NO_CACHE": "1",
        "PYTHONMALLOC": "malloc",
    }
    result = run_shim([sys.executable, "-S", "-c", CLOCK_READER], env=env, preload=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "2020\n", "")
