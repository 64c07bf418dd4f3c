# SPDX-License-Identifier: MIT
"""Processes with memory of one known cause, for the tests of `poolshim why`.

    def test_x(plant: Plant) -> None: found = why(plant("leak"))
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from programs import bare_environment, compile_program

sys.path.insert(0, str(ROOT / "scripts"))

POOLSHIM = ROOT / "scripts" / "poolshim"
SOURCE = ROOT / "tests" / "why" / "planted.c"
MIB = 1 << 20
SECONDS = "4"
LIBRARIES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
KEEPS = {"POOLSHIM_PURGE_DELAY_MS": "100000000"}

Plant = Callable[..., int]


def preload_of(allocator: str, shim: Path) -> dict[str, str]:
    """The environment in which an allocator serves a program; a skip where it is not installed."""
    if allocator == "glibc":
        return {}
    if allocator == "poolshim":
        return {"LD_PRELOAD": str(shim), **KEEPS}
    name = LIBRARIES[allocator]
    done = run_captured(["/bin/true"], env={**os.environ, "LD_PRELOAD": name})
    if done.stderr:
        pytest.skip(f"{allocator} is not installed")
    return {"LD_PRELOAD": name}


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/why/planted.c."""
    folder = tmp_path_factory.mktemp("planted")
    return compile_program(folder, "planted", SOURCE.read_text(), "-pthread")


@pytest.fixture
def plant(planted: Path, shim: Path) -> Iterator[Plant]:
    """Starts one with a cause, on an allocator, or another command that says "1" when it is ready;
    it ends with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(
        *words: str | Path, allocator: str = "glibc", command: list[str | Path] | None = None,
        preexec_fn: Callable[[], None] | None = None, **settings: str,
    ) -> int:  # fmt: skip
        env = bare_environment(**preload_of(allocator, shim), **settings)
        process = subprocess.Popen(
            command or [planted, *words], env=env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, preexec_fn=preexec_fn,
        )  # fmt: skip
        running.append(process)
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        begin.output = process.stdout  # type: ignore[attr-defined]
        return process.pid

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def why(target: int | str, *words: str, seconds: str = SECONDS) -> dict[str, Any]:
    """The document on a process or a container."""
    done = run_captured([POOLSHIM, "why", "--json", "--seconds", seconds, *words, str(target)],
                        timeout=240)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    parts = sum(one["bytes"] for one in found["parts"].values())
    assert abs(parts - found["resident_bytes"]) <= 0.02 * found["resident_bytes"] + MIB, found
    return found
