# SPDX-License-Identifier: MIT
"""The command line: the first word is a subcommand, a folder here that has a command.py.

    scripts/poolshim --help

A subcommand is loaded when it is called for. Its command.py has `main`, which takes the words and
returns the exit status, or `command`, a click.Command whose return value it is: help, `run` and
`doctor` need no package but Python. Everything that ends one early becomes one line on stderr.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Any

if not __package__:  # started by its path: leave the user's PYTHONPATH unchanged
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    __package__ = "poolshim_cli"

if sys.version_info < (3, 10):
    print("poolshim: this needs Python 3.10 or later", file=sys.stderr)
    sys.exit(125)

from poolshim_cli import places, streams
from poolshim_cli.errors import GIVING_UP, BadRequest, OwnFailure, missing

INTERRUPTED = 130  # 128 and the signal's number
NEEDED = ("click", "rich")
RUN_HELP = "run a command on poolshim, or on another allocator"
USAGE = """usage: poolshim COMMAND [OPTIONS] [--] PROGRAM [ARGUMENT...]

"""
HELP = """Runs programs on poolshim, a drop-in malloc, checks that it takes effect, compares it with
other allocators, and tunes it.

"""
EXAMPLES = """
  poolshim run -- redis-server          run the program on poolshim
  poolshim doctor -- redis-server       check that the preload takes effect
  poolshim compare -- jq . big.json     measure it under every installed allocator

"""


def names() -> list[str]:
    """All subcommands, in alphabetical order."""
    return sorted({"run", *(path.parent.name for path in places.PACKAGE.glob("*/command.py"))})


def summary_of(name: str) -> str:
    """Its line in the help, from its package's docstring: "`poolshim tune`: what it does."."""
    if name == "run":
        return RUN_HELP
    package = importlib.import_module(f"poolshim_cli.{name}")
    return (package.__doc__ or "").partition(": ")[2].strip().rstrip(".")


def usage() -> str:
    """The subcommands."""
    lines = [f"  {name:10}{summary_of(name)}\n" for name in names()]
    return USAGE + "".join(lines)


def become_run(words: list[str]) -> int:
    """`run` is no Python: scripts/native/run.c."""
    program = places.find().run
    try:
        os.execv(program, ["poolshim run", *words])
    except OSError as error:
        raise OwnFailure(f"{program}: {error.strerror}: build first") from None


def load(name: str) -> Any:
    """The module of a subcommand; one line if a package is missing."""
    try:
        return importlib.import_module(f"poolshim_cli.{name}.command")
    except ModuleNotFoundError as error:
        lacking = [one for one in NEEDED if importlib.util.find_spec(one) is None]
        package = (error.name or "").partition(".")[0]
        if package not in (*NEEDED, "tomli", *lacking):
            raise
        raise missing(*dict.fromkeys([*lacking, package])) from None


def invoke(name: str, words: list[str]) -> int:
    """One subcommand; click's complaints are ours."""
    module = load(name)
    if hasattr(module, "main"):
        return int(module.main(words))
    import click

    try:
        with module.command.make_context(f"poolshim {name}", words) as context:
            return int(module.command.invoke(context) or 0)
    except click.exceptions.Exit as done:  # --help
        return done.exit_code
    except click.ClickException as error:
        from .command_line import complaint_of

        raise BadRequest(complaint_of(error)) from None
    except click.Abort:
        raise KeyboardInterrupt from None


def no_such(word: str) -> BadRequest:
    """Names the nearest subcommand, as far as one can be guessed."""
    near = difflib.get_close_matches(word, names(), 1, 0.5)
    if near:
        hint = f"did you mean {near[0]}?"
    elif "/" in word or shutil.which(word):
        hint = f"to run that program: poolshim run -- {word}"
    else:
        hint = f"there are {', '.join(names())}"
    return BadRequest(f"no command {word}; {hint}")


def dispatch(words: list[str]) -> int:
    """Runs the subcommand that the first word names."""
    if not words:
        print(usage(), end="", file=sys.stderr)
        return BadRequest.status
    first, rest = words[0], words[1:]
    if first == "run":
        return become_run(rest)
    if first in names():
        return invoke(first, rest)
    if first in ("-h", "--help", "help"):
        print(HELP + usage() + EXAMPLES + "poolshim COMMAND --help says more of each.")
    elif first == "--version":
        from poolshim_cli import version

        print(version.lines(), end="")
    elif first.startswith("-"):
        raise BadRequest(f"no option {first}; there are --help and --version")
    else:
        raise no_such(first)
    return 0


def attempt(words: list[str]) -> int:
    """The exit status of one command line."""
    prefix = f"poolshim {words[0]}" if words and words[0] in names() else "poolshim"
    try:
        status = dispatch(words)
        sys.stdout.flush()
        return status
    except GIVING_UP as error:
        print(f"{prefix}: {error}", file=sys.stderr)
        status = error.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except streams.ReaderGone as gone:
        status = gone.status
    try:
        sys.stdout.flush()  # the output so far
    except (*GIVING_UP, streams.ReaderGone):
        streams.discard()
    return status


def main() -> int:
    """For the entry `scripts/poolshim`."""
    streams.prepare()
    return attempt(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
