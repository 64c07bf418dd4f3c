# SPDX-License-Identifier: MIT
"""Stacks of this library's own walk against those of libgcc's unwinder, in real programs.

    scripts/test tests/shim/test_unwind.py

A preloaded library (tests/scenarios/lib/unwind_compare.c) takes both at every so many calls of
malloc. poolshim itself is not preloaded, except in the last tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof, symbols  # noqa: E402

pytestmark = pytest.mark.preload

# Exceptions: malloc is called in throw, in destructors during unwinding, and in handlers.
THROWING = """
#include <map>
#include <stdexcept>
#include <string>
struct guard {
    std::string text = std::string(100, 'x');
    ~guard() { std::string copy = text + "y"; }
};
static int nested(int depth) {
    guard one;
    if (depth == 0) throw std::runtime_error(std::string(200, 'z'));
    return nested(depth - 1) + 1;
}
int main() {
    std::map<int, std::string> found;
    for (int i = 0; i < 200; i++) {
        try { nested(i % 20); } catch (const std::exception &error) { found[i] = error.what(); }
    }
    return found.size() == 200 ? 0 : 1;
}
"""


def compared(
    build: Path, command: Sequence[str | Path], every: int = 20, **options: str
) -> tuple[subprocess.CompletedProcess[str], list[tuple[int, int]]]:
    """Runs a command; walks and those that differ, of each of its processes."""
    library = build / "tests" / "scenarios" / "libunwind_compare.so"
    environment = {
        "PATH": os.environ["PATH"], "LC_ALL": "C", "LD_PRELOAD": str(library),
        "UNWIND_COMPARE_EVERY": str(every), "UNWIND_COMPARE_SHOW": "1", **options,
    }  # fmt: skip
    done = run_captured(command, env=environment, timeout=200)
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"unwind_compare: (\d+) walks, (\d+) differ", done.stderr)
    return done, [(int(walks), int(differing)) for walks, differing in counts]


PROGRAMS = {
    "python": [sys.executable, "-c", "import json, ctypes, decimal, re, sqlite3\n"
               "json.dumps([{'a': [str(i)]} for i in range(20000)])"],
    "perl": ["perl", "-e", "my %h; for (1..50000) { $h{$_} = [$_, \"x$_\"] } print scalar keys %h"],
    "ruby": ["ruby", "-e", "puts (1..50000).map { |i| i.to_s * 3 }.size"],
    "node": ["node", "-e", "const a = []; for (let i = 0; i < 50000; i++) a.push({i, s: 'x' + i});"
             "console.log(JSON.stringify(a).length)"],
    "gcc": ["gcc", "-x", "c++", "-fsyntax-only", "-include", "map", "/dev/null"],
    "git": ["git", "--version"],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_stacks_of_programs_are_those_of_libgcc(build_dir: Path, name: str) -> None:
    if name != "python":
        need(name)
    done, counts = compared(build_dir, PROGRAMS[name], every=1 if name == "git" else 20)
    assert counts and sum(walks for walks, _ in counts) > 10
    assert not any(differing for _, differing in counts), done.stderr


@pytest.mark.parametrize("flags", [["-O2"], ["-O0"], ["-O2", "-fno-omit-frame-pointer"]])
def test_stacks_in_exceptions(build_dir: Path, tmp_path: Path, flags: list[str]) -> None:
    need("g++")
    source, program = tmp_path / "throwing.cpp", tmp_path / "throwing"
    source.write_text(THROWING)
    assert run_captured(["g++", *flags, source, "-o", program]).returncode == 0
    done, counts = compared(build_dir, [program], every=1)
    assert len(counts) == 1 and counts[0][0] > 2000 and counts[0][1] == 0, done.stderr


def test_stacks_through_libraries_that_are_opened_and_closed(build_dir: Path) -> None:
    program = build_dir / "tests" / "scenarios" / "unwind_through_reopened_libraries"
    done, counts = compared(build_dir, [program], every=1)
    assert int(done.stdout.split()[0]) > 100, done.stdout
    assert len(counts) == 1 and counts[0][0] > 1000 and counts[0][1] == 0, done.stderr


def test_javascript_frames_lead_to_main(run_shim: RunShim, tmp_path: Path) -> None:
    """V8's code has no tables, but frame pointers. The program's own frames are replaced by lines,
    so that the last ones are libc's, and the start."""
    need("node")
    path = tmp_path / "h.pb.gz"
    script = "const held = []; for (let i = 0; i < 300; i++) held.push(Buffer.alloc(100000, 1));"
    env = {"POOLSHIM_PROFILE": str(path), "POOLSHIM_PROFILE_INTERVAL": "64KiB"}
    assert run_shim(["node", "-e", script], env=env, timeout=100).returncode == 0
    profile = pprof.read(path)
    generated = [
        one
        for one in profile.samples
        if any(site.line is not None or (not site.names and site.mapping is None)
               for site in one.locations)  # fmt: skip
    ]
    assert generated
    names = symbols.names_of(pprof.Profile(samples=generated))
    whole = [
        one
        for one in generated
        if len(one.locations) == 64
        or any(
            name.startswith("__libc_start_main")
            for site in one.locations[-2:]
            for name in names.of(site)
        )
    ]
    assert len(whole) > 0.8 * len(generated)
