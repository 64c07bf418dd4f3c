# SPDX-License-Identifier: MIT
"""Builds a commit of the project into trees that only have to be packed: scripts/package.

The sources come from `git archive`, without uncommitted files. Paths of this machine
are mapped away, times are those of the commit, symbols go to files of their own.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import bare_root

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("cmake", "cc", "objcopy", "strip", "readelf", "git")
MANUALS = "manuals"  # folder below the sources
ELF = b"\x7fELF"


class PackagingError(Exception):
    """One line for the user."""


@dataclass(frozen=True)
class Machine:
    """A processor, by all the names it has."""

    name: str  # uname -m
    debian: str
    triplet: str  # Debian's library folder
    toolchain: str | None  # of cmake/, where it is not the machine that builds

    @property
    def tool_prefix(self) -> str:
        """The prefix of objcopy, strip and readelf."""
        return f"{self.triplet}-" if self.toolchain else ""


MACHINES = {
    "x86_64": ("amd64", "x86_64-linux-gnu"),
    "aarch64": ("arm64", "aarch64-linux-gnu"),
}


def machine(name: str, has_compiler: bool) -> Machine:
    """One of MACHINES; another one than this needs a cross compiler, or a system that has it."""
    debian, triplet = MACHINES[name]
    is_foreign = name != os.uname().machine
    found = Machine(name, debian, triplet, f"cmake/{name}.cmake" if is_foreign else None)
    if is_foreign and not (ROOT / f"cmake/{name}.cmake").exists():
        raise PackagingError(f"no toolchain file for {name} on this machine")
    needed = "objcopy" if has_compiler else "gcc"
    if is_foreign and shutil.which(f"{triplet}-{needed}") is None:
        raise PackagingError(f"{triplet}-{needed} is missing: scripts/setup elsewhere")
    return found


@dataclass(frozen=True)
class Release:
    """A release: a commit, its version, its time."""

    version: str
    commit: str
    epoch: int

    @property
    def source_name(self) -> str:
        """The path that debug data and messages have instead of this machine's."""
        return f"/usr/src/poolshim-{self.version}"


def run(*command: str | Path, **options: Any) -> str:
    """A command's output; a PackagingError with its last lines if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise PackagingError(f"{' '.join(words[:6])} failed:\n{last}")
    return str(done.stdout)


def check_tools() -> None:
    """All that is missing, in one line."""
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        raise PackagingError(f"missing: {', '.join(missing)}; scripts/setup installs them")


def release() -> Release:
    """The commit that is checked out; $SOURCE_DATE_EPOCH replaces its time."""
    commit = run("git", "-C", ROOT, "rev-parse", "HEAD").strip()
    time = run("git", "-C", ROOT, "log", "-1", "--format=%ct", commit).strip()
    project = run("git", "-C", ROOT, "show", f"{commit}:CMakeLists.txt")
    found = re.search(r"^project\(\w+ VERSION ([0-9.]+)", project, re.MULTILINE)
    if found is None:
        raise PackagingError("CMakeLists.txt has no project(... VERSION ...)")
    return Release(found[1], commit, int(os.environ.get("SOURCE_DATE_EPOCH", time)))


def read_toml(path: Path) -> dict[str, Any]:
    """A file of TOML, by Python or by the package tomli."""
    try:
        import tomllib
    except ModuleNotFoundError:
        try:
            import tomli as tomllib  # type: ignore[no-redef]
        except ModuleNotFoundError:
            raise PackagingError("missing: Python 3.11, or its package tomli") from None
    return dict(tomllib.loads(path.read_text()))


def project_table(source: Path) -> dict[str, Any]:
    """[project] of pyproject.toml."""
    return dict(read_toml(source / "pyproject.toml")["project"])


def export_sources(what: Release, folder: Path) -> None:
    """The files of the commit."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", what.commit],
        check=True, capture_output=True,
    ).stdout  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder)  # noqa: S202 - our own commit


def make_manuals(source: Path) -> None:
    """Manual pages and completions, by this Python: the system that compiles may have none."""
    run(sys.executable, source / "scripts" / "manuals" / "make_manuals.py", source / MANUALS)


@dataclass(frozen=True)
class Builder:
    """Where compilers run: on this machine, or in a bare system, in which the work folder lies."""

    root: Path | None = None

    def inner(self, path: Path) -> Path:
        """The path that it has there."""
        return path if self.root is None else Path("/") / path.relative_to(self.root)

    def run(self, what: Release, *words: str | Path, **variables: str) -> None:
        command = [str(word) for word in words]
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("CFLAGS", "LDFLAGS", "DESTDIR")}  # fmt: skip
        if self.root is not None:
            command, environment = bare_root.inside(self.root, 'exec "$@"', *command)
        environment |= {"SOURCE_DATE_EPOCH": str(what.epoch), "LC_ALL": "C", **variables}
        run(*command, env=environment)


def build(
    what: Release, target: Machine, builder: Builder, source: Path, folder: Path,
    options: Sequence[str],
) -> None:  # fmt: skip
    """Configures and builds the installed files, without paths of this machine."""
    source, folder = builder.inner(source), builder.inner(folder)
    flags = f"-ffile-prefix-map={source}={what.source_name} -ffile-prefix-map={folder}=build"
    command = ["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
               f"-DPOOLSHIM_MANUALS_DIR={source / MANUALS}", f"-DCMAKE_C_FLAGS={flags}",
               "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--build-id=sha1",
               "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--build-id=sha1,-z,now", *options]  # fmt: skip
    if builder.root is None and shutil.which("ninja"):
        command += ["-G", "Ninja"]
    if target.toolchain:
        command.append(f"-DCMAKE_TOOLCHAIN_FILE={source / target.toolchain}")
    builder.run(what, *command)
    jobs = str(len(os.sched_getaffinity(0)))
    builder.run(what, "cmake", "--build", folder, "--parallel", jobs)


def install(what: Release, builder: Builder, folder: Path, stage: Path) -> None:
    """Into stage, with the prefix that the build has."""
    stage.mkdir()
    command = ["cmake", "--build", builder.inner(folder), "--target", "install"]
    builder.run(what, *command, DESTDIR=str(builder.inner(stage)))


def is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == ELF


def split_debug(target: Machine, stage: Path, debug: Path) -> list[Path]:
    """Strips programs and libraries; debug data go to debug/.build-id. The stripped files."""
    tool = target.tool_prefix
    stripped = []
    for path in sorted(stage.rglob("*")):
        if path.suffix == ".a":
            run(f"{tool}strip", "--strip-debug", "--remove-section=.comment",
                "--enable-deterministic-archives", path)  # fmt: skip
        if not is_elf(path):
            continue
        notes = run(f"{tool}readelf", "-n", path)
        found = re.search(r"Build ID: ([0-9a-f]{40})", notes)
        if found is None:
            raise PackagingError(f"{path}: no build ID")
        data = debug / ".build-id" / found[1][:2] / f"{found[1][2:]}.debug"
        data.parent.mkdir(parents=True, exist_ok=True)
        run(f"{tool}objcopy", "--only-keep-debug", "--compress-debug-sections", path, data)
        data.chmod(0o644)
        run(f"{tool}strip", "--strip-unneeded", "--remove-section=.comment",
            "--remove-section=.note", path)  # fmt: skip
        stripped.append(path)
    return stripped


def glibc_version(target: Machine, files: Sequence[Path]) -> str:
    """The oldest glibc that has every symbol which these files need."""
    versions = {(2, 17)}  # what every manylinux has, and every Debian
    for path in files:
        text = run(f"{target.tool_prefix}readelf", "--version-info", "--wide", path)
        needs = text[text.find("Version needs section") :]
        versions |= {(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", needs)}
    return ".".join(map(str, max(versions)))


def check_no_paths(folder: Path, forbidden: Sequence[str]) -> None:
    """No file of a tree names a place of this machine."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            for name in forbidden:
                if os.fsencode(name) in content:
                    raise PackagingError(f"{path} contains the path {name}")
