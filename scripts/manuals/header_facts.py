# SPDX-License-Identifier: MIT
"""What the public headers say in their comments, for make_manuals.py and scripts/dev/site.

A header starts with a comment "name.h - what it is.", followed by paragraphs. Its declarations
begin at the left margin, each below its comment, in sections that lines of dashes open.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTION = re.compile(r"^/[/*] -+ (.*?) -+( \*/)?$")
INTERNAL = re.compile(r"^(Internal|Out of line|The library's own|Not for users)")
WRAPPING = re.compile(r'PS_(BEGIN|END)_DECLS|namespace|extern "C"')
CLASS = re.compile(r"^(template <.*> )?(class|struct) \S+( :.*)? \{$")
COMMENT = re.compile(r"/\*.*?\*/|(?://[^\n]*(?:\n|$))+", re.DOTALL)


@dataclass
class Entry:
    """Declarations, and the comment above them."""

    code: list[str]
    text: list[str]


@dataclass
class Section:
    """The text and declarations under one heading."""

    name: str
    entries: list[Entry] = field(default_factory=list)


@dataclass
class Header:
    """One public header."""

    file: str
    summary: str
    text: list[str]
    sections: list[Section] = field(default_factory=list)

    @property
    def page(self) -> str:
        """The name of its page, as in poolshim_region.h(3)."""
        return self.file if self.file == "poolshim.h" else f"poolshim_{self.file}"

    @property
    def is_internal(self) -> bool:
        """Included by other headers only."""
        return self.summary.startswith("the library's own")


def comment_lines(comment: str) -> list[str]:
    """The lines of a comment without its marks; indented lines remain indented."""
    if comment.startswith("//"):
        return [re.sub(r"^// ?", "", line) for line in comment.splitlines()]
    body = comment[2:-2].strip("\n")
    lines = [re.sub(r"^ \* ?", "", line) for line in body.splitlines()]
    return [lines[0].strip(), *lines[1:]] if not body.startswith(" *") else lines


def trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    while lines and not lines[0].strip():
        lines = lines[1:]
    return lines


def declarations(code: str, is_cpp: bool) -> Iterator[list[str]]:
    """Each declaration of a piece of code: a function without its body, a structure with it."""
    lines = [line for line in code.splitlines() if line.strip()]
    while lines:
        line = lines.pop(0)
        if line.startswith("#define"):
            yield [re.sub(r" *\\$", " ...", line)]
            while line.endswith("\\") and lines:
                line = lines.pop(0)
            continue
        if line.lstrip()[0] in "#})" or WRAPPING.match(line):
            continue
        taken = [line]
        while lines and not re.search(r"[;{]\s*$|\}$", re.sub(r" *(/\*|//).*", "", taken[-1])):
            taken.append(lines.pop(0))
        last = re.sub(r" *(/\*|//).*", "", taken[-1])
        if is_cpp and CLASS.search(last):  # its members follow
            yield taken
            continue
        if last.endswith("{"):
            margin = taken[0][: len(taken[0]) - len(taken[0].lstrip())]
            body = []
            while lines and not lines[0].startswith(margin + "}"):
                body.append(lines.pop(0))
            end = lines.pop(0) if lines else "}"
            if re.match(r"(struct|union|enum)\b[^()]*\{", " ".join(taken)):
                yield [*taken, *body, end]
                continue
            taken[-1] = last[:-1].rstrip() + ";"
        yield taken


def is_shown(lines: list[str]) -> bool:
    text = " ".join(lines)
    return not re.search(r"_slow\(|^#define POOLSHIM_\w+_HP?P?$|^#define \w+_API\b|friend ", text)


def body_of(line: str) -> str:
    """A declaration on one line, without its body and the words that only the compiler needs."""
    line = re.sub(r"^(PS_API|static inline|inline) ", "", line)
    return re.sub(r" \{.*\}$", ";", line) if "(" in line else line


def read_header(path: Path) -> Header:
    """One header. Without a first comment of the right form it is an error."""
    source = path.read_text().partition("\n")[2]
    first = COMMENT.match(source)
    assert first, path
    lines = trimmed(comment_lines(first[0]))
    opening = re.match(r"(\S+) - (.*)", lines[0])
    if not opening or opening[1] != path.name:
        raise ValueError(f"{path}: the first comment does not start with its name")
    paragraph = " ".join(itertools.takewhile(str.strip, lines))
    summary = re.split(r"[.:;](?: |$)", paragraph.partition(" - ")[2])[0]
    rest = [opening[2], *lines[1:]]
    rest[0] = rest[0][:1].upper() + rest[0][1:]
    header = Header(path.name, " ".join(summary.split()), rest)
    header.sections = list(sections_of(source[first.end() :], path.suffix == ".hpp"))
    return header


def sections_of(source: str, is_cpp: bool) -> Iterator[Section]:
    """What follows the first comment, from the guard on."""
    section, text, is_hidden = Section("declarations"), [], False
    for chunk in re.split(r"\n\s*\n", source):
        is_hidden = is_hidden and chunk.startswith((" ", "}"))
        if is_hidden:
            continue
        title = SECTION.match(chunk.strip())
        if title:
            if section.entries:
                yield section
            section, text = Section(title[1]), []
            continue
        comment, code = split_comment(chunk)
        code, access, _ = re.sub(r"(?m)^  (private|protected):", "\0", code).partition("\0")
        is_hidden = bool(access)
        if INTERNAL.match(" ".join(comment)):
            continue
        found = [one for one in declarations(code, is_cpp) if is_shown(one)]
        shown = [body_of(line) for one in found for line in one]
        if shown:
            section.entries.append(Entry(shown, comment or text))
            text = []
        elif comment and not code.strip():
            text = comment
    if section.entries:
        yield section


def split_comment(chunk: str) -> tuple[list[str], str]:
    """The comment at the left margin that opens a piece, and the code under it."""
    chunk = chunk.strip("\n")
    found = COMMENT.match(chunk)
    if not found:
        return [], chunk
    return trimmed(comment_lines(found[0])), chunk[found.end() :]
