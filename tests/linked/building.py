# SPDX-License-Identifier: MIT
"""Links programs with libpoolshim.a, in the ways that users do.

    program = link(folder, "life.c", STATIC, archive.parent)
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

PROGRAMS = Path(__file__).parent / "programs"
# Any warning of the linker fails: dlsym in a static program would be one.
FLAGS = ("-O1", "-g", "-fno-builtin", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-pthread",
         "-Wl,--fatal-warnings", f"-I{ROOT / 'pools' / 'include'}")  # fmt: skip
ALONE = ("-static", "-Wl,--eh-frame-hdr")


@dataclass(frozen=True)
class Way:
    """How a program is linked."""

    name: str
    flags: tuple[str, ...]
    compiler: str = "gcc"

    @property
    def is_static(self) -> bool:
        return any(flag.startswith("-static") for flag in self.flags)


STATIC = Way("static", ALONE)
PIE = Way("static-pie", ("-static-pie", "-fPIE"))
DYNAMIC = Way("dynamic", ())
MUSL = Way("musl", ALONE, "musl-gcc")
# musl-gcc knows no -static-pie, and takes it for -pie with a loader: its linker is told by hand.
MUSL_FOLDER = Path("/usr/lib", f"{platform.machine()}-linux-musl")
MUSL_PIE = Way("musl-static-pie", (
    *ALONE, "-fPIE", "-Wl,-pie,--no-dynamic-linker,-z,text", "-nostartfiles",
    *(str(MUSL_FOLDER / f"{name}.o") for name in ("rcrt1", "crti", "crtn")),
), "musl-gcc")  # fmt: skip
GLIBC_WAYS = (STATIC, PIE, DYNAMIC)


def environment(**more: str) -> dict[str, str]:
    """Ours, without preloads and settings."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("POOLSHIM_", "LD_PRELOAD"))}  # fmt: skip
    return {**env, **more}


def need(*tools: str) -> None:
    """Skips the calling test where one is missing."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def compile_with(
    program: Path, source: str, way: Way, folder: Path, *more: str, after: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """The compiler's result. folder: the one with the archive, which comes after the source."""
    compiler = "g++" if source.endswith(".cpp") and way.compiler == "gcc" else way.compiler
    need(compiler)
    library = [f"-L{folder}", *(after or ["-l:libpoolshim.a"])]
    command = [compiler, *FLAGS, *way.flags, *more, PROGRAMS / source, *library, "-o", program]
    return run_captured(command, timeout=120)


def link(
    target: Path, source: str, way: Way, folder: Path, *more: str, after: Sequence[str] = ()
) -> Path:
    """A program in a folder of its own; fails where it is not linked without a warning."""
    program = target / f"{Path(source).stem}-{way.name}"
    made = compile_with(program, source, way, folder, *more, after=after)
    assert made.returncode == 0 and not made.stderr, made.stderr
    return program


def output_of(program: Path, **more: str) -> str:
    """What it prints, when it ends as it should."""
    result = run_captured([program], env=environment(**more), timeout=120)
    assert result.returncode == 0, f"{result.returncode} {result.stdout}{result.stderr}"
    assert "poolshim:" not in result.stderr
    return result.stdout


def symbols_of(path: Path) -> list[tuple[str, str]]:
    """Kind and name of each symbol."""
    text = run_captured(["nm", path]).stdout
    return [(line[17], line[19:]) for line in text.splitlines() if line[17:18].isalpha()]


@pytest.fixture(scope="session")
def archive(build_dir: Path) -> Path:
    """That of the build under test."""
    found = build_dir / "libpoolshim.a"
    if not found.exists():
        pytest.skip("this build has no libpoolshim.a")
    return found
