# SPDX-License-Identifier: MIT
"""What `poolshim --version` prints: the command, the Python that runs it, and the library's build.

    PYTHONPATH=scripts python3 -m poolshim_cli.version
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

from poolshim_cli import elf, places

# What mallctl's "version" points to.
VERSION = re.compile(rb"\0poolshim (\d+\.\d+\.\d+)\0")


def of_library(path: Path) -> str:
    """Version, processor and build of a library, and where it lies."""
    try:
        file = elf.read(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    except elf.Malformed as error:
        return str(error)
    found = file.search(VERSION)
    version = found[1].decode() if found else "of no known version"
    build = f"build {file.build_id}" if file.build_id else "without a build id"
    return f"{version}, {file.machine_name}, {build}, {path}"


def lines() -> str:
    """All of it. The first line is the same for each installation of a version."""
    here = places.find()
    return (
        f"poolshim {here.version}\n"
        f"command: Python {platform.python_version()}, {places.PACKAGE}\n"
        f"library: {of_library(here.library)}\n"
    )


if __name__ == "__main__":
    print(lines(), end="")
