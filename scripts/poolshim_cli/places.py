# SPDX-License-Identifier: MIT
"""Where the library, the small C programs and the table of allocators lie.

    PYTHONPATH=scripts python3 -m poolshim_cli.places

In a checkout they lie in the build folder: build/release, or $POOLSHIM_BUILD_DIR. In an installed
tree, which may have been moved, installed.json beside this file says where, from here on.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
REPOSITORY = PACKAGE.parents[1]  # of a checkout; an installed tree has none
INSTALLED = PACKAGE / "installed.json"
BUILD_VARIABLE = "POOLSHIM_BUILD_DIR"
DEFAULT_TABLE = PACKAGE / "allocators.toml"


@dataclass(frozen=True)
class Places:
    """One installation or one build. Nothing says that the files are there."""

    root: Path  # the checkout or the prefix: where a relative path in a table starts
    build: Path  # the folder with libpoolshim.so; {build} in a table
    programs: Path  # the folder with launcher and poolshim-run
    version: str
    is_installed: bool

    @property
    def library(self) -> Path:
        """libpoolshim.so, unresolved."""
        return self.build / "libpoolshim.so"

    @property
    def launcher(self) -> Path:
        """The program that measures one process."""
        return self.programs / "launcher"

    @property
    def run(self) -> Path:
        """The program that `poolshim run` starts."""
        return self.programs / "poolshim-run"


def checkout_version() -> str:
    """The version that this checkout builds."""
    project = (REPOSITORY / "CMakeLists.txt").read_text()
    found = re.search(r"^project\(\w+ VERSION ([0-9.]+)", project, re.MULTILINE)
    return found.group(1) if found else "unknown"


def of_build(build: Path) -> Places:
    """The places of a build folder of this checkout."""
    return Places(REPOSITORY, build, build / "scripts", checkout_version(), is_installed=False)


@cache
def find() -> Places:
    """Where everything is, for the copy of the package that runs."""
    if INSTALLED.exists():
        facts = json.loads(INSTALLED.read_text())
        root, build, programs = (
            Path(os.path.normpath(PACKAGE / facts[key])) for key in ("root", "library", "programs")
        )
        return Places(root, build, programs, facts["version"], is_installed=True)
    default = REPOSITORY / "build" / "release"
    return of_build(Path(os.environ.get(BUILD_VARIABLE) or default).resolve())


def main() -> int:
    """Prints them, for diagnosis."""
    here = find()
    for name in ("root", "build", "library", "launcher", "run", "version", "is_installed"):
        print(f"{name}\t{getattr(here, name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
