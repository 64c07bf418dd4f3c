# SPDX-License-Identifier: MIT
"""Commands whose business is to start another one: which it is, and whether it gets the preload.

Three kinds. Wrappers become the program, as env and timeout do: that program is checked.
Shells and shims decide only at run time which program they start: that is reported. Others have
the program started by a process without our environment, or clear it: the preload has no effect.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .findings import FATAL, NOTE, WARNING, Diagnosis

UNIT = (
    "systemctl edit {unit}, and put there, below [Service]: Environment=LD_PRELOAD={library}; then "
    "systemctl restart {unit}"
)
CONTAINER = "have the library in the container, and pass -e LD_PRELOAD=PATH (ENV in its Dockerfile)"
INSIDE = "set it there: {name} ... env LD_PRELOAD={library} PROGRAM"
# Another process starts the program, and what to do. The words by which they do it; all if empty.
ELSEWHERE: dict[str, tuple[tuple[str, ...], str]] = {
    "systemctl": (("start", "restart", "try-restart", "reload-or-restart", "enable"), UNIT),
    "service": ((), UNIT),
    "systemd-run": ((), "systemd-run -E LD_PRELOAD={library} PROGRAM"),
    "docker": (("run", "exec", "start", "create", "compose", "restart"), CONTAINER),
    "docker-compose": (("up", "run", "exec", "start", "restart"), CONTAINER),
    "podman": (("run", "exec", "start", "create", "restart"), CONTAINER),
    "kubectl": (("run", "exec", "apply", "create", "debug"), CONTAINER),
    "nerdctl": (("run", "exec", "start", "create", "restart"), CONTAINER),
    "machinectl": ((), INSIDE),
    "lxc": (("exec", "start", "launch"), CONTAINER),
    "lxc-attach": ((), INSIDE),
    "flatpak": (("run",), "flatpak run --env=LD_PRELOAD=PATH, with the library inside"),
    "snap": (("run", "start"), "a snap sees its own files only: install the library in it"),
    "ssh": ((), INSIDE),
    "at": ((), "set it in the job"),
    "batch": ((), "set it in the job"),
}  # fmt: skip
# They start the program themselves, without LD_PRELOAD; a set-user-ID one never gets it.
CLEARING = {"sudo", "doas", "su", "runuser", "pkexec", "login", "bwrap", "firejail"}
LOGIN_ONLY, LOGIN = {"su", "runuser"}, {"-", "-l", "--login"}  # without these, root's preserve it
CLEARS = "start the program itself with it: {name} ... env LD_PRELOAD={library} PROGRAM"
SHELLS = {"sh", "dash", "bash", "rbash", "zsh", "ksh", "ksh93", "mksh", "fish", "ash", "yash"}
MANAGERS = ("pyenv", "rbenv", "nodenv", "goenv", "plenv", "jenv", "asdf", "mise", "rtx", "volta")
SHIM = re.compile(rb"\b(" + "|".join(MANAGERS).encode() + rb")\"?'?\s+exec\b")
HANDED_OVER = re.compile(rb"^\s*exec\s+(?:-a\s+\S+\s+)?([^\s;&|<>()-][^\s;&|<>()]*)", re.MULTILINE)
SHELL_SYNTAX = re.compile(r"[;&|<>()$`*?\[\]{}~#!\\\n]")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
BUILTINS = {"cd", "export", "unset", "set", "if", "for", "while", "case", "eval", "source", ".",
            "ulimit", "umask", "trap", "test", "[", "echo", "printf", "read", "wait"}  # fmt: skip


@dataclass(frozen=True)
class Wrapper:
    """`name [options] operands program`: the options that take the next word, how many operands."""

    valued: frozenset[str] = frozenset()
    operands: int = 0


def wrapper(*valued: str, operands: int = 0) -> Wrapper:
    """One row below."""
    return Wrapper(frozenset(valued), operands)


WRAPPERS = {
    "nice": wrapper("-n", "--adjustment"),
    "ionice": wrapper("-c", "--class", "-n", "--classdata"),
    "nohup": wrapper(),
    "setsid": wrapper(),
    "time": wrapper("-f", "--format", "-o", "--output"),
    "timeout": wrapper("-k", "--kill-after", "-s", "--signal", operands=1),
    "taskset": wrapper(operands=1),
    "chrt": wrapper("-T", "-P", "-D", operands=1),
    "stdbuf": wrapper("-i", "-o", "-e", "--input", "--output", "--error"),
    "numactl": wrapper("-i", "-m", "-N", "-C", "-p", "-w"),
    "prlimit": wrapper(),
    "strace": wrapper("-a", "-b", "-e", "-E", "-I", "-o", "-O", "-P", "-s", "-S", "-u", "-U", "-X"),
    "tini": wrapper("-p", "-e"),
    "dumb-init": wrapper("-r", "--rewrite"),
}


def behind(words: Sequence[str]) -> list[str]:
    """The words of the program after a wrapper; empty if there is none."""
    kind = WRAPPERS[Path(words[0]).name]
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 2 if words[at] in kind.valued else 1
    at += at < len(words) and words[at] == "--"
    return list(words[at + kind.operands :])


def simple_command(text: str) -> list[str]:
    """The words of a shell's -c, where it does nothing but start one program; else empty."""
    if SHELL_SYNTAX.search(text):
        return []
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    if words and words[0] == "exec":
        words = words[1:]
    if not words or ASSIGNMENT.match(words[0]) or words[0] in BUILTINS or words[0].startswith("-"):
        return []
    return words


def text_of_c(words: Sequence[str]) -> str | None:
    """What follows -c, also in -ec; None without it."""
    for at, word in enumerate(words[1:], 1):
        if not word.startswith("-") or word == "--":
            return None
        if not word.startswith("--") and word.endswith("c"):
            return words[at + 1] if at + 1 < len(words) else None
    return None


def note_shell(diagnosis: Diagnosis, words: Sequence[str]) -> None:
    """A shell is checked; its children are not."""
    text = text_of_c(words)
    if text is None and len(words) == 1:
        return  # an interactive one is the program to check
    what = "its command" if text is not None else "the script"
    diagnosis.add(
        "only-starts", WARNING,
        f"only {Path(words[0]).name} was checked: the programs that {what} starts inherit "
        "LD_PRELOAD, and may be of any kind",
        "poolshim doctor --run -- ... checks every one of them, or give doctor the program",
    )  # fmt: skip


def note_script(diagnosis: Diagnosis, script: Path, text: bytes, shell: str) -> None:
    """A shell script: a shim, or the program that it becomes."""
    shim = SHIM.search(text)
    if shim:
        manager = shim.group(1).decode()
        diagnosis.add(
            "only-starts", WARNING,
            f"{script} is a shim of {manager}, which starts another {script.name}: that one was "
            "not checked",
            f'poolshim doctor -- "$({manager} which {script.name})" checks it',
        )  # fmt: skip
        return
    if Path(shell).name not in SHELLS:
        return
    programs = [found.group(1).decode(errors="replace") for found in HANDED_OVER.finditer(text)]
    program = programs[-1].strip("\"'") if programs else ""
    becomes = f", it becomes {program}" if program and "$" not in program else ""
    diagnosis.add(
        "only-starts", WARNING,
        f"only {Path(shell).name}, which runs {script}, was checked, not what the script "
        f"starts{becomes}",
        "poolshim doctor --run -- ... checks every program of it, or give doctor the program",
    )  # fmt: skip


def note_command(diagnosis: Diagnosis, path: Path, words: Sequence[str]) -> None:
    """Notes a command that runs the program without the preload, by its own name or a link to
    it."""
    real = path.resolve().name
    name = path.name if path.name in ELSEWHERE or path.name in CLEARING else real
    if real in MANAGERS and path.name != real:
        diagnosis.add(
            "only-starts", WARNING,
            f"{path} is a shim of {real}, which starts another {path.name}: that one was not "
            "checked",
            f'poolshim doctor -- "$({real} which {path.name})" checks it',
        )  # fmt: skip
    started = [word for word in words[1:] if not word.startswith("-")]
    library = diagnosis.library
    if name in ELSEWHERE:
        verbs, advice = ELSEWHERE[name]
        if verbs and path.name == name and not any(word in verbs for word in started):
            return
        units = started[1:] if name == "systemctl" else started[:1] if name == "service" else []
        what, unit = (units[0], units[0]) if units else ("the program", "UNIT")
        diagnosis.add(
            "started-elsewhere", FATAL,
            f"{name} starts {what} through another process, which does not inherit LD_PRELOAD",
            advice.format(name=name, library=library, unit=unit),
        )  # fmt: skip
    elif name in LOGIN_ONLY and started and os.getuid() == 0 and not LOGIN.intersection(words):
        diagnosis.add(
            "only-starts", WARNING,
            f"only {name} was checked, not the program that it starts, which inherits LD_PRELOAD",
            "poolshim doctor --run -- ... checks every one of them, or give doctor the program",
        )  # fmt: skip
    elif name in CLEARING and started:
        diagnosis.add(
            "cleared", FATAL,
            f"{name} starts the program without LD_PRELOAD",
            CLEARS.format(name=name, library=library),
        )  # fmt: skip
    elif name in WRAPPERS and behind(words):
        diagnosis.add("wrapper", NOTE, f"{name} becomes {behind(words)[0]}, which is checked")
