# SPDX-License-Identifier: MIT
"""Heaps as objects: poolshim/heap.h, from C and C++ programs, in all modes of the library.

    scripts/test tests/shim/test_heaps.py
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, RunShim
from table import each_row

pytestmark = pytest.mark.preload

PROGRAM = r"""
#include <errno.h>
#include <malloc.h>
#include <poolshim/heap.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #condition, errno);               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static poolshim_heap *create(const char *name, size_t limit) {
    struct poolshim_heap_options options = {
        .bytes = sizeof options, .name = name, .limit_bytes = limit};
    poolshim_heap *heap = poolshim_heap_create(&options);
    REQUIRE(heap != NULL);
    return heap;
}

static struct poolshim_heap_stats stats_of(poolshim_heap *heap) {
    struct poolshim_heap_stats stats;
    REQUIRE(poolshim_heap_stats_read(heap, &stats, sizeof stats) == 0);
    REQUIRE(stats.bytes == sizeof stats);
    return stats;
}

static void *free_it(void *block) {
    free(block);
    return NULL;
}

static void blocks(void) {
    poolshim_heap *heap = create("blocks", 0);
    size_t count = 0;
    void *made[200];
    for (size_t bytes = 0; bytes < 40 << 20; bytes = bytes * 5 / 4 + 1) {
        char *block = poolshim_heap_zalloc(heap, bytes);
        REQUIRE(block != NULL && (bytes == 0 || (block[0] == 0 && block[bytes - 1] == 0)));
        memset(block, 1, bytes);
        REQUIRE(malloc_usable_size(block) >= bytes);
        REQUIRE(poolshim_heap_of(block) == heap);
        made[count++] = block;
    }
    REQUIRE(stats_of(heap).live_count == count);
    for (size_t i = 0; i < count; i += 2) {
        made[i] = realloc(made[i], 3000 + i);
        REQUIRE(made[i] != NULL && poolshim_heap_of(made[i]) == heap);
    }
    pthread_t thread;
    for (size_t i = 0; i < count; i++) {
        if (i % 8 == 0) {
            REQUIRE(pthread_create(&thread, NULL, free_it, made[i]) == 0);
            pthread_join(thread, NULL);
        } else {
            free(made[i]);
        }
    }
    struct poolshim_heap_stats stats = stats_of(heap);
    REQUIRE(stats.live_bytes == 0 && stats.live_count == 0 && strcmp(stats.name, "blocks") == 0);
    for (size_t align = 1; align <= 1 << 24; align *= 2) {
        void *block = poolshim_heap_alloc_aligned(heap, 100, align);
        REQUIRE(block != NULL && (size_t)block % align == 0);
    }
    REQUIRE(poolshim_heap_destroy(heap) == 0);
}

static void moves(void) {
    poolshim_heap *a = create("a", 0), *b = create("b", 0);
    char *block = malloc(50);
    strcpy(block, "text");
    REQUIRE(poolshim_heap_of(block) == NULL && poolshim_heap_of(NULL) == NULL);
    REQUIRE(poolshim_heap_of(&block) == NULL);
    block = poolshim_heap_realloc(a, block, 5000);
    REQUIRE(strcmp(block, "text") == 0 && poolshim_heap_of(block) == a);
    block = poolshim_heap_realloc(b, block, 200000);
    REQUIRE(strcmp(block, "text") == 0 && poolshim_heap_of(block) == b);
    block = realloc(block, 10);
    REQUIRE(strcmp(block, "text") == 0 && poolshim_heap_of(block) == b);
    REQUIRE(stats_of(a).live_count == 0 && stats_of(b).live_count == 1);
    free(block);
    free(poolshim_heap_realloc(a, NULL, 0));
    REQUIRE(poolshim_heap_destroy(a) == 0 && poolshim_heap_delete(b) == 0);
}

static void limits(void) {
    poolshim_heap *heap = create("limited", 1 << 20);
    size_t served = 0;
    errno = 0;
    while (poolshim_heap_alloc(heap, 1000) != NULL) {
        served++;
    }
    struct poolshim_heap_stats stats = stats_of(heap);
    REQUIRE(errno == ENOMEM && served > 900 && served <= 1048);
    REQUIRE(stats.live_bytes <= 1 << 20 && stats.peak_bytes <= stats.limit_bytes);
    REQUIRE(stats.refused_count == 1 && malloc(1000) != NULL);
    REQUIRE(poolshim_heap_alloc(heap, (size_t)-1) == NULL && errno == ENOMEM);
    REQUIRE(poolshim_heap_alloc(heap, (size_t)-4097) == NULL && errno == ENOMEM);
    REQUIRE(poolshim_heap_destroy(heap) == 0);
}

static void refusals(void) {
    struct poolshim_heap_options options = {.bytes = sizeof options, .limit_bytes = 100};
    struct {
        struct poolshim_heap_options known;
        size_t more;
    } later = {{sizeof later, "x", 0}, 0};
    REQUIRE(poolshim_heap_create(&options) == NULL && errno == EINVAL);
    options = (struct poolshim_heap_options){.bytes = 3};
    REQUIRE(poolshim_heap_create(&options) == NULL && errno == EINVAL);
    poolshim_heap *heap = poolshim_heap_create(&later.known);
    REQUIRE(heap != NULL && poolshim_heap_destroy(heap) == 0);
    later.more = 1;
    REQUIRE(poolshim_heap_create(&later.known) == NULL && errno == ENOTSUP);
    struct poolshim_heap_stats stats;
    int place;
    poolshim_heap *none[] = {NULL, heap, (poolshim_heap *)&place, (poolshim_heap *)-1,
                             (poolshim_heap *)1};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        errno = 0;
        REQUIRE(poolshim_heap_alloc(none[i], 1) == NULL && errno == EINVAL);
        REQUIRE(poolshim_heap_zalloc(none[i], 1) == NULL && errno == EINVAL);
        REQUIRE(poolshim_heap_destroy(none[i]) == -1 && errno == EINVAL);
        REQUIRE(poolshim_heap_delete(none[i]) == -1 && errno == EINVAL);
        REQUIRE(poolshim_heap_stats_read(none[i], &stats, sizeof stats) == -1 && errno == EINVAL);
    }
    poolshim_heap *next = create("next", 0); /* has the record of the first one */
    REQUIRE(next != heap && poolshim_heap_destroy(heap) == -1 && errno == EINVAL);
    REQUIRE(poolshim_heap_alloc_aligned(next, 1, 3) == NULL && errno == EINVAL);
    REQUIRE(poolshim_heap_alloc_aligned(next, 1, 0) == NULL && errno == EINVAL);
    REQUIRE(poolshim_heap_alloc_aligned(next, 1, (size_t)1 << 63) == NULL && errno == ENOMEM);
    REQUIRE(poolshim_heap_stats_read(next, NULL, 8) == -1 && errno == EINVAL);
    REQUIRE(poolshim_heap_stats_read(next, &stats, 7) == -1 && errno == EINVAL);
    REQUIRE(poolshim_heap_delete(next) == 0);
}

static void deletion(void) {
    poolshim_heap *heap = create("deleted", 0);
    char *small = poolshim_heap_alloc(heap, 100), *large = poolshim_heap_alloc(heap, 100000);
    REQUIRE(poolshim_heap_delete(heap) == 0 && poolshim_heap_alloc(heap, 1) == NULL);
    memset(large, 1, 100000);
    free(large);
    small = realloc(small, 90);
    REQUIRE(small != NULL && poolshim_heap_of(small) == NULL);
    free(small);
}

static void many(void) {
    static poolshim_heap *heaps[3000];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 3000; i++) {
            heaps[i] = create(NULL, 0);
            memset(poolshim_heap_alloc(heaps[i], 64 + i), 1, 64 + i);
        }
        for (size_t i = 0; i < 3000; i++) {
            REQUIRE(poolshim_heap_destroy(heaps[i]) == 0);
        }
    }
}

static void in_child(void) {
    poolshim_heap *heap = create("forked", 0);
    char *block = poolshim_heap_alloc(heap, 100), *large = poolshim_heap_alloc(heap, 1 << 20);
    pid_t child = fork();
    if (child == 0) {
        free(block);
        free(large);
        REQUIRE(poolshim_heap_zalloc(heap, 70000) != NULL);
        REQUIRE(poolshim_heap_destroy(heap) == 0);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    REQUIRE(status == 0 && stats_of(heap).live_count == 2);
    REQUIRE(poolshim_heap_destroy(heap) == 0);
}

static void misuse(const char *name) {
    poolshim_heap *heap = create("misused", 0);
    char *kept = poolshim_heap_alloc(heap, 100), *block = poolshim_heap_alloc(heap, 100);
    char *large = poolshim_heap_alloc(heap, 100000);
    if (strcmp(name, "twice") == 0) {
        free(block);
        free(block);
    } else if (strcmp(name, "large_twice") == 0) {
        free(large);
        free(large);
    } else if (strcmp(name, "interior") == 0) {
        free(block + 16);
    } else if (strcmp(name, "after") == 0) {
        poolshim_heap_destroy(heap);
        free(kept);
    } else if (strcmp(name, "large_after") == 0) {
        poolshim_heap_destroy(heap);
        free(large);
    }
}

static void stays(void) {
    poolshim_heap *named = create("sess\"ion\xff\n", 1 << 20);
    poolshim_heap *other = create("other", 0);
    for (int i = 0; i < 100; i++) {
        poolshim_heap_alloc(named, 1000);
        poolshim_heap_alloc(other, 20000);
        poolshim_heap_alloc(other, 100000);
    }
    puts("ready");
    fflush(stdout);
    getchar();
}

int main(int count, char **words) {
    if (!poolshim_heaps_are_there()) {
        puts("no heaps");
    } else if (count == 3) {
        misuse(words[2]);
    } else if (count == 2) {
        stays();
    } else {
        blocks(), moves(), limits(), refusals(), deletion(), many(), in_child();
        puts("well");
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heaps")
    (folder / "heaps.c").write_text(PROGRAM)
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-g", "-pthread",
             "-Wno-use-after-free", "-Wno-free-nonheap-object"]  # fmt: skip
    subprocess.run(["gcc", *flags, f"-I{ROOT}/pools/include", folder / "heaps.c", "-o",
                    folder / "heaps"], check=True, timeout=60)  # fmt: skip
    return folder / "heaps"


MODES: list[dict[str, str]] = [
    {}, {"POOLSHIM_HARDEN": "1"}, {"POOLSHIM_HARDEN": "2"}, {"POOLSHIM_HARDEN": "3"},
    {"POOLSHIM_GUARD_SAMPLE": "100"}, {"POOLSHIM_LIMIT": "512MiB"},
    {"POOLSHIM_PURGE_DELAY_MS": "0"}, {"POOLSHIM_SIZE_CLASSES": "64,1024,4096"},
]  # fmt: skip


def test_heaps_serve_in_all_modes(run_shim: RunShim, program: Path, tmp_path: Path) -> None:
    plain = run_shim([program], preload=False)
    assert (plain.returncode, plain.stdout) == (0, "no heaps\n")
    files = {name: str(tmp_path / name) for name in ("profile", "record", "trace")}
    modes = [*MODES, {"POOLSHIM_PROFILE": files["profile"]}, {"POOLSHIM_RECORD": files["record"]},
             {"POOLSHIM_TRACE": files["trace"]}]  # fmt: skip
    failed = {}
    for mode in modes:
        result = run_shim([program], env=mode)
        if (result.returncode, result.stdout, result.stderr) != (0, "well\n", ""):
            failed[str(mode)] = (result.returncode, result.stderr[-500:])
    assert failed == {}
    sizes = json.loads(Path(files["record"]).read_text())
    assert sizes, "the record of a run with heaps has their blocks"


@each_row(
    "name, level, words",
    [
        ("twice", "0", "double free of 0x"),
        ("twice", "1", "double free of 0x"),
        ("twice", "2", "double free of 0x"),
        ("large_twice", "0", "poolshim: "),
        ("large_twice", "2", "poolshim: "),
        ("interior", "0", "free of interior pointer 0x"),
        ("interior", "3", "free of interior pointer 0x"),
        ("after", "0", "poolshim: "),
        ("after", "3", "poolshim: "),
        ("large_after", "0", "poolshim: "),
    ],
)
def test_misuse_is_one_line(
    run_shim: RunShim, program: Path, name: str, level: str, words: str
) -> None:
    result = run_shim([program, "misuse", name], env={"POOLSHIM_HARDEN": level})
    assert result.returncode == -6
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_the_headers_example_builds_and_runs(
    run_shim: RunShim, tmp_path: Path, compiler: str
) -> None:
    text = (ROOT / "pools" / "include" / "poolshim" / "heap.h").read_text()
    comment = text[: text.index("*/", text.index("heap.h - "))]
    lines = [line.removeprefix(" *") for line in comment.splitlines()]
    example = "\n".join(line[5:] for line in lines if line.startswith("     ") or not line) + "\n"
    if compiler == "g++":  # C++ converts no void *
        example = example.replace("poolshim_heap_alloc(", "(char *)poolshim_heap_alloc(")
    source = tmp_path / ("example.c" if compiler == "gcc" else "example.cpp")
    source.write_text(example)
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/pools/include", source,
                    "-o", tmp_path / "example"], check=True, timeout=60)  # fmt: skip
    assert run_shim([tmp_path / "example"], preload=False).returncode == 0
    result = run_shim([tmp_path / "example"])
    assert (result.returncode, result.stderr) == (0, "")


def test_reports_have_the_heaps(
    run_shim: RunShim, program: Path, tmp_path: Path, build_dir: Path
) -> None:
    """At exit, and from outside of the process: the same rows."""
    report = tmp_path / "stats.json"
    env = {"POOLSHIM_STATS": str(report), "LD_PRELOAD": str(build_dir / "libpoolshim.so")}
    with subprocess.Popen([program, "stays"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=env, text=True) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        command = [ROOT / "scripts" / "poolshim", "stats", str(process.pid)]
        live = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
        table = subprocess.run(command, check=True, capture_output=True, text=True)
        process.communicate("\n", timeout=60)
    rows = {one["name"]: one for one in json.loads(report.read_text())["heaps"]}
    assert rows == {one["name"]: one for one in json.loads(live.stdout)["heaps"]}
    assert list(rows) == ["other", 'sess"ion??']
    assert rows["other"]["live_count"] == 200
    assert rows["other"]["mapped_bytes"] >= rows["other"]["live_bytes"] >= 100 * 120000
    assert rows['sess"ion??']["limit_bytes"] == 1 << 20
    assert re.search(r"^heaps: 2$", table.stdout, re.MULTILINE)
    assert re.search(r'^ +200 .* 0  "other"$', table.stdout, re.MULTILINE)
    assert re.search(r' 1048576 .*  "sess\?ion\?\?"$', table.stdout, re.MULTILINE)
