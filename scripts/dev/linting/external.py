# SPDX-License-Identifier: MIT
"""Checkers that are programs: clang-format, and the compiler on each header by itself.

They run beside the rules on texts, each once over many files. One that is not installed is named
and left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from linting.rules import Finding
from linting.settings import CLANG
from linting.tree import C_SUFFIXES, is_code, is_product

LAYOUT = "clang-format"
HEADER = "self-contained"
SUMMARIES = {
    LAYOUT: "clang-format has nothing to change in C and C++.",
    HEADER: "A header of the libraries compiles by itself; a public one in C99 and C++17 too.",
}
PLACE = re.compile(r"^(?P<path>[^:\n]+):(?P<line>\d+):\d+: error: (?P<message>.*)$", re.MULTILINE)
PUBLIC = "pools/include/"
ARCH_PART = re.compile(r"pools/engine/arch/\w+/")
AT_ONCE = 40  # files of one run of clang-format


def formatter() -> str | None:
    """Another version may break lines elsewhere."""
    for name in (f"clang-format-{CLANG}", "clang-format"):
        program = shutil.which(name)
        if program:
            said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            if f" {CLANG}." in said:
                return program
    return None


def is_formatted(name: str) -> bool:
    return is_code(name) and name.endswith(C_SUFFIXES) and not name.endswith(".def")


def run(command: list[str], root: Path, text: str | None = None) -> tuple[int, str]:
    done = subprocess.run(command, cwd=root, input=text, capture_output=True, text=True)
    return done.returncode, done.stderr


def badly_formatted(root: Path, program: str, names: list[str]) -> Iterator[Finding]:
    """One finding for each file: its first place."""
    status, said = run([program, "--dry-run", "-Werror", *names], root)
    seen: set[str] = set()
    for match in PLACE.finditer(said):
        if match["path"] not in seen:
            seen.add(match["path"])
            message = f"{Path(program).name} -i {match['path']}"
            yield Finding(match["path"], int(match["line"]), LAYOUT, message)
    if status != 0 and not seen:
        yield Finding(names[0], 0, LAYOUT, said.strip())


def is_header(name: str) -> bool:
    """A part of a processor belongs to the one file that includes it."""
    return is_product(name) and name.endswith(".h") and not ARCH_PART.match(name)


def standards(name: str) -> list[list[str]]:
    """Options of each compilation of a header."""
    if not name.startswith(PUBLIC):
        own = ["-D_GNU_SOURCE", "-DPS_CHECKED=1", "-Wno-unused-function"]
        return [["-x", "c", "-std=gnu17", *own]]
    return [["-x", "c", "-std=c99"], ["-x", "c++", "-std=c++17"]]


def not_self_contained(root: Path, name: str) -> Iterator[Finding]:
    text = f'#include "{name}"\n#include "{name}"\nint used;\n'
    for options in standards(name):
        command = ["gcc", *options, "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
        status, said = run([*command, f"-I{root}", f"-I{root / PUBLIC}", "-"], root, text)
        if status != 0:
            match = PLACE.search(said)
            message = match["message"] if match else said.strip()
            yield Finding(name, 0, HEADER, f"{options[2]}: {message}")
            return


def fix_layout(root: Path, names: Collection[str]) -> None:
    program = formatter()
    files = [name for name in names if is_formatted(name)]
    if program and files:
        subprocess.run([program, "-i", *files], cwd=root, check=True)


class Checkers:
    """Starts the programs when it is made; result() waits for them."""

    def __init__(self, root: Path, names: Collection[str]) -> None:
        self.missing: list[str] = []
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._jobs: list[Future[list[Finding]]] = []
        files = sorted(name for name in names if is_formatted(name))
        program = formatter() if files else None
        if program:
            parts = [files[first : first + AT_ONCE] for first in range(0, len(files), AT_ONCE)]
            for part in parts:
                self._start(badly_formatted, root, program, part)
        elif files:
            self.missing.append(f"clang-format-{CLANG}")
        headers = [name for name in names if is_header(name)]
        if not shutil.which("gcc"):
            self.missing += ["gcc"] if headers else []
            return
        for name in headers:
            self._start(not_self_contained, root, name)

    def _start(self, check: Callable[..., Iterator[Finding]], *arguments: object) -> None:
        self._jobs.append(self._pool.submit(lambda: list(check(*arguments))))

    def result(self) -> list[Finding]:
        found = [one for job in self._jobs for one in job.result()]
        self._pool.shutdown()
        return found
