# SPDX-License-Identifier: MIT
"""Every symbol of the libraries has one declaration, in the header where a reader expects it.

A function or variable with external linkage in FOLDER/x_y.c is declared once, in one of

- FOLDER/x_y.h, or FOLDER/x.h where x_y.c is a part of x;
- FOLDER/<FOLDER>.h, the one interface header of the folder;
- a public header, pools/include/poolshim/, for what programs may call;
- the header of another folder that calls it, marked PS_HOOK there: a hook, which may have several
  definitions, one for each library.

The parts of processors, pools/engine/arch/*/x.h, have the same names, each in one part.

Names of libc and of C++ have their row in shim/entry_points.def instead. A name that headers have,
inline functions included, is in one header only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from linting.rules import register
from linting.tree import Tree

PUBLIC = "pools/include/poolshim/"
ARCH_PART = re.compile(r"^(pools/engine/arch/)\w+/")
ENTRY_POINTS = "shim/entry_points.def"
ENTRY_POINT = re.compile(r"^PS_\w+\((\w+)\b", re.MULTILINE)
COMMENT_OR_TEXT = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
ATTRIBUTE = re.compile(r"__attribute__ ?\(\(.*?\)\)\)?|\bPS_[A-Z_]+\b(\([^()]*\))? ?")
THREAD_LOCAL = re.compile(r"\bPS_THREAD_LOCAL_LINE\(([^(),]*), (\w+)\)")
LOCAL = ("PS_INLINE", "PS_RACING")  # static functions
TYPE_OR_LOCAL = re.compile(r"(typedef|_Static_assert|__extension__ typedef)\b")
FUNCTION = re.compile(r"[\w\s*]*?[\s*](\w+) ?\(")
FORWARD = re.compile(r"(struct|union|enum) \w+$")
VARIABLE = re.compile(r".*?(\w+)\s*(?:\[[^=]*\])*\s*(?:=.*)?$")

Found = Iterator[tuple[str, int, str]]


@dataclass
class Statement:
    """One declaration or definition at file level; its path is set when the tree is read."""

    name: str
    line: int
    is_definition: bool
    is_static: bool
    is_hook: bool
    is_variable_of_header: bool  # there, without extern: a row of a macro's list
    path: str = ""


def blank(match: re.Match[str]) -> str:
    """Spaces and strings without contents, for a comment or a text; keeps the numbers of lines."""
    return '""' if match[0][0] == '"' else " " + "\n" * match[0].count("\n")


def at_file_level(text: str) -> Iterator[tuple[str, int, bool]]:
    """Statements, with {} for each pair of braces; whether it is a function with its body."""
    text = DIRECTIVE.sub(blank, COMMENT_OR_TEXT.sub(blank, text))
    text = THREAD_LOCAL.sub(r"\1 \2", re.sub(r'extern ""\s*\{', "", text))
    depth, line, statement, first = 0, 1, "", 0
    for token in re.findall(r"[{};]|[^{};]+", text):
        if token == "{":
            depth += 1
        elif token == "}":
            depth = max(0, depth - 1)
            head = " ".join(statement.split())
            if depth == 0 and ATTRIBUTE.sub("", head).rstrip().endswith(")") and "=" not in head:
                yield head, first, True
                statement = ""
            elif depth == 0:
                statement += "{}"
        elif depth == 0 and token == ";":
            yield " ".join(statement.split()), first, False
            statement = ""
        elif depth == 0:
            if not statement.strip():
                first = line + token[: len(token) - len(token.lstrip())].count("\n")
            statement += token
        line += token.count("\n")


def is_source(path: str) -> bool:
    return path.endswith(".c")


def statements_of(text: str) -> list[Statement]:
    return list(read(text))


def read(text: str) -> Iterator[Statement]:
    for whole, line, is_body in at_file_level(text):
        plain = ATTRIBUTE.sub("", whole).strip()
        if not plain or TYPE_OR_LOCAL.match(plain) or re.match(r"\w+( \w+)? ?\{\}$", plain):
            continue
        is_extern = plain.startswith("extern ")
        found = FUNCTION.match(plain) if "(" in plain.split("=")[0] else None
        name = found or (None if FORWARD.match(plain) else VARIABLE.match(plain))
        if name is not None:
            defines = is_body if found else not is_extern or "alias(" in whole
            is_static = "static " in plain or any(word in whole for word in LOCAL)
            is_row = found is None and not is_extern
            yield Statement(name[1], line, defines, is_static, "PS_HOOK" in whole, is_row)


def product_files(tree: Tree) -> list[str]:
    return [
        name
        for name in tree.below("pools", "shim", suffixes=(".c", ".h"))
        if name.split("/")[-2] not in ("examples", "models")
    ]


def statements(tree: Tree) -> Iterator[Statement]:
    for path in product_files(tree):
        for one in tree.view(statements_of, path):
            if is_source(path) or not one.is_variable_of_header:
                one.path = path
                yield one


def expected_headers(path: str) -> set[str]:
    """Where what a source defines may be declared, public headers aside."""
    source = PurePosixPath(path)
    words = source.stem.split("_")
    names = {"_".join(words[:count]) for count in range(1, len(words) + 1)} | {source.parent.name}
    return {f"{source.parent}/{name}.h" for name in names}


@register("declaration")
def declaration(tree: Tree) -> Found:
    """A symbol is declared once, in the header of its file's or its folder's name."""
    entry_points = set(ENTRY_POINT.findall(tree.text(ENTRY_POINTS)))
    of_name: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements(tree):
        if statement.path.endswith(".h") or not statement.is_static:
            of_name[statement.name].append(statement)
    for name, found in of_name.items():
        if name not in entry_points:
            for one, problem in problems_with(found):
                yield one.path, one.line, f"{name}: {problem}"


def header_of(path: str) -> str:
    """One name for the same part of all processors."""
    return ARCH_PART.sub(r"\1*/", path)


def problems_with(found: list[Statement]) -> Iterator[tuple[Statement, str]]:
    headers = {header_of(one.path) for one in found if one.path.endswith(".h")}
    listed = ", ".join(sorted(headers))
    definitions = [one for one in found if one.is_definition]
    is_hook = any(one.is_hook for one in found)
    if len(headers) > 1:
        yield found[0], f"declared in {listed}"
    if not definitions:
        yield found[0], f"declared in {listed} and defined nowhere"
    if len({header_of(one.path) for one in definitions}) > 1 and not is_hook:
        yield definitions[-1], f"defined in {', '.join(sorted(one.path for one in definitions))}"
    for one in found:
        if is_source(one.path) and not one.is_definition:
            yield one, "declared in a source"
    for one in definitions:
        if is_source(one.path) and not headers:
            yield one, "in no header, and not static"
        elif is_source(one.path) and not is_hook:
            wrong = {h for h in headers if not h.startswith(PUBLIC)} - expected_headers(one.path)
            if wrong:
                yield one, f"declared in {', '.join(sorted(wrong))}"
