# SPDX-License-Identifier: MIT
"""The pools library as two files to copy into a program, poolshim-pools.h and poolshim-pools.c, and
poolshim-pools.hpp for C++.

File-local names of the sources must not collide in one file: macros end with the source that
defines them, and a name that two sources have gets the source's own name as a prefix. The result
depends on the sources alone.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import archive
from .staging import Release

HEADER, SOURCE, CXX_HEADER = "poolshim-pools.h", "poolshim-pools.c", "poolshim-pools.hpp"
NAMES = (HEADER, SOURCE, CXX_HEADER)
ARCH = Path("pools/engine/arch")  # arch.h, and a folder of parts for each processor
LAYERS = ("engine/base", "engine/os", "engine/page", "common", "pages")  # then the families
OTHERS_HEADERS = {"poolshim.h", "heap.h"}  # of libpoolshim.so
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"].*$")
ARCH_PART = re.compile(r"^#include PS_ARCH_PART\((.+)\)$")
ARCH_CHOICE = re.compile(r"^#(?:el)?if (.+)\n#define PS_ARCH (\w+)$", re.MULTILINE)
CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|endif)\b")
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
ATTRIBUTE = re.compile(r"\b__attribute__\(\(.*?\)\)(?!\)) ?")
LOCAL = re.compile(r"^(?:PS_\w+(?:\([^)]*\))? )*static\b[^;={]*?\b(\w+)\s*[(=;\[]", re.MULTILINE)
UNNAMED = re.compile(r"^static (?:struct|union) \{.*?^\} (\w+)", re.MULTILINE | re.DOTALL)
UNDO_LOG = re.compile(r"^PS_UNDO_LOG\((\w+)", re.MULTILINE)
TAG = re.compile(r"^(?:struct|union|enum) (\w+) \{", re.MULTILINE)
BODY = re.compile(r"^(?:static )?(?:struct|union)\b[^;(){}=]*\{", re.MULTILINE)
TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?:->|\.)?[A-Za-z_]\w*',
    re.DOTALL,
)


class AmalgamationError(Exception):
    """One line for the user."""


def version_of(root: Path) -> str:
    """The version of a tree of sources."""
    text = (root / "CMakeLists.txt").read_text()
    found = re.search(r"^project\(\w+ VERSION ([0-9.]+)", text, re.MULTILINE)
    if found is None:
        raise AmalgamationError("CMakeLists.txt has no project(... VERSION ...)")
    return found[1]


def read(path: Path) -> str:
    """A file without its licence line: the result has one."""
    text = path.read_text()
    return re.sub(r"\A(/\*|//) SPDX-License-Identifier: MIT( \*/)?\n", "", text)


def sources(root: Path) -> list[Path]:
    """What libpoolshim-pools is made of, lower layers first, families by name."""
    pools = root / "pools"
    families = sorted({path.parent.relative_to(pools).as_posix() for path in pools.glob("*/*.c")})
    folders = [*LAYERS, *(name for name in families if name not in (*LAYERS, "examples"))]
    return [path for folder in folders for path in sorted((pools / folder).glob("*.c"))]


class File:
    """One file of the result: what others include is written in front of it, once."""

    def __init__(self, root: Path, *, is_hidden: bool = False) -> None:
        self.root = root
        self.before_system = "#pragma GCC visibility push(default)\n" * is_hidden
        self.after_system = "\n#pragma GCC visibility pop" * is_hidden
        self.system: set[str] = set()
        self.done: set[Path] = set()
        self.parts: list[str] = []

    def find(self, name: str) -> Path | None:
        """The file of the project that an include names."""
        places = (self.root / name, self.root / "pools" / "include" / name)
        return next((path for path in places if path.is_file()), None)

    def lines_of(self, path: Path) -> Iterator[str]:
        """The text; what it includes goes before it, headers of the system to the top, unless a
        condition decides about them."""
        depth = 0
        for line in read(path).splitlines():
            if (condition := CONDITION.match(line)) is not None:
                depth += -1 if condition[1] == "endif" else 1
            include = INCLUDE.match(line)
            if (part := ARCH_PART.match(line)) is not None:
                yield from self.parts_of_processors(part[1])
            elif include is None:
                yield line
            elif include[2].startswith(f"{ARCH}/generic/"):
                yield from self.lines_of(self.root / include[2])
            elif (found := self.find(include[2])) is not None:
                self.add(found)
            elif include[1] == '"':
                raise AmalgamationError(f"{path}: no file {include[2]}")
            elif depth > (path.suffix != ".c"):  # beside the header's own guard
                yield f"{self.before_system}{line}{self.after_system}"
            else:
                self.system.add(include[2])

    def parts_of_processors(self, name: str) -> Iterator[str]:
        """A part of each processor, under the condition that arch.h has for it."""
        chosen = ARCH_CHOICE.findall((self.root / ARCH / "arch.h").read_text())
        for index, (condition, processor) in enumerate(chosen):
            yield f"#{'elif' if index else 'if'} {condition}"
            yield from self.lines_of(self.root / ARCH / processor / name)
        yield "#endif"

    def add(self, path: Path, renamed: Iterable[str] = ()) -> None:
        if path in self.done:
            return
        self.done.add(path)
        text = "\n".join(self.lines_of(path)).strip("\n")
        if path.suffix == ".c":
            text = rename(text, dict.fromkeys(renamed, name_of(path, self.root)))
            ends = "".join(f"\n#undef {name}" for name in sorted(macros_of(text)))
            text += f"\n{ends}" if ends else ""
        name = path.relative_to(self.root).as_posix()
        self.parts.append(f"/* ---- {name} {'-' * (82 - len(name))} */\n\n{text}\n")

    def includes(self) -> str:
        return "".join(f"#include <{name}>\n" for name in sorted(self.system))


def name_of(path: Path, root: Path) -> str:
    """The prefix of a source's own names."""
    parts = path.relative_to(root / "pools").with_suffix("").parts
    return "_".join(parts[-2:] if parts[-1] != parts[-2] else parts[-1:])


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def macros_of(text: str) -> set[str]:
    return set(DEFINE.findall(without_comments(text)))


def locals_of(text: str) -> set[str]:
    """Functions, variables and types that a source has for itself."""
    text = ATTRIBUTE.sub("", without_comments(text))
    return {name for form in (LOCAL, UNNAMED, UNDO_LOG, TAG) for name in form.findall(text)}


def end_of_braces(text: str, start: int) -> int:
    """The place after the brace that closes the one at start."""
    depth = 0
    for match in re.finditer(r"[{}]", text[start:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return start + match.end()
    return len(text)


def rename(text: str, prefixes: dict[str, str]) -> str:
    """The names with their prefixes; not members, strings and comments."""
    bodies = [(m.start(), end_of_braces(text, m.end() - 1)) for m in BODY.finditer(text)]

    def one(match: re.Match[str]) -> str:
        name = match[0]
        if name not in prefixes:
            return name
        is_member = any(start < match.start() < end for start, end in bodies)
        is_tag = re.search(r"\b(?:struct|union|enum) $", text[: match.start()][-8:]) is not None
        return f"{prefixes[name]}_{name}" if is_tag or not is_member else name

    return TOKEN.sub(one, text)


def shared_names(paths: list[Path], headers: str) -> set[str]:
    """Names that more than one source has for itself, or a header, too."""
    owners: defaultdict[str, int] = defaultdict(int)
    for path in paths:
        for name in locals_of(path.read_text()):
            owners[name] += 1
    for name in locals_of(headers):
        owners[name] += 1
    return {name for name, count in owners.items() if count > 1}


def comment(text: str, licence: str) -> str:
    lines = [*text.strip().splitlines(), "", *licence.strip().splitlines()]
    body = "\n".join(f" * {line}".rstrip() for line in lines)
    return f"/* SPDX-License-Identifier: MIT */\n/*\n{body}\n */\n"


def guarded(name: str, text: str) -> str:
    guard = re.sub(r"\W", "_", name.replace("-pools", "-amalgamation")).upper()
    return f"#ifndef {guard}\n#define {guard}\n\n{text}\n#endif\n"


def write_header(root: Path, suffix: str) -> File:
    """All public headers of one language."""
    file = File(root)
    for path in sorted((root / "pools" / "include" / "poolshim").glob(f"*.{suffix}")):
        if path.name not in OTHERS_HEADERS:
            file.add(path)
    return file


def amalgamate(root: Path, version: str) -> dict[str, str]:
    """Name -> contents. The version is written into the comments."""
    licence = (root / "LICENSE").read_text()
    about = f"poolshim {version}: memory pools for 64-bit Linux, made by scripts/dev/amalgamate."
    header = write_header(root, "h")
    cxx = File(root)
    cxx.done |= header.done
    for path in sorted((root / "pools" / "include" / "poolshim").glob("*.hpp")):
        cxx.add(path)
    paths = sources(root)
    private = "".join(
        path.read_text() for path in sorted((root / "pools").rglob("*.h")) if path.is_file()
    )
    renamed = shared_names(paths, private)
    body = File(root, is_hidden=True)
    body.done |= header.done
    for path in paths:
        body.add(path, renamed & locals_of(path.read_text()))
    texts = {
        HEADER: f"{about}\nA manual for each family, below the family's name.",
        CXX_HEADER: f"{about}\nThe families in C++17.",
        SOURCE: textwrap.dedent(f"""\
            {about}

                cc -std=c11 -O2 -c poolshim-pools.c -pthread

            With -fexceptions where a handler of the program throws through it."""),
    }
    hidden = (
        "#pragma GCC visibility push(hidden)\n"
        "/* What headers of the sources offer and nothing here uses. */\n"
        '#pragma GCC diagnostic ignored "-Wunused-function"\n\n',
        "\n#pragma GCC visibility pop\n",
    )
    return {
        HEADER: comment(texts[HEADER], licence)
        + guarded(HEADER, header.includes() + "\n" + "\n".join(header.parts)),
        CXX_HEADER: comment(texts[CXX_HEADER], licence)
        + guarded(CXX_HEADER, f'#include "{HEADER}"\n\n{cxx.includes()}\n' + "\n".join(cxx.parts)),
        SOURCE: comment(texts[SOURCE], licence)
        + f'#define _GNU_SOURCE\n\n#include "{HEADER}"\n\n{body.includes()}\n'
        + hidden[0] + "\n".join(body.parts) + hidden[1],
    }  # fmt: skip


def write(root: Path, version: str, folder: Path) -> list[Path]:
    """The files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, text in amalgamate(root, version).items():
        (folder / name).write_text(text)
        made.append(folder / name)
    return made


def make_archive(what: Release, source: Path, work: Path, output: Path) -> Path:
    """The files and the licence, as dist/ has them."""
    top = f"poolshim-pools-{what.version}"
    write(source, what.version, work / top)
    (work / top / "LICENSE").write_bytes((source / "LICENSE").read_bytes())
    path = output / f"{top}.tar.xz"
    archive.pack(work / top, top, path, what.epoch)
    return path
