# SPDX-License-Identifier: MIT
"""A folder that a server shows: on this machine, or on another one by rsync over ssh.

Files that name others are written last, so that a reader never sees a name without its file.
"""

from __future__ import annotations

from pathlib import Path

from .tools import PublishError, output, reason, run

NOT_THERE = 23  # rsync's status; stderr says which file
OPTIONS = ("--recursive", "--checksum", "--times", "--links", "--chmod=D755,F644")


def read(place: str, target: Path) -> None:
    """Copies its files; none, if the folder does not exist yet."""
    target.mkdir(parents=True, exist_ok=True)
    done = run("rsync", *OPTIONS, f"{place}/", target)
    is_absent = done.returncode == NOT_THERE and "No such file or directory" in done.stderr
    if done.returncode != 0 and not is_absent:
        raise PublishError(f"{place} is not reached: {reason(done.stderr)}")


def write(source: Path, place: str, last: tuple[str, ...]) -> None:
    """Copies all files, those with the names `last` after the others."""
    patterns = [f"--exclude={name}" for name in last]
    output("rsync", *OPTIONS, "--mkpath", *patterns, f"{source}/", f"{place}/")
    output("rsync", *OPTIONS, "--delay-updates", f"{source}/", f"{place}/")
