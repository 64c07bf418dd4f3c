# SPDX-License-Identifier: MIT
"""The functions of a C or C++ source, as clang's syntax tree has them (-ast-dump=json).

    for function in tree.functions(Path("a.c"), ["-Iinclude"], "clang"): ...

The tree of a source with the standard library has hundreds of megabytes, so it is read line by
line: one declaration at the top after another, and of headers nothing but the names that are
marked. A node has clang's keys, and `order`, its place in the source; `parent`, its node.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import BadRequest, OwnFailure

Node = dict[str, Any]

CXX_SUFFIXES = {".cc", ".cpp", ".cxx", ".C", ".hpp", ".hh"}
NAMES = ("clang", *(f"clang-{version}" for version in range(22, 13, -1)))
FUNCTIONS = {"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXConversionDecl"}
OPEN, CLOSED = "    {", "    }"  # a declaration at the top, by clang's indentation
MARK = "AnnotateAttr"  # of PS_RETURNS_SCOPED


def find_clang(named: str | None) -> str:
    """The program."""
    for name in (named,) if named else NAMES:
        found = shutil.which(name)
        if found:
            return found
    name = named or "clang"
    raise OwnFailure(f"no {name} here, whose syntax tree this reads: apt install clang, "
                     "or --clang PROGRAM", 127 if named else 125)  # fmt: skip


@dataclass
class Source:
    """One source file: its functions, and the functions of its headers that are marked."""

    path: Path
    text: bytes
    functions: list[Node] = field(default_factory=list)
    marked: set[str] = field(default_factory=set)

    def line_of(self, node: Node) -> int:
        """The line in this file."""
        offset = place_of(node).get("offset", 0)
        return self.text.count(b"\n", 0, offset) + 1


def place_of(node: Node) -> Node:
    """Where it begins; of a macro, the place where the program uses it."""
    begin: Node = node.get("range", {}).get("begin", {})
    return begin.get("expansionLoc", begin)


def is_of_header(node: Node) -> bool:
    """Whether an included file declares it."""
    loc = node.get("loc", {})
    loc = loc.get("expansionLoc", loc)
    return "includedFrom" in loc or "offset" not in loc


def children(node: Node) -> list[Node]:
    """The nodes below, without holes."""
    return [child for child in node.get("inner", ()) if child.get("kind")]


def walk(node: Node) -> Iterator[Node]:
    """The node and all below, in their order, without the bodies of lambdas."""
    left = [node]
    while left:
        at = left.pop()
        yield at
        if at["kind"] != "LambdaExpr":
            left += reversed(children(at))


def number(function: Node) -> None:
    """Gives each node its order and its parent."""
    for order, node in enumerate(walk(function)):
        node["order"] = order
        for child in children(node):
            child["parent"] = node


def declarations(lines: Iterator[str]) -> Iterator[str]:
    """The text of each declaration at the top."""
    gathered: list[str] = []
    for line in lines:
        text = line.rstrip("\n")
        if text == OPEN:
            gathered = []
        gathered.append(line)
        if text.rstrip(",") == CLOSED:
            yield "".join(gathered).rstrip().rstrip(",")
            gathered = []


def may_matter(text: str) -> bool:
    """False: of a header, and nothing in it is marked."""
    loc = text[: text.find('"range"')]
    return '"includedFrom"' not in loc or '"expansionLoc"' in loc or MARK in text


def read(source: Source, lines: Iterator[str]) -> None:
    """Fills in the functions that have a body, and the marked ones."""
    for text in declarations(lines):
        declared = json.loads(text) if may_matter(text) else {}
        for node in walk(declared) if declared.get("kind") else ():
            if node["kind"] in FUNCTIONS:
                if any(child["kind"] == MARK for child in children(node)):
                    source.marked.add(node.get("name", ""))
                if not is_of_header(declared) and body_of(node) is not None:
                    source.functions.append(node)


def body_of(function: Node) -> Node | None:
    """Its outermost block."""
    return next((one for one in children(function) if one["kind"] == "CompoundStmt"), None)


def parse(path: Path, flags: list[str], clang: str) -> Source:
    """The source; what clang complains of ends the command."""
    try:
        source = Source(path, path.read_bytes())
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    language = ["-x", "c++", "-std=c++17"] if path.suffix in CXX_SUFFIXES else ["-x", "c"]
    command = [clang, *language, *flags, "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json",
               path.absolute()]
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        with subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=said, text=True, errors="replace",
        ) as process:  # fmt: skip
            assert process.stdout is not None
            read(source, iter(process.stdout))
        said.seek(0)
        complaint = next((line for line in said if "error:" in line), "").strip()
    if process.returncode != 0:
        raise BadRequest(f"clang cannot read {path}: {complaint or 'see its own messages'}: its "
                         "flags come after --")  # fmt: skip
    for function in source.functions:
        number(function)
    return source
