# SPDX-License-Identifier: MIT
"""cargo for the crate in pools/rust: without a network once its crates are there.

scripts/setup fetches them. Where there is no cargo, or they cannot be fetched, tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured

CRATE = ROOT / "pools" / "rust"
FETCH_SECONDS = 60


def environment() -> dict[str, str]:
    """Results in build/, without debug data, which nothing here reads."""
    own = {"CARGO_TARGET_DIR": str(ROOT / "build" / "rust"), "CARGO_PROFILE_DEV_DEBUG": "0",
           "CARGO_TERM_COLOR": "never"}  # fmt: skip
    return {name: value for name, value in os.environ.items() if name != "PS_DEBUG"} | own


def cargo(
    command: str, *arguments: str, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs cargo offline, with the locked versions."""
    fixed = [] if command == "fmt" else ["--offline", "--locked"]
    words = ["cargo", command, *fixed, *arguments]
    return run_captured(words, cwd=CRATE, env={**environment(), **(more or {})}, timeout=600)


@cache
def missing() -> str | None:
    """Why cargo is of no use here; None: it is."""
    if shutil.which("cargo") is None:
        return "cargo is not installed"
    if cargo("fetch").returncode == 0:
        return None
    try:
        command = ["cargo", "fetch", "--locked"]
        fetched = run_captured(command, cwd=CRATE, env=environment(), timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        return "cargo fetch takes too long: no network?"
    return None if fetched.returncode == 0 else "cargo cannot fetch the crates of Cargo.lock"


def need_cargo() -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)


@cache
def executables() -> dict[str, Path]:
    """The test programs by name, built."""
    built = cargo("test", "--no-run", "--tests", "--message-format=json")
    assert built.returncode == 0, built.stderr
    messages: list[dict[str, Any]] = [json.loads(line) for line in built.stdout.splitlines()]
    return {row["target"]["name"]: Path(row["executable"])
            for row in messages if row.get("executable")}  # fmt: skip
