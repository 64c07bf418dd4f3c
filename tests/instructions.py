# SPDX-License-Identifier: MIT
"""Counts instructions for the tests that state or bound them."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path

import pytest
from conftest import run_captured


def count_instructions(program: Path, *arguments: str, **environment: str) -> int:
    """All instructions of the process, start-up included."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    env = {"PATH": os.environ["PATH"], **environment}
    result = run_captured([*command, program, *arguments], env=env)
    assert result.returncode == 0, result.stderr
    found = re.search(r"I\s+refs:\s+([\d,]+)", result.stderr)
    assert found, result.stderr
    return int(found[1].replace(",", ""))


def require_valgrind() -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")


def toolchain(build: Path) -> str:
    """The toolchain of counts: processor, compiler with its major version, optimisation."""
    comment = run_captured(["readelf", "-p", ".comment", build / "libpoolshim.so"]).stdout
    compiler = re.search(r"(GCC|clang)[^\n]*?(\d+)\.\d+\.\d+", comment)
    cache = (build / "CMakeCache.txt").read_text()
    kind = re.search(r"^CMAKE_BUILD_TYPE:\w+=(\w*)", cache, re.MULTILINE)
    flags = re.search(r"^CMAKE_C_FLAGS_RELEASE:\w+=(.*)", cache, re.MULTILINE)
    options = flags[1] if flags and kind and kind[1] == "Release" else "other"
    name = f"{compiler[1]} {compiler[2]}" if compiler else "unknown"
    return f"{platform.machine()} {name} {options}"
