# SPDX-License-Identifier: MIT
"""The Rust crate with the C sources that it compiles, as one folder: for `cargo publish`, and for
programs that have it as a path.

pools/rust has no copy of the sources: in a checkout its build.rs takes those of the project.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from . import archive
from .staging import Release

CRATE = Path("pools/rust")
OWN = ("Cargo.toml", "Cargo.lock", "build.rs", "README.md", "src", "examples")
SOURCES = "c"  # what build.rs expects beside itself
SUFFIXES = {".c", ".h", ".def"}
LEFT_OUT = {"examples", "models"}


def sources(root: Path) -> Iterator[Path]:
    """C sources and headers of engine and pools, from the root."""
    for path in sorted((root / "pools").rglob("*")):
        name = path.relative_to(root)
        if path.suffix in SUFFIXES and not LEFT_OUT & set(name.parts):
            yield name


def version_of(root: Path) -> str:
    found = re.search(r'^version = "([^"]+)"', (root / CRATE / "Cargo.toml").read_text(), re.M)
    return found[1] if found else "unknown"


def assemble(root: Path, folder: Path) -> None:
    """Makes the folder, which must not exist."""
    folder.mkdir(parents=True)
    for name in OWN:
        path = root / CRATE / name
        if path.is_dir():
            shutil.copytree(path, folder / name)
        else:
            shutil.copyfile(path, folder / name)
    shutil.copyfile(root / "LICENSE", folder / "LICENSE")
    for source in sources(root):
        target = folder / SOURCES / source
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / source, target)


def make_archive(what: Release, source: Path, work: Path, output: Path) -> Path:
    """The folder, as dist/ has it."""
    top = f"poolshim-crate-{what.version}"
    assemble(source, work / top)
    path = output / f"{top}.tar.xz"
    archive.pack(work / top, top, path, what.epoch)
    return path
