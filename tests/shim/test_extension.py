# SPDX-License-Identifier: MIT
"""The functions of poolshim/poolshim.h that read figures, purge and set, from a C program.

    scripts/test tests/shim/test_extension.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured
from table import each_row

pytestmark = pytest.mark.preload

PROGRAM = """
#include <errno.h>
#include <poolshim/poolshim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const errors[] = {
    [0] = "0", [EINVAL] = "EINVAL", [ENOENT] = "ENOENT", [EPERM] = "EPERM", [ENOTSUP] = "ENOTSUP"};

static long resident(void) {
    char text[64] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = fgets(text, sizeof text, file) != NULL ? atol(strchr(text, ' ')) : 0;
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static struct poolshim_stats read_stats(void) {
    struct poolshim_stats stats;
    if (poolshim_stats_read(&stats, sizeof stats) != 0 || stats.bytes != sizeof stats) {
        abort();
    }
    return stats;
}

static void fill_and_free(size_t bytes, size_t count) {
    void *blocks[1000];
    for (size_t i = 0; i < count; i++) {
        blocks[i] = memset(malloc(bytes), 1, bytes);
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

/* set NAME VALUE: the error. */
static int set(int count, char **words) {
    for (int i = 2; i + 1 < count; i += 2) {
        errno = 0;
        int failed = poolshim_set(words[i], words[i + 1]);
        printf("%s%s", i == 2 ? "" : " ", failed == (errno != 0 ? -1 : 0) ? errors[errno] : "?");
    }
    return 0;
}

void *blocks[300];

static int stats(void) {
    struct poolshim_stats before = read_stats();
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = malloc(1000);
        blocks[100 + i] = malloc(100000);
        blocks[200 + i] = malloc((size_t)40 << 20);
    }
    struct poolshim_stats after = read_stats();
    poolshim_stats_write("now.json");
    printf("{\\"small\\": [%llu, %llu], \\"run\\": [%llu, %llu], \\"large\\": [%llu, %llu],"
           " \\"live\\": [%llu, %llu], \\"mapped\\": %llu, \\"span\\": %llu, \\"threads\\": %llu}",
           (unsigned long long)(after.small_live_bytes - before.small_live_bytes),
           (unsigned long long)(after.small_live_count - before.small_live_count),
           (unsigned long long)(after.run_live_bytes - before.run_live_bytes),
           (unsigned long long)(after.run_live_count - before.run_live_count),
           (unsigned long long)(after.large_live_bytes - before.large_live_bytes),
           (unsigned long long)(after.large_live_count - before.large_live_count),
           (unsigned long long)after.live_bytes, (unsigned long long)after.live_count,
           (unsigned long long)after.mapped_bytes, (unsigned long long)after.small_slab_bytes,
           (unsigned long long)after.thread_count);
    return 0;
}

/* A program that was built with another header. */
static int sizes(void) {
    struct { struct poolshim_stats known; unsigned long long more[4]; } newer;
    struct { size_t bytes; unsigned long long live_bytes, live_count, guard; } older = {.guard = 7};
    memset(&newer, 0xff, sizeof newer);
    int failed = poolshim_stats_read(&newer.known, sizeof newer);
    printf("%d %d %d ", failed, newer.known.bytes == sizeof newer.known,
           newer.more[0] == 0 && newer.more[3] == 0);
    failed = poolshim_stats_read((struct poolshim_stats *)&older, 24);
    printf("%d %zu %d %d ", failed, older.bytes, older.live_bytes > 0, older.guard == 7);
    errno = 0;
    failed = poolshim_stats_read((struct poolshim_stats *)&older, 7);
    printf("%d %s ", failed, errors[errno]);
    errno = 0;
    failed = poolshim_stats_read(NULL, 100);
    printf("%d %s", failed, errors[errno]);
    return 0;
}

static int purge(void) {
    fill_and_free(300000, 200);
    long full = resident();
    errno = 0;
    size_t first = poolshim_purge(0);
    long empty = resident();
    size_t second = poolshim_purge(0);
    fill_and_free(300000, 200);
    (void)poolshim_purge((size_t)20 << 20);
    printf("[%ld, %ld, %zu, %zu, %ld, %d]", full, empty, first, second, resident(), errno);
    return 0;
}

/* What a delay set at run time does to freed memory. */
static int slow(void) {
    poolshim_purge(0);
    long least = resident();
    fill_and_free(300000, 200);
    fill_and_free(16, 1000);
    long kept = resident();
    poolshim_set("purge-delay-ms", "0");
    for (int i = 0; i < 10000; i++) {
        free(malloc((size_t)700000 + (size_t)i));
    }
    printf("[%ld, %ld, %ld]", least, kept, resident());
    return 0;
}

/* The peaks of two parts, at two intervals. */
static int peaks(void) {
    errno = 0;
    int failed = poolshim_peak_begin();
    printf("[\\"%s\\"", failed == (errno != 0 ? -1 : 0) ? errors[errno] : "?");
    fill_and_free(100000, 300);
    fill_and_free(100000, 100);
    printf(", %llu", (unsigned long long)read_stats().sampled_peak_bytes);
    poolshim_set("PROFILE_INTERVAL", "64");
    free(malloc(1 << 20));
    poolshim_peak_begin();
    fill_and_free(1000, 100);
    printf(", %llu]", (unsigned long long)read_stats().sampled_peak_bytes);
    return 0;
}

int main(int count, char **words) {
    if (poolshim_stats_read == NULL || poolshim_purge == NULL || poolshim_set == NULL ||
        poolshim_peak_begin == NULL) {
        return 3;
    }
    switch (words[1][1]) {
    case 't': return stats();
    case 'i': return sizes();
    case 'u': return purge();
    case 'l': return slow();
    case 'e': return words[1][0] == 'p' ? peaks() : set(count, words);
    default: return set(count, words);
    }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extension")
    (folder / "program.c").write_text(PROGRAM)
    words = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT}/pools/include", "-o", "program"]
    built = run_captured(["gcc", "program.c", *words], cwd=folder)
    assert built.returncode == 0, built.stderr
    return folder / "program"


def ask(run_shim: RunShim, program: Path, *words: str, **env: str) -> str:
    settings = {f"POOLSHIM_{name}": value for name, value in env.items()}
    result = run_shim([program, *words], env=settings, cwd=program.parent)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_without_the_library_they_are_null(run_shim: RunShim, program: Path) -> None:
    assert run_shim([program, "stats"], preload=False).returncode == 3


def test_stats_are_those_of_the_report(run_shim: RunShim, program: Path) -> None:
    found = json.loads(ask(run_shim, program, "stats"))
    assert found["small"] == [100 * 1024, 100]
    assert found["run"] == [100 * 102400, 100]
    assert found["large"] == [100 * (40 << 20), 100]
    report = json.loads((program.parent / "now.json").read_text())
    near = 64 << 10  # what printing takes
    assert abs(found["live"][0] - report["memory"]["live_bytes"]) < near
    assert abs(found["mapped"] - report["memory"]["mapped_bytes"]) < 1 << 20
    assert found["span"] == report["small_blocks"]["slab_bytes"]
    counts = ["small_blocks", "page_runs", "large_blocks", "guarded_blocks"]
    assert abs(found["live"][1] - sum(report[name]["live_count"] for name in counts)) < 16
    assert found["threads"] == 1


def test_headers_of_other_versions_get_what_both_know(run_shim: RunShim, program: Path) -> None:
    assert ask(run_shim, program, "sizes") == "0 1 1 0 24 1 1 -1 EINVAL -1 EINVAL"


def test_purge_releases_and_says_how_much(run_shim: RunShim, program: Path) -> None:
    answer = ask(run_shim, program, "purge", PURGE_DELAY_MS="3600000")
    full, empty, first, second, kept, error = json.loads(answer)
    assert full - empty > 55 << 20
    assert 55 << 20 < first < 70 << 20 and second < 1 << 20
    assert 10 << 20 < kept - empty < 30 << 20
    assert error == 0


def test_purge_delay_set_at_run_time_holds_at_once(run_shim: RunShim, program: Path) -> None:
    answer = ask(run_shim, program, "slow", PURGE_DELAY_MS="3600000", BACKGROUND="0")
    least, kept, after = json.loads(answer)
    assert kept - least > 50 << 20
    assert after - least < 12 << 20


@each_row(
    ("words", "errors"),
    [
        (["PURGE_DELAY_MS", "10", "POOLSHIM_PURGE_DELAY_MS", " 0 ", "purge-delay-ms", "7"],
         "0 0 0"),
        (["LIMIT", "80%", "limit", "1GiB", "Limit", "off", "CACHE_MAX", "0"], "0 0 0 0"),
        (["PURGE_DELAY_MS", "", "PURGE_DELAY_MS", "soon", "purge_delay_ms", "-1"],
         "EINVAL EINVAL EINVAL"),
        (["LIMIT", "101%", "LIMIT", "1K", "CACHE_MAX", "1X"], "EINVAL EINVAL EINVAL"),
        (["PROFILE_INTERVAL", "4KiB", "profile-interval", "0"], "0 EINVAL"),
        (["HARDEN", "3", "SIZE_CLASSES", "8,16", "harden", "x"], "EPERM EPERM EPERM"),
        (["", "1", "POOLSHIM_", "1", "PURGE_DELAY", "1", "PURGE_DELAY_MS_", "1"],
         "ENOENT ENOENT ENOENT ENOENT"),
    ],
)  # fmt: skip
def test_settings_are_checked(
    run_shim: RunShim, program: Path, words: list[str], errors: str
) -> None:
    assert ask(run_shim, program, "set", *words) == errors


def test_peaks_of_parts(run_shim: RunShim, program: Path) -> None:
    found = json.loads(ask(run_shim, program, "peaks", PROFILE="/dev/null",
                           PROFILE_INTERVAL="4KiB"))  # fmt: skip
    assert found[0] == "0"
    assert abs(found[1] - 300 * 102400) < 1 << 20
    assert abs(found[2] - 100 * 1024) < 8 << 10
    assert json.loads(ask(run_shim, program, "peaks")) == ["ENOTSUP", 0, 0]


def test_what_is_not_sampled_has_no_interval(run_shim: RunShim, program: Path) -> None:
    answer = ask(run_shim, program, "set", "PROFILE_INTERVAL", "4KiB", HARDEN="1")
    assert answer == "ENOTSUP"


def test_hardened_processes_keep_no_mappings(run_shim: RunShim, program: Path) -> None:
    assert ask(run_shim, program, "set", "CACHE_MAX", "1M", HARDEN="1") == "ENOTSUP"
