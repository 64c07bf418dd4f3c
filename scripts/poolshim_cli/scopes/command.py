# SPDX-License-Identifier: MIT
"""`poolshim scopes [OPTIONS] FILE... [-- FLAG...]`: functions that leave memory of a frame or a
pool to their caller.

    scripts/poolshim scopes parser.c -- -Iinclude
    scripts/poolshim scopes -p build src/*.c

Exit status: 0 nothing found; 1 there are findings; 2 usage, or a file that clang cannot read; 125
there is no clang.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from .. import places
from ..errors import BadRequest, Failed
from ..live import options
from . import rules, tree

HELP = """usage: poolshim scopes [OPTIONS] FILE... [-- FLAG...]

Finds functions of C and C++ that return memory of a frame that they close, or of a region or stack
that they end, or store it outside; and functions that leave memory of their caller's frame, of the
thread's stack, but are neither named t_something nor marked PS_RETURNS_SCOPED. Reads the source by
clang, whose flags come after --, and runs nothing.

  -p DIRECTORY     take the flags of each file from its compile_commands.json
  --clang PROGRAM  this clang [clang, or clang-VERSION, 14 or later]
  --json           print a JSON array
  -h, --help       print this text

Exit status: 0 nothing found, 1 there are findings, 2 usage, or a file that clang cannot read, 125
there is no clang, 127 no such PROGRAM.
"""
USAGE = "poolshim scopes FILE... -- FLAG..."
LEFT_OUT = {"-c", "-MD", "-MMD", "-MP"}
LEFT_OUT_WITH_VALUE = {"-o", "-MF", "-MT", "-MQ"}


def compile_commands(folder: Path) -> list[dict[str, Any]]:
    """The entries of a build folder."""
    path = folder / "compile_commands.json"
    try:
        entries = json.loads(path.read_text())
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}: cmake writes it with "
                         "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON") from None  # fmt: skip
    except ValueError:
        raise BadRequest(f"{path}: no JSON") from None
    if not isinstance(entries, list) or not all(
        isinstance(one, dict) and isinstance(one.get("file"), str) for one in entries
    ):
        raise BadRequest(f"{path}: no list of commands")
    return entries


def flags_of(path: Path, entries: list[dict[str, Any]]) -> list[str]:
    """Those that its command has for the compiler."""
    for one in entries:
        folder = Path(str(one.get("directory", ".")))
        if (folder / one["file"]).resolve() == path.resolve():
            words = one.get("arguments") or shlex.split(str(one.get("command", "")))
            return [f"-working-directory={folder.resolve()}", *kept(words[1:], one["file"])]
    raise BadRequest(f"{path}: compile_commands.json has no such file")


def kept(words: list[str], file: str) -> list[str]:
    """Without outputs and the file itself."""
    result: list[str] = []
    left = iter(words)
    for word in left:
        if word in LEFT_OUT_WITH_VALUE:
            next(left, None)
        elif word not in LEFT_OUT and word != file:
            result.append(word)
    return result


def own_headers() -> list[str]:
    """The include folder of this installation; one that the flags name goes first."""
    root = places.find().root
    folder = root / "include" if places.find().is_installed else root / "pools" / "include"
    return ["-idirafter", str(folder)] if folder.is_dir() else []


def main(words: list[str]) -> int:
    """All files."""
    before = words[: words.index("--")] if "--" in words else words
    given = words[len(before) + 1 :]
    request = options.parse(before, {"--json"}, {"-p", "--clang"})
    if request.is_help:
        print(HELP, end="")
        return 0
    if not request.rest:
        raise BadRequest(f"which files? {USAGE}")
    clang = tree.find_clang(request.values.get("--clang"))
    build = request.values.get("-p")
    entries = compile_commands(Path(build)) if build else []
    found: list[tuple[Path, rules.Finding]] = []
    function_count = 0
    for path in map(Path, request.rest):
        flags = [*(flags_of(path, entries) if build else []), *given, *own_headers()]
        source = tree.parse(path, flags, clang)
        function_count += len(source.functions)
        found += [(path, one) for one in rules.findings(source)]
    if "--json" in request.switches:
        print(json.dumps([{"file": str(path), "line": one.line, "function": one.function,
                           "message": one.message} for path, one in found], indent=1))  # fmt: skip
    elif found:
        for path, one in found:
            print(f"{path}:{one.line}: {one.function} {one.message}")
    else:
        print(f"nothing found in {function_count:,} functions")
    return Failed.status if found else 0
