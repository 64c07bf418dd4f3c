# SPDX-License-Identifier: MIT
"""The command line: one group, whose subcommands are the folders here that have a command.py.

    scripts/poolshim --help

A subcommand is loaded when it is called for, by the click.Command `command` in its command.py,
whose return value is the exit status. Everything that ends one early becomes one line on stderr.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

if not __package__:  # started by its path: the loader's PYTHONPATH stays what the user made it
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    __package__ = "poolshim_cli"

try:
    import click
except ModuleNotFoundError:
    print("poolshim: this needs the Python packages click and rich", file=sys.stderr)
    sys.exit(125)

from poolshim_cli import places
from poolshim_cli.errors import GIVING_UP

INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 and the signal's number
CONTEXT = {"help_option_names": ["-h", "--help"]}


class Subcommands(click.Group):
    """Finds its commands by their folders, and `run`, which is no Python, by its name."""

    def list_commands(self, context: click.Context) -> list[str]:
        """All of them, in alphabetical order."""
        return sorted({"run", *(path.parent.name for path in places.PACKAGE.glob("*/command.py"))})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of that name, loaded now; None if there is none."""
        if name == "run":
            return run
        if not (places.PACKAGE / name / "command.py").exists() or not name.isidentifier():
            return None
        module = importlib.import_module(f"poolshim_cli.{name}.command")
        found: click.Command = module.command
        return found


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def run(words: tuple[str, ...]) -> None:
    """Become a command that runs on poolshim, or on another allocator."""
    program = places.find().run
    try:
        os.execv(program, ["poolshim run", *words])
    except OSError as error:
        print(f"poolshim run: {program}: {error.strerror}", file=sys.stderr)
        sys.exit(125)


@click.group(cls=Subcommands, context_settings=CONTEXT, no_args_is_help=False)
@click.version_option(places.find().version, message="poolshim %(version)s")
def group() -> None:
    """A drop-in malloc, and what answers: is it active, is it better, can it do better still?

    \b
    poolshim run -- redis-server          the program, on poolshim
    poolshim doctor -- redis-server       would that take effect, and why not
    """


def attempt(arguments: list[str]) -> int:
    """The exit status of one command line. Not by group.main, which ends some of them by itself."""
    name = next((word for word in arguments if not word.startswith("-")), "")
    prefix = f"poolshim {name}" if name in group.list_commands(click.Context(group)) else "poolshim"
    try:
        with group.make_context("poolshim", list(arguments)) as context:
            status = group.invoke(context)
        sys.stdout.flush()
        return int(status or 0)
    except click.exceptions.Exit as done:  # --help, --version
        return done.exit_code
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        print(f"{prefix}: {message}", file=sys.stderr)
        return 2
    except GIVING_UP as error:
        print(f"{prefix}: {error}", file=sys.stderr)
        return error.status
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # whoever read has seen enough; nor may the flush at exit complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def main() -> int:
    """For the entry `scripts/poolshim`."""
    return attempt(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
