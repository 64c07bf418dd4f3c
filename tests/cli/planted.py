# SPDX-License-Identifier: MIT
"""Programs of tests/language, whose allocating line is known, and the interpreters that run them.

    for python in interpreters(): ...
    planted_in(LANGUAGE / "in_function.py", (3, 11))    # "in_function.py:9 leak_here"

TEST_PYTHONS names more interpreters, separated by colons, besides those in PATH and python3.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT, run_captured

LANGUAGE = ROOT / "tests" / "language"
PLANTED = re.compile(r"# PLANTED (.+)$", re.M)
HELPERS = {"turns.py", "every.py", "loaded_module.py"}
PROGRAMS = sorted(one for one in LANGUAGE.glob("*.py") if one.name not in HELPERS)
ELSEWHERE = {"at_import.py": "loaded_module.py"}  # the file that has the planted line
FIRST, LAST = (3, 9), (3, 14)
QUALIFIED = (3, 11)  # from here on code has qualified names
SYSTEM = "/usr/bin/python3"
QUERY = "import sys; print(sys.implementation.name, *sys.version_info[:2])"


@dataclass(frozen=True)
class Python:
    """An interpreter."""

    path: str
    version: tuple[int, int]


def planted_in(program: Path, version: tuple[int, int]) -> str:
    """The name of the call site, as reports have it."""
    path = program.with_name(ELSEWHERE.get(program.name, program.name))
    text = path.read_text()
    found = PLANTED.search(text)
    assert found, path
    line = text.count("\n", 0, found.start()) + 1
    name = found[1] if version >= QUALIFIED else found[1].rpartition(".")[2]
    return f"{path.name}:{line} {name}"


def version_of(path: str) -> tuple[int, int] | None:
    """The version of CPython; None: it is none, or does not run."""
    try:
        done = run_captured([path, "-c", QUERY])
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    is_cpython = done.returncode == 0 and words[:1] == ["cpython"]
    return (int(words[1]), int(words[2])) if is_cpython else None


@functools.cache
def interpreters() -> tuple[Python, ...]:
    """One of each version that can be had, the system's first."""
    named = os.environ.get("TEST_PYTHONS", "").split(":")
    minors = range(FIRST[1], LAST[1] + 1)
    paths = [SYSTEM, *named, *(shutil.which(f"python3.{minor}") for minor in minors)]
    found: dict[tuple[int, int], Python] = {}
    for path in filter(None, paths):
        version = version_of(path)
        if version is not None and FIRST <= version <= LAST:
            found.setdefault(version, Python(path, version))
    return tuple(found.values())
