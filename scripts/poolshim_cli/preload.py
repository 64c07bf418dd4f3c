# SPDX-License-Identifier: MIT
"""LD_PRELOAD with the library first: another allocator before it would serve every call.

    env["LD_PRELOAD"] = preload.with_first(library, env); preload.announce("profile", library, env)

The counterpart of preload_with in scripts/native/run.c, with the same words.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from . import allocators, elf

VARIABLE = "LD_PRELOAD"


def entries_of(env: Mapping[str, str]) -> list[str]:
    """The files that the loader is told to preload, in order."""
    return env.get(VARIABLE, "").replace(":", " ").split()


def is_library(entry: str, library: Path) -> bool:
    """Does the entry name this very file?"""
    return "/" in entry and os.path.realpath(entry) == os.path.realpath(library)


def with_first(library: Path, env: Mapping[str, str]) -> str:
    """The library, then the entries there."""
    others = [entry for entry in entries_of(env) if not is_library(entry, library)]
    return ":".join([str(library), *others])


def present(library: Path, env: Mapping[str, str]) -> str:
    """LD_PRELOAD as it is where it names the library, in that order; else with the library first:
    what a program gets that is started in this environment, or by `poolshim run` in it."""
    named = any(is_library(entry, library) for entry in entries_of(env))
    return env[VARIABLE] if named else with_first(library, env)


def is_allocator(entry: str) -> bool:
    """Does the file define malloc? Also true where only the loader can tell."""
    if "$" in entry:
        return True
    path = Path(entry) if "/" in entry else allocators.find_library([entry], Path())
    if path is None or not path.exists():
        return False  # the loader complains and goes on without it
    try:
        return elf.read(path).defines("malloc")
    except (OSError, elf.Malformed):
        return True


def overtaken(library: Path, env: Mapping[str, str]) -> list[str]:
    """Allocators that the environment puts before the library."""
    found = []
    for entry in entries_of(env):
        if is_library(entry, library):
            break
        if is_allocator(entry):
            found.append(entry.rpartition("/")[2])
    return found


def announce(command: str, library: Path, env: Mapping[str, str]) -> None:
    """One line on standard error where the order decides which allocator serves."""
    found = overtaken(library, env)
    if found:
        print(f"poolshim {command}: LD_PRELOAD names another allocator ({', '.join(found)}): "
              f"{library.name} is put first and serves instead", file=sys.stderr)  # fmt: skip
