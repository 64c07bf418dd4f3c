# SPDX-License-Identifier: MIT
"""Allocation tokens of Clang: each symbol by hand, programs of a compiler that has them, and that
no page serves two kinds of types over time.

    scripts/test tests/shim/test_tokens.py
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured

pytestmark = pytest.mark.preload

CALLS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s, line %d: %s, errno %d\n", symbol, __LINE__, #condition, errno);   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct sized {
    void *block;
    size_t bytes;
};
typedef uintptr_t word;
static char symbol[200];
static const char nothrow;

/* All are called with as many words as the longest has; what a callee does not take is ignored. */
typedef void *function(word a, word b, word c, word d, word e);
typedef struct sized sized_function(word a, word b, word c, word d, word e);

/* arguments: s size, n count, a alignment, p block, r result, t std::nothrow, h hint */
static const struct {
    const char *name, *arguments;
} forms[] = {
    {"malloc", "s"},
    {"calloc", "ns"},
    {"realloc", "ps"},
    {"reallocarray", "pns"},
    {"posix_memalign", "ras"},
    {"aligned_alloc", "as"},
    {"memalign", "as"},
    {"valloc", "s"},
    {"pvalloc", "s"},
    {"_Znwm", "s"},
    {"_Znam", "s"},
    {"_ZnwmRKSt9nothrow_t", "st"},
    {"_ZnamRKSt9nothrow_t", "st"},
    {"_ZnwmSt11align_val_t", "sa"},
    {"_ZnamSt11align_val_t", "sa"},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", "sat"},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", "sat"},
    {"_Znwm12__hot_cold_t", "sh"},
    {"_Znam12__hot_cold_t", "sh"},
    {"_ZnwmRKSt9nothrow_t12__hot_cold_t", "sth"},
    {"_ZnamRKSt9nothrow_t12__hot_cold_t", "sth"},
    {"_ZnwmSt11align_val_t12__hot_cold_t", "sah"},
    {"_ZnamSt11align_val_t12__hot_cold_t", "sah"},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t", "sath"},
    {"_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t", "sath"},
    {"__size_returning_new", "s"},
    {"__size_returning_new_hot_cold", "sh"},
    {"__size_returning_new_aligned", "sa"},
    {"__size_returning_new_aligned_hot_cold", "sah"},
};
#define FORMS (sizeof forms / sizeof forms[0])

static void *call(size_t form, size_t size, int id, size_t token) {
    void *result = NULL, *old = NULL;
    word words[5] = {0};
    size_t count = 0;
    for (const char *at = forms[form].arguments; *at != 0; at++) {
        old = *at == 'p' && size > 50 ? malloc(40) : old;
        words[count++] = *at == 's'   ? size
                         : *at == 'n' ? 1
                         : *at == 'a' ? 64
                         : *at == 'p' ? (word)old
                         : *at == 'r' ? (word)&result
                         : *at == 't' ? (word)&nothrow
                                      : 7;
    }
    if (id < 0) {
        snprintf(symbol, sizeof symbol, "__alloc_token_%s", forms[form].name);
        words[count] = token;
    } else {
        snprintf(symbol, sizeof symbol, "__alloc_token_%d_%s", id, forms[form].name);
    }
    void *found = dlsym(RTLD_DEFAULT, symbol);
    REQUIRE(found != NULL);
    if (strstr(symbol, "size_returning") != NULL) {
        struct sized sized =
            ((sized_function *)found)(words[0], words[1], words[2], words[3], words[4]);
        REQUIRE(sized.bytes == malloc_usable_size(sized.block));
        return sized.block;
    }
    void *block = ((function *)found)(words[0], words[1], words[2], words[3], words[4]);
    if (strchr(forms[form].arguments, 'r') != NULL) {
        REQUIRE((int)(word)block == 0);
        return result;
    }
    return block;
}

/* A page of each slot: two blocks of different slots never share one. */
#define SLOTS 64
#define STAYS (SLOTS - 1) /* of realloc with id 0 */
static uintptr_t pages[SLOTS][1000];
static size_t page_count[SLOTS];

static void note(int slot, void *block) {
    uintptr_t page = (uintptr_t)block >> 12;
    for (int other = 0; other < SLOTS; other++) {
        for (size_t i = 0; i < page_count[other]; i++) {
            REQUIRE(other == slot || pages[other][i] != page);
        }
    }
    if (page_count[slot] < 1000) {
        pages[slot][page_count[slot]++] = page;
    }
}

static void free_as_made(size_t form, void *block) {
    const char *name = forms[form].name;
    const char *as =
        strncmp(name, "_Znwm", 5) == 0 && strstr(name, "align") != NULL   ? "_ZdlPvSt11align_val_t"
        : strncmp(name, "_Znam", 5) == 0 && strstr(name, "align") != NULL ? "_ZdaPvSt11align_val_t"
        : strstr(name, "returning_new_aligned") != NULL                   ? "_ZdlPvSt11align_val_t"
        : strncmp(name, "_Znam", 5) == 0                                  ? "_ZdaPv"
        : strncmp(name, "_Znwm", 5) == 0 || strstr(name, "returning") != NULL ? "_ZdlPv"
                                                                              : "free";
    ((void (*)(void *, size_t))dlsym(RTLD_DEFAULT, as))(block, 64);
}

int main(void) {
    static const struct {
        size_t token;
        int slot;
    } tokens[] = {{0, 0},
                  {3, 3},
                  {7, 7},
                  {8, 8},
                  {9, 9},
                  {1000, 10},
                  {1023, 11},
                  {1024, 12},
                  {5000, 12},
                  {((size_t)1 << 32) + 5, 13},
                  {SIZE_MAX / 2 - 2, 13},
                  {SIZE_MAX / 2, 14},
                  {SIZE_MAX, 14},
                  {SIZE_MAX - 1, 15}};
    for (size_t form = 0; form < FORMS; form++) {
        for (size_t size = 1; size < 300000; size = size * 7 + 3) {
            void *made[32];
            size_t count = 0;
            for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
                made[count++] = call(form, size, -1, tokens[i].token);
                bool stays =
                    strchr(forms[form].arguments, 'p') != NULL && size > 50 && tokens[i].slot == 0;
                note(stays ? STAYS : tokens[i].slot, made[count - 1]);
            }
            for (int id = 0; id < 8; id++) {
                made[count++] = call(form, size, id, 0);
                bool stays = strchr(forms[form].arguments, 'p') != NULL && size > 50 && id == 0;
                note(stays ? STAYS : id, made[count - 1]);
            }
            for (size_t i = 0; i < count; i++) {
                REQUIRE(made[i] != NULL && malloc_usable_size(made[i]) >= size);
                REQUIRE(strchr(forms[form].arguments, 'a') == NULL || (word)made[i] % 64 == 0);
                if (strcmp(forms[form].name, "calloc") == 0) {
                    REQUIRE(((char *)made[i])[0] == 0 && ((char *)made[i])[size - 1] == 0);
                }
                memset(made[i], 1, size);
                free_as_made(form, made[i]);
            }
        }
    }
    REQUIRE(((function *)dlsym(RTLD_DEFAULT, "__alloc_token_malloc"))(SIZE_MAX, 1, 0, 0, 0) ==
            NULL);
    REQUIRE(errno == ENOMEM);
    REQUIRE(((function *)dlsym(RTLD_DEFAULT, "__alloc_token_calloc"))(SIZE_MAX / 2, 3, 1, 0, 0) ==
            NULL);
    void *block = ((function *)dlsym(RTLD_DEFAULT, "__alloc_token_malloc"))(0, 1, 0, 0, 0);
    REQUIRE(block != NULL);
    REQUIRE(((function *)dlsym(RTLD_DEFAULT, "__alloc_token_realloc"))((word)block, 0, 1, 0, 0) ==
            NULL);
    puts("well");
    return 0;
}
"""

STRESS = r"""
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *__alloc_token_malloc(size_t size, size_t token);
void *__alloc_token_calloc(size_t count, size_t size, size_t token);
void *__alloc_token_realloc(void *block, size_t size, size_t token);
void *__alloc_token_aligned_alloc(size_t align, size_t size, size_t token);
void *__alloc_token__Znwm(size_t size, size_t token);
void _ZdlPv(void *block);

#define THREADS 4
#define PLACES 20000
#define PAGE_BITS 23

static const size_t tokens[] = {5, SIZE_MAX - 5}; /* data, by its id; pointers */
static uint64_t x_pages[(size_t)1 << PAGE_BITS];  /* page << 2 | owner; 0: empty */
static struct {
    pthread_mutex_t lock;
    char *block;
    size_t bytes;
    int owner;
    bool is_new;
} places[PLACES];
static size_t calls;
static int x_failures;

static void note(const char *block, size_t bytes, int owner) {
    for (uintptr_t page = (uintptr_t)block >> 12; page <= ((uintptr_t)block + bytes - 1) >> 12;
         page++) {
        uint64_t wanted = (uint64_t)page << 2 | (uint64_t)owner;
        size_t at = page * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PAGE_BITS);
        for (;; at = (at + 1) % ((size_t)1 << PAGE_BITS)) {
            uint64_t found = __atomic_load_n(&x_pages[at], __ATOMIC_RELAXED);
            if (found == 0 && __atomic_compare_exchange_n(&x_pages[at], &found, wanted, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                break;
            }
            if (found >> 2 == page) {
                if (found != wanted && __atomic_fetch_add(&x_failures, 1, __ATOMIC_RELAXED) < 5) {
                    fprintf(stderr, "page %#zx of %d serves %d\n", (size_t)page, (int)(found & 3),
                            owner);
                }
                break;
            }
        }
    }
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t size_of(uint64_t random) {
    uint64_t kind = random % 1000;
    size_t limit = kind < 700 ? 256 : kind < 930 ? 4096 : kind < 995 ? 65536 : 600000;
    return (random >> 20) % limit + 1;
}

static char *make(int owner, size_t size, uint64_t kind) {
    if (owner == 2) {
        return kind == 0 ? calloc(1, size) : malloc(size);
    }
    size_t token = tokens[owner];
    return kind == 0   ? __alloc_token_calloc(1, size, token)
           : kind == 1 ? __alloc_token_aligned_alloc((size_t)16 << size % 9, size, token)
           : kind == 2 ? __alloc_token__Znwm(size, token)
                       : __alloc_token_malloc(size, token);
}

static void *run(void *seed) {
    uint64_t state = (uintptr_t)seed * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < calls / THREADS; i++) {
        uint64_t random = next(&state);
        size_t at = random % PLACES, size = size_of(next(&state));
        int owner = (int)(random >> 32) % 3;
        uint64_t kind = (random >> 40) % 8;
        pthread_mutex_lock(&places[at].lock);
        char *block = places[at].block;
        bool is_new = block == NULL && owner != 2 && kind == 2;
        if (block != NULL && kind == 3 && places[at].owner != 2 && !places[at].is_new) {
            owner = owner == 2 ? places[at].owner : owner; /* to the other partition, or not */
            block = __alloc_token_realloc(block, size, tokens[owner]);
        } else if (block != NULL) {
            memset(block, 0xdd, places[at].bytes < 64 ? places[at].bytes : 64);
            (places[at].is_new ? _ZdlPv : free)(block);
            block = NULL;
        } else {
            block = make(owner, size, kind);
            if (kind == 0 && (block[0] != 0 || block[size - 1] != 0)) {
                __atomic_fetch_add(&x_failures, 1, __ATOMIC_RELAXED);
            }
            block[0] = block[size - 1] = 1;
        }
        if (block != NULL) {
            note(block, size, owner);
        }
        places[at].block = block;
        places[at].bytes = size;
        places[at].owner = owner;
        places[at].is_new = is_new;
        pthread_mutex_unlock(&places[at].lock);
        if (i % 65536 == 65535) { /* now and then all return their memory */
            malloc_trim(0);
        }
    }
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[THREADS];
    calls = strtoul(words[count - 1], NULL, 10);
    for (size_t i = 0; i < PLACES; i++) {
        pthread_mutex_init(&places[i].lock, NULL);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, run, (void *)(i + 1));
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    size_t pages[3] = {0}, noted = 0;
    for (size_t i = 0; i < (size_t)1 << PAGE_BITS; i++) {
        noted += x_pages[i] != 0;
        pages[x_pages[i] & 3] += x_pages[i] != 0;
    }
    printf("%d failures, %zu %zu %zu pages\n", x_failures, pages[0], pages[1], pages[2]);
    return x_failures != 0 || noted == 0;
}
"""


def built(folder: Path, text: str, *flags: str) -> Path:
    (folder / "program.c").write_text(text)
    subprocess.run(["gcc", "-std=gnu2x", "-O1", "-g", "-pthread", folder / "program.c", "-o",
                    folder / "program", *flags], check=True, timeout=60)  # fmt: skip
    return folder / "program"


def test_each_symbol_serves_its_partition(run_shim: RunShim, tmp_path: Path) -> None:
    program = built(tmp_path, CALLS, "-ldl", "-lstdc++")
    for level in ("0", "1", "2", "3"):
        result = run_shim([program], env={"POOLSHIM_HARDEN": level})
        assert (result.returncode, result.stdout, result.stderr) == (0, "well\n", ""), level


def stress(build_dir: Path, folder: Path, calls: int, **env: str) -> None:
    program = built(folder, STRESS, f"-L{build_dir}", f"-Wl,-rpath,{build_dir}", "-lpoolshim")
    result = run_captured([program, str(calls)], timeout=1500, env=env)
    assert result.stderr == ""
    found = re.fullmatch(r"0 failures, (\d+) (\d+) (\d+) pages\n", result.stdout)
    assert found is not None, result.stdout
    assert min(int(count) for count in found.groups()) > 1000
    assert result.returncode == 0


def test_no_page_serves_two_kinds(build_dir: Path, tmp_path: Path) -> None:
    stress(build_dir, tmp_path, 1000000)


def test_no_page_serves_two_kinds_in_a_hardened_process(build_dir: Path, tmp_path: Path) -> None:
    stress(build_dir, tmp_path, 200000, POOLSHIM_HARDEN="3")


@pytest.mark.nightly
def test_no_page_serves_two_kinds_in_ten_million_calls(build_dir: Path, tmp_path: Path) -> None:
    stress(build_dir, tmp_path, 10000000)


COMPILED = r"""
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <string>
#include <vector>

struct Node {
    Node *next;
    long value;
};
struct Sample {
    double values[8];
};

int main() {
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<Sample *> samples;
    for (int i = 0; i < 1000; i++) {
        nodes.emplace_back(new Node());
        samples.push_back(new Sample[2]);
        free(realloc(malloc(10), 100));
    }
    malloc_stats();
    for (auto *sample : samples) {
        delete[] sample;
    }
    return 0;
}
"""

NO_TOKENS = "no clang++-22 or later (apt-get install clang-22), which has allocation tokens"


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], ["token data", "token pointers"]),
        (["-falloc-token-max=2"], ["token 0", "token 1"]),
        (["-falloc-token-max=2", "-fsanitize-alloc-token-fast-abi"], ["token 0", "token 1"]),
    ],
)
def test_programs_of_clang_have_partitions(
    build_dir: Path, tmp_path: Path, flags: list[str], names: list[str]
) -> None:
    compiler = next(filter(None, (shutil.which(f"clang++-{i}") for i in range(30, 21, -1))), None)
    if compiler is None:
        pytest.skip(NO_TOKENS)
    (tmp_path / "program.cpp").write_text(COMPILED)
    subprocess.run([compiler, "-std=c++17", "-O1", "-fsanitize=alloc-token", *flags,
                    tmp_path / "program.cpp", "-o", tmp_path / "program", f"-L{build_dir}",
                    f"-Wl,-rpath,{build_dir}", "-lpoolshim"], check=True, timeout=120)  # fmt: skip
    result = run_captured([tmp_path / "program"], timeout=60)
    assert result.returncode == 0
    live = re.findall(r'^ +(\d+) .*  "(token \w+)(?: \d)?"$', result.stderr, re.MULTILINE)
    for name in names:
        assert sum(int(count) for count, kind in live if kind == name) >= 1000
