# SPDX-License-Identifier: MIT
"""The command line of programs that measure what a setting costs."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from poolshim_cli.places import REPOSITORY


def parse_price_options(
    manual: str | None, runs: int, kinds: Sequence[str] = ()
) -> argparse.Namespace:
    """Programs by name, runs, scale, and the build with its library, which exists; of several kinds
    of figures one alone, as `only`."""
    parser = argparse.ArgumentParser(description=(manual or "").splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="by default all installed")
    parser.add_argument("--runs", type=int, default=runs, help="of each program at each setting")
    parser.add_argument("--scale", type=float, default=0.3, help="1: about a second each")
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build" / "release")
    if kinds:
        parser.add_argument("--only", choices=kinds, help="by default all of them")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.library = options.build / "libpoolshim.so"
    if not options.library.exists():
        parser.error(f"no {options.library}: run scripts/build release")
    return options


def chosen_programs(options: argparse.Namespace, commands: dict[str, list[str]]) -> list[str]:
    """Those that the command line names, which must exist; else all installed ones."""
    for name in options.programs:
        if name not in commands:
            sys.exit(f"no program {name}: there are {', '.join(commands)}")
        if shutil.which(commands[name][0]) is None:
            sys.exit(f"{name}: {commands[name][0]} is not installed")
    return options.programs or [
        name for name, command in commands.items() if shutil.which(command[0])
    ]
