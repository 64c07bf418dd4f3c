# SPDX-License-Identifier: MIT
"""Rules on docs/guides/: rows of tables have an answer, and what they name of poolshim exists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from linting.rules import register
from linting.tree import Tree, line_of

FOLDER = "docs/guides/"
SPAN = re.compile(r"`([^`\n]+)`")
Found = Iterator[tuple[int, str]]


def is_guide(name: str) -> bool:
    return name.startswith(FOLDER) and name.endswith(".md")


def placed_rows(text: str) -> list[tuple[int, list[str]]]:
    """Of all tables, without heads, with the numbers of the lines."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.startswith("|")]
    rules = {index for index, (_, line) in enumerate(lines) if re.fullmatch(r"[|:-]+", line)}
    return [
        (number, [cell.strip() for cell in line.strip("|").split(" | ")])
        for index, (number, line) in enumerate(lines)
        if index not in rules and index + 1 not in rules
    ]


def rows(text: str) -> list[list[str]]:
    return [row for _, row in placed_rows(text)]


def option_names(tree: Tree) -> set[str]:
    table = tree.text("shim/config.def")
    return set(re.findall(r"^PS_OPTION\(\s*(\w+),", table, re.MULTILINE))


def command_names(tree: Tree) -> set[str]:
    """`run` is a program in C."""
    found = tree.glob("scripts/poolshim_cli/*/command.py")
    return {"run", *(name.split("/")[-2] for name in found)}


@register("guide-row", is_guide)
def guide_row(tree: Tree, name: str) -> Found:
    """Every row of a guide's table has a left side and an answer."""
    for line, row in placed_rows(tree.text(name)):
        if len(row) < 2 or not row[0] or not row[1]:
            yield line, "a row without an answer"


@register("guide-option", is_guide)
def guide_option(tree: Tree, name: str) -> Found:
    """Options, functions, subcommands and flags of poolshim in a guide exist."""
    text = tree.text(name)
    options = option_names(tree)
    of_build = set(re.findall(r"POOLSHIM_\w+", tree.text("CMakeLists.txt")))
    header = tree.text("pools/include/poolshim/poolshim.h")
    commands = command_names(tree)
    flags = {option.lower().replace("_", "-") for option in options} | {"tuned"}
    for match in re.finditer(r"\bPOOLSHIM_([A-Z][A-Z_]+)\b", text):
        if match[1] not in options and match[0] not in of_build:
            yield line_of(text, match.start()), f"no option: {match[0]}"
    for match in re.finditer(r"\bpoolshim_\w+(?=\()", text):
        if match[0] not in header:
            yield line_of(text, match.start()), f"no function: {match[0]}"
    for match in re.finditer(r"`poolshim (\w+)", text):
        if match[1] not in commands:
            yield line_of(text, match.start()), f"no subcommand: {match[1]}"
    for match in re.finditer(r"poolshim run ((?:--[\w-]+[ =]\S+ )*)--", text):
        for flag in re.findall(r"--([\w-]+)", match[1]):
            if flag not in flags:
                yield line_of(text, match.start()), f"no option of run: --{flag}"


@register("guide-flag", is_guide)
def guide_flag(tree: Tree, name: str) -> Found:
    """The sources of a subcommand have the flags that a guide gives to it."""
    text = tree.text(name)
    for match in re.finditer(r"poolshim (\w+) [^|`]*?(--\w[\w-]*)", text):
        sources = tree.glob(f"scripts/poolshim_cli/{match[1]}/*.py")
        if match[1] != "run" and not any(match[2] in tree.text(one) for one in sources):
            yield line_of(text, match.start()), f"no flag of {match[1]}: {match[2]}"
