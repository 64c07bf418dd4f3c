# SPDX-License-Identifier: MIT
"""What the command lines of compare and tune share: durations, and where the command begins."""

from __future__ import annotations

import re
from typing import Any

import click

from .errors import BadRequest

DURATION = re.compile(r"([0-9]*\.?[0-9]+)\s*(ms|s|m|min|h|)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
DURATION_MAX_S = 1e7  # a third of a year: what poll takes in milliseconds, and then some


def complaint_of(error: click.ClickException) -> str:
    """Click's message in one line. Of an unknown option it differs between versions: ours."""
    if not isinstance(error, click.NoSuchOption):
        return " ".join(error.format_message().split())
    nearest = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
    return f"no option {error.option_name}{nearest}"


class Duration(click.ParamType):
    """Seconds from "10s", "500ms", "2m", "1h", or a number of the default unit."""

    name = "duration"

    def __init__(self, unit: str = "s") -> None:
        self.unit = unit

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Also of a default, which is seconds already."""
        if isinstance(value, float):
            return value
        found = DURATION.fullmatch(str(value).strip())
        if not found:
            self.fail(f"{value!r} is no time, such as 10s, 500ms or 2m", param, ctx)
        seconds = float(found.group(1)) * SECONDS[found.group(2) or self.unit]
        if not 0 < seconds <= DURATION_MAX_S:
            self.fail(f"{value!r} is not above zero and below four months", param, ctx)
        return seconds


class Measuring(click.Command):
    """A command whose last words are a command to run: its options are not ours.

    Without "--", an option of ours after the command could be meant for either, and is refused.
    """

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses as click does, then checks the order of the words."""
        given = list(args)
        try:
            left = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in given:
                raise
            raise BadRequest(
                f"{complaint_of(error)} (the command's own options come after --: "
                f"{ctx.command_path} [OPTIONS] -- COMMAND ...)"
            ) from None
        words: tuple[str, ...] = ctx.params.get("words") or ()
        before = len(given) - len(words) - 1
        if words and not (before >= 0 and given[before] == "--"):
            own = {name for one in self.params if isinstance(one, click.Option)
                   for name in one.opts + one.secondary_opts}  # fmt: skip
            own |= set(self.get_help_option_names(ctx))
            for word in words[1:]:
                if word.partition("=")[0] in own:
                    raise BadRequest(
                        f"{word} comes after {words[0]}: put it before the command, or, if it is "
                        f"the command's own, put -- there: {ctx.command_path} -- {words[0]} ..."
                    )
        return left
