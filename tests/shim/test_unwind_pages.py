# SPDX-License-Identifier: MIT
"""The pages of unwind tables leave a sampled process, which can read them again.

    scripts/test tests/shim/test_unwind_pages.py

A program calls functions of a library with large tables, each call with a sampled allocation, until
none of the library's table pages is in the process. Then it throws exceptions through all of them,
which reads the tables, and does the first once more. What it does beforehand differs.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import RunShim, run_captured
from poolshim_cli import pprof, symbols
from under_shim import need

pytestmark = pytest.mark.preload

FUNCTIONS = 1500

PLUGIN = """
#include <string>
typedef int call(int);
#define FUNCTION(number)                                                                          \\
    extern "C" __attribute__((noinline)) int function_##number(call *next) {                      \\
        std::string held(size_t(100 + number % 7), 'x');                                          \\
        return next(number) + int(held.size()) - int(held.size());                                \\
    }
"""

PROGRAM = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

typedef int call(int);
typedef int function(call *);
struct tables { std::string file; uintptr_t begin, end; };
static int pagemap;
static std::vector<function *> functions;
static std::atomic<bool> is_over;

static int find(dl_phdr_info *info, size_t, void *context) {
    tables *out = (tables *)context;
    if (out->file != info->dlpi_name) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            out->begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && out->begin - begin < info->dlpi_phdr[i].p_memsz)
            out->end = begin + info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

/* Pages from the first that is a table's alone. */
static int resident(const tables &of) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    int count = 0;
    for (uintptr_t at = (of.begin + page - 1) / page * page; at < of.end; at += page) {
        uint64_t word = 0;
        if (pread(pagemap, &word, sizeof word, (off_t)(at / page * sizeof word)) != sizeof word)
            abort();
        count += (int)(word >> 63);
    }
    return count;
}

static int allocate(int number) {
    free(malloc(50));
    return number;
}

static int fail(int number) { throw std::string(size_t(number + 40), 'y'); }

/* Calls all, and on until no page is left. Returns the largest number of pages that were there. */
static int sample(const tables &of) {
    int most = 0, left = 1;
    for (size_t i = 0; i < 200000 && (i < functions.size() || left != 0); i++) {
        if (functions[i % functions.size()](allocate) != int(i % functions.size())) abort();
        left = resident(of);
        most = left > most ? left : most;
    }
    if (left != 0) { printf("%d pages are left\n", left); exit(1); }
    return most;
}

static void throw_all() {
    for (size_t i = 0; i < functions.size(); i++) {
        size_t caught = 0;
        try { functions[i](fail); } catch (const std::string &text) { caught = text.size(); }
        if (caught != i + 40) abort();
    }
}

static void reopen(const char *path) {
    while (!is_over) {
        void *handle = dlopen(path, RTLD_NOW);
        if (handle == nullptr) abort();
        for (int i = 0; i < 20; i++) {
            std::string name = "function_" + std::to_string(i);
            if (((function *)dlsym(handle, name.c_str()))(allocate) != i) abort();
        }
        dlclose(handle);
    }
}

int main(int argc, char **argv) {
    std::string mode = argv[1], path = argv[2], other = argc > 3 ? argv[3] : "";
    void *handle = dlopen(path.c_str(), RTLD_NOW);
    tables of = {path, 0, 0};
    if (handle == nullptr || dl_iterate_phdr(find, &of) == 0) abort();
    for (int i = 0; i < COUNT; i++) {
        std::string name = "function_" + std::to_string(i);
        functions.push_back((function *)dlsym(handle, name.c_str()));
    }
    std::vector<std::thread> threads;
    pid_t child = 0;
    if (mode == "fork" && (child = fork()) != 0) {
        int status = -1;
        return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
    }
    pagemap = open("/proc/self/pagemap", O_RDONLY);
    rlimit none = {0, 0};
    if ((mode == "deleted" && unlink(path.c_str()) != 0) ||
        (mode == "replaced" && rename(other.c_str(), path.c_str()) != 0) ||
        (mode == "root" && (chroot(other.c_str()) != 0 || chdir("/") != 0)) ||
        (mode == "descriptors" && setrlimit(RLIMIT_NOFILE, &none) != 0)) return 2;
    for (int i = 0; mode == "threads" && i < 3; i++) threads.emplace_back(reopen, other.c_str());
    int most = sample(of);
    throw_all();
    int again = resident(of);
    (void)sample(of);
    is_over = true;
    for (std::thread &one : threads) one.join();
    printf("%d %d\n", most, again);
    return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program and the library."""
    need("g++")
    folder = tmp_path_factory.mktemp("pages")
    calls = "\n".join(f"FUNCTION({number})" for number in range(FUNCTIONS))
    (folder / "plugin.cpp").write_text(PLUGIN + calls)
    (folder / "program.cpp").write_text(PROGRAM.replace("COUNT", str(FUNCTIONS)))
    for arguments in (
        ["-O1", "-shared", "-fPIC", "plugin.cpp", "-o", "plugin.so"],
        ["-O1", "-pthread", "program.cpp", "-o", "program", "-ldl"],
    ):
        done = run_captured(["g++", "-std=c++17", *arguments], cwd=folder, timeout=200)
        assert done.returncode == 0, done.stderr
    return folder


MODES = ("plain", "deleted", "replaced", "root", "descriptors", "fork", "threads")


@pytest.mark.parametrize("mode", MODES)
def test_pages_of_tables_leave(
    run_shim: RunShim, built: Path, tmp_path: Path, mode: str
) -> None:
    if mode == "root" and os.geteuid() != 0:
        pytest.skip("only root changes the root directory")
    plugin, other = tmp_path / "used.so", tmp_path / "other"
    shutil.copy(built / "plugin.so", plugin)
    if mode == "root":
        other.mkdir()
    elif mode == "replaced":
        other.write_bytes(bytes(plugin.stat().st_size))
    else:
        shutil.copy(built / "plugin.so", other)
    profile = tmp_path / "h.pb.gz"
    env = {"POOLSHIM_PROFILE": str(profile), "POOLSHIM_PROFILE_INTERVAL": "1"}
    done = run_shim([built / "program", mode, plugin, other], env=env, timeout=200)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    if mode != "fork":
        most, again = map(int, done.stdout.split())
        assert most >= 1 and again >= 16, "the tables were not read"
    if mode == "plain":
        read = pprof.read(profile)
        names = symbols.names_of(read)
        sites = {name for one in read.samples for site in one.locations for name in names.of(site)}
        assert len([name for name in sites if name.startswith("function_")]) > 0.9 * FUNCTIONS


def test_flight_records_drop_them_too(run_shim: RunShim, built: Path, tmp_path: Path) -> None:
    env = {"POOLSHIM_FLIGHT": str(tmp_path), "POOLSHIM_PROFILE_INTERVAL": "1"}
    command = [built / "program", "plain", built / "plugin.so"]
    done = run_shim(command, env=env, timeout=200)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert list(tmp_path.glob("*-exit.pb"))
