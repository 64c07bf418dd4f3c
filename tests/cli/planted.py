# SPDX-License-Identifier: MIT
"""Programs of tests/language, whose allocating line is known, and the interpreters that run them.

    for python in interpreters(): ...
    planted_in(LANGUAGE / "in_function.py", (3, 11))    # "in_function.py:9 leak_here"

TEST_PYTHONS and TEST_NODES name more interpreters, separated by colons, besides those in PATH.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

LANGUAGE = ROOT / "tests" / "language"
PLANTED = re.compile(r"(?:#|//) PLANTED (.+)$", re.M)
PROGRAMS = sorted(LANGUAGE.glob("[ai][tn]_*.py"))
RUBY_PROGRAMS = sorted(LANGUAGE.glob("[ai][tn]_*.rb"))
NODE_PROGRAMS = sorted(LANGUAGE.glob("[ai][tn]_*.*js"))
JAVA_PROGRAMS = sorted(LANGUAGE.glob("In*.java"))
RUBY_LAST = (3, 2)
NODE_VERSIONS = (18, 20, 22, 24)
# The file that has the planted line.
ELSEWHERE = {f"at_import.{one}": f"loaded_module.{one}" for one in ("py", "rb", "js")}
FIRST, LAST = (3, 9), (3, 14)
QUALIFIED = (3, 11)  # from here on code has qualified names
JAVA_VERSIONS = (11, 17, 21, 25)
JAVA_VERSION = re.compile(r'version "(\d+)')
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
    is_whole = path.suffix != ".py" or version >= QUALIFIED
    name = found[1] if is_whole else found[1].rpartition(".")[2]
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


def version_of_node(path: str) -> int | None:
    """The first number of the version, where lines are read of it; else None."""
    try:
        done = run_captured([path, "-p", "process.versions.node"])
    except (OSError, subprocess.TimeoutExpired):
        return None
    first = done.stdout.partition(".")[0]
    return int(first) if first.isdigit() and int(first) in NODE_VERSIONS else None


@functools.cache
def nodes() -> dict[int, str]:
    """One node of each version that can be had, by its version."""
    found: dict[int, str] = {}
    named = os.environ.get("TEST_NODES", "").split(":")
    for path in filter(None, [shutil.which("node"), *named]):
        version = version_of_node(path)
        if version is not None:
            found.setdefault(version, path)
    return found


def ruby() -> str:
    """A Ruby whose lines are read; skips where there is none."""
    path = shutil.which("ruby")
    if path is None:
        pytest.skip("ruby is not installed")
    version = run_captured([path, "-e", "print RUBY_VERSION"]).stdout.split(".")
    if tuple(map(int, version[:2])) > RUBY_LAST:
        pytest.skip("this Ruby has no lines")
    return path


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


@dataclass(frozen=True)
class Java:
    """A virtual machine."""

    path: str
    version: int


@functools.cache
def javas() -> tuple[Java, ...]:
    """One of each version whose lines are read, that of PATH first."""
    named = os.environ.get("TEST_JAVAS", "").split(":")
    installed = sorted(map(str, Path("/usr/lib/jvm").glob("*/bin/java")))
    found: dict[int, Java] = {}
    for path in filter(None, [shutil.which("java"), *named, *installed]):
        try:
            version = JAVA_VERSION.search(run_captured([path, "-version"]).stderr)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if version is not None and int(version[1]) in JAVA_VERSIONS:
            found.setdefault(int(version[1]), Java(path, int(version[1])))
    return tuple(found.values())


def compile_java(folder: Path) -> Path:
    """The programs in Java, compiled; skips where there is no compiler or no machine for them."""
    compiler = shutil.which("javac")
    if compiler is None or not javas():
        pytest.skip("no Java, or no compiler for it, is installed")
    done = run_captured([compiler, "--release", "11", "-d", folder, *LANGUAGE.glob("*.java")])
    assert done.returncode == 0, done.stderr
    return folder
