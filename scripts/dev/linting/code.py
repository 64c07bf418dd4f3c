# SPDX-License-Identifier: MIT
"""Rules on the form of every source, script and build file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from linting.rules import register
from linting.tree import Tree, is_c, is_code, matching, without_comments

LINES_MAX = 450
FUNCTION_LINES_MAX = 60
COLUMNS_MAX = 100
BANNED_STEMS = {"util", "utils", "misc", "helper", "helpers", "common"}
PUBLIC_BASE = "pools/include/poolshim/common.h"

FUNCTION_OPENS = re.compile(r"\S.*\)[^;=]*\{$|\{$|[ \t]+\S.*\) ?((const|noexcept) )*\{$")
SPDX = re.compile(r"^(#|//|/\*) SPDX-License-Identifier: MIT( \*/)?$", re.MULTILINE)
Found = Iterator[tuple[int, str]]


@register("length", is_code)
def length(tree: Tree, name: str) -> Found:
    """A file is no longer than 450 lines."""
    count = tree.text(name).count("\n")
    if count > LINES_MAX:
        yield LINES_MAX + 1, f"{count} lines, the limit is {LINES_MAX}"


@register("columns", is_code)
def columns(tree: Tree, name: str) -> Found:
    """A line has at most 100 columns, no tab and no trailing space."""
    for number, line in enumerate(tree.text(name).splitlines(), 1):
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, the limit is {COLUMNS_MAX}"
        if line != line.rstrip() or "\t" in line:
            yield number, "tab or trailing space"


@register("licence", is_code)
def licence(tree: Tree, name: str) -> Found:
    """The top of a file names the licence by its SPDX line."""
    if not SPDX.search(tree.text(name)[:800]):
        yield 1, "no SPDX line at the top"


@register("first-comment", is_code)
def first_comment(tree: Tree, name: str) -> Found:
    """The SPDX line is followed by a comment that says what the file owns."""
    before, _, rest = tree.text(name).partition("SPDX-License-Identifier: MIT")
    comment = r'(r?"""|# ?\w)' if before.endswith("# ") else r"(/\*|//)[\s*!]*[\w<]"
    if not re.match(comment, rest.removeprefix(" */").lstrip()):
        yield 2, "no comment that says what the file owns"


@register("name", is_code)
def file_name(tree: Tree, name: str) -> Found:
    """The name of a file says what the file has: no util, misc, helper, common."""
    if PurePosixPath(name).stem.lower() in BANNED_STEMS and name != PUBLIC_BASE:
        yield 0, "a name that says nothing"


@register("leftover", is_code)
def leftover(tree: Tree, name: str) -> Found:
    """Finds marks of unfinished work."""
    yield from matching(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", tree.text(name))


@register("function-length", is_code)
def function_length(tree: Tree, name: str) -> Found:
    """A function of C or Python has at most 60 lines."""
    if name.endswith(".py"):
        module = tree.view(parsed, name)
        for node in ast.walk(module) if isinstance(module, ast.AST) else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = (node.end_lineno or 0) - node.lineno + 1
                if count > FUNCTION_LINES_MAX:
                    yield node.lineno, f"{count} lines, the limit is {FUNCTION_LINES_MAX}"
    elif is_c(name):
        yield from long_functions(tree.view(without_comments, name))


def parsed(text: str) -> ast.AST | SyntaxError:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        return error


@register("python", lambda name: is_code(name) and name.endswith(".py"))
def python(tree: Tree, name: str) -> Found:
    """Python can read a file of Python."""
    error = tree.view(parsed, name)
    if isinstance(error, SyntaxError):
        yield error.lineno or 1, error.msg


def long_functions(text: str) -> Found:
    """From the line of the opening brace to that of the closing one."""
    opened = depth = outside = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not opened and "{" in line and FUNCTION_OPENS.match(line):
            opened, outside = number, depth
        depth += line.count("{") - line.count("}")
        if opened and depth <= outside:
            if number - opened + 1 > FUNCTION_LINES_MAX:
                yield opened, f"{number - opened + 1} lines, the limit is {FUNCTION_LINES_MAX}"
            opened = 0


@register("core-dump")
def core_dump(tree: Tree) -> Iterator[tuple[str, int, str]]:
    """No core dump is among the files."""
    for name in tree.names:
        if re.fullmatch(r"(.*/)?(vg)?core(\.\d+)?", name):
            yield name, 0, "a core dump"
