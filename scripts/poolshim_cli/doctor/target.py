# SPDX-License-Identifier: MIT
"""Finds the program that a command finally runs: searches PATH, reads first lines of scripts."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from .. import elf
from ..errors import CANNOT_EXECUTE, NOT_FOUND, OwnFailure
from . import starters
from .findings import FATAL, NOTE, WARNING, Diagnosis

SCRIPT_BYTES = 1 << 20  # of a script that are read
DEPTH = 12  # scripts, as far as Linux goes, and wrappers
SCRUBBING = re.compile(
    rb"\bunset\b[^#\n;]*\bLD_PRELOAD\b|\benv\s+(-\S+\s+)*(-i|-|--ignore-environment)\s"
    rb"|(?<!\S)(-u|--unset=?)\s*LD_PRELOAD\b|^\s*(export\s+)?LD_PRELOAD=",
    re.MULTILINE,
)


def find_command(name: str, env: Mapping[str, str]) -> Path:
    """The file that execvp would start, absolute; OwnFailure with 126 or 127 if there is none.

    A relative one loses its "./" as a Path, and the loader looks a name without a slash up among
    the libraries.
    """
    if "/" in name:
        try:
            status = os.stat(name)
        except OSError as error:
            is_absent = error.errno in (errno.ENOENT, errno.ENOTDIR)
            raise OwnFailure(
                f"{name}: {error.strerror}", NOT_FOUND if is_absent else CANNOT_EXECUTE
            ) from None
        if not os.access(name, os.X_OK) or not (status.st_mode & 0o170000) == 0o100000:
            raise OwnFailure(f"{name}: Permission denied", CANNOT_EXECUTE)
        return Path(name).absolute()
    path = env.get("PATH", "/bin:/usr/bin")
    found = shutil.which(name, path=path)
    if found is None:
        if shutil.which(name, mode=os.F_OK, path=path) is not None:
            raise OwnFailure(f"{name}: Permission denied", CANNOT_EXECUTE)
        raise OwnFailure(f"{name}: no such command", NOT_FOUND)
    return Path(found).absolute()


def interpreter_of(script: bytes) -> list[str]:
    """The words of the first line; the shell where there is none, as for execvp."""
    line = script[:256].split(b"\n", 1)[0]
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    return words or ["/bin/sh"]


def behind_env(words: list[str]) -> int:
    """Where in `env [options] [NAME=VALUE...] program` the program is; their number if nowhere."""
    at = 1
    while at < len(words) and (words[at].startswith("-") or "=" in words[at]):
        at += 2 if words[at] in ("-u", "--unset", "-C", "--chdir") else 1
    return min(at, len(words))


def note_scrubbing(diagnosis: Diagnosis, script: Path, text: bytes) -> None:
    """A script that takes the preload away from what it starts."""
    for number, line in enumerate(text[:SCRIPT_BYTES].splitlines(), 1):
        if SCRUBBING.search(line) and not line.lstrip().startswith(b"#"):
            shown = " ".join(line.decode(errors="replace").split())
            diagnosis.add(
                "scrubbed-by-script", WARNING,
                f"{script}, line {number}, changes LD_PRELOAD for what it starts: {shown[:100]}",
                "poolshim doctor --run shows which programs are left without it",
            )  # fmt: skip


def note_env(diagnosis: Diagnosis, words: list[str]) -> None:
    """env, where it takes the preload away."""
    before = words[: behind_env(words)]
    text = " ".join(before).encode() + b" "
    others = [word for word in before if word.startswith("LD_PRELOAD=")]
    if SCRUBBING.search(text) or any(Path(diagnosis.library).name not in w for w in others):
        diagnosis.add("scrubbed-by-env", FATAL, "env takes LD_PRELOAD away from the program")


def next_words(diagnosis: Diagnosis, path: Path, words: list[str]) -> list[str]:
    """The words of the program that an ELF file executes, as env does; empty without one."""
    if path.name == "env":
        note_env(diagnosis, words)
        return words[behind_env(words) :]
    starters.note_command(diagnosis, path, words)
    if path.name in starters.WRAPPERS:
        return starters.behind(words)
    if path.name in starters.SHELLS:
        found = starters.simple_command(starters.text_of_c(words) or "")
        if not found:
            starters.note_shell(diagnosis, words)
        return found
    return []


def follow(diagnosis: Diagnosis, env: Mapping[str, str]) -> elf.Elf | None:
    """The ELF file that runs in the end; None if it cannot be read, which is then a finding."""
    words = list(diagnosis.command)
    path, is_script = find_command(words[0], env), False
    for _ in range(DEPTH):
        diagnosis.program = str(path)
        try:
            if elf.is_elf(path):
                further = behind_script if is_script else next_words
                words = further(diagnosis, path, words)
                if not words:
                    return elf.read(path)
                path = find_command(words[0], env)
                continue
            text = path.read_bytes()
        except (OSError, elf.Malformed) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            diagnosis.add("unreadable", WARNING, f"{path} cannot be read: {reason}")
            return None
        starters.note_command(diagnosis, path, words)
        words, is_script = interpreter_of(text), True
        note_scrubbing(diagnosis, path, text)
        diagnosis.add("script", NOTE, f"{path} is a script, run by {' '.join(words)}")
        script, path = path, find_command(words[0], env)
        shell = (behind_script(diagnosis, path, words) or words)[0]
        starters.note_script(diagnosis, script, text, shell)
    diagnosis.add("script-depth", WARNING, f"{diagnosis.program}: scripts run by scripts, too deep")
    return None


def behind_script(_: Diagnosis, path: Path, words: list[str]) -> list[str]:
    """The interpreter after env in a script's first line."""
    return words[behind_env(words) :] if path.name == "env" else []
