# SPDX-License-Identifier: MIT
"""Rules on documents: their links, the paths and terms they name, their indexes and forms."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote

from linting.language import CODE, FENCE, blank
from linting.rules import register
from linting.tree import Tree, is_document, line_of

GLOSSARY = "docs/glossary.md"
DECISIONS = "docs/decisions"
DECISION_PARTS = ["Context", "Decision", "Measured consequence", "Alternatives"]
README_WORDS_MAX = 700

HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
LINK = re.compile(r'\]\(\s*<?([^()\s>]+(?:\([^()\s]*\))?)>?(?:\s+"[^"]*")?\s*\)')
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]: +<?([^\s>]+)", re.MULTILINE)
HTML = re.compile(r'<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)="([^"]+)"')
OTHER_PLACES = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
PATH = re.compile(r"`((?:bench|docs|pools|scripts|shim|tests)/[\w./+-]*[\w/])(?= |`)")
TERM = re.compile(r"^\| ([^|]+) \| [^|]+ \|$", re.MULTILINE)

Found = Iterator[tuple[int, str]]
FoundInTree = Iterator[tuple[str, int, str]]


def anchors_of(text: str) -> set[str]:
    """The anchors that GitHub gives a document's headings."""
    anchors: set[str] = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        name, number = slug, 0
        while name in anchors:  # ends: the number grows
            number += 1
            name = f"{slug}-{number}"
        anchors.add(name)
    return anchors


def placed_links(text: str) -> list[tuple[int, str]]:
    prose = CODE.sub("", FENCE.sub(blank, text))
    return [
        (line_of(prose, match.start()), match[1])
        for pattern in (LINK, REFERENCE, HTML)
        for match in pattern.finditer(prose)
        if not OTHER_PLACES.match(match[1])
    ]


def links_of(text: str) -> list[str]:
    """Links to files of the project."""
    return [link for _, link in placed_links(text)]


@register("link", is_document)
def link(tree: Tree, name: str) -> Found:
    """A relative link leads to a file of the project, its anchor to a heading."""
    for line, target in tree.view(placed_links, name):
        path, _, anchor = target.partition("#")
        full = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(path)))
        full = full if path else name
        if full != "." and not tree.has(full):
            yield line, f"leads nowhere: {target}"
        elif anchor and (tree.has_folder(full) or anchor not in tree.view(anchors_of, full)):
            yield line, f"no such heading: {target}"


@register("path", is_document)
def path(tree: Tree, name: str) -> Found:
    """A path that a document has as code exists; a program has a source of its name."""
    text = tree.text(name)
    for match in PATH.finditer(text):
        if not tree.has(match[1]) and not tree.has(f"{match[1]}.c"):
            yield line_of(text, match.start()), f"does not exist: {match[1]}"


@register("index")
def index(tree: Tree) -> FoundInTree:
    """The README of docs/ and of docs/decisions/ has a link to each document beside it."""
    for folder in ("docs", DECISIONS):
        listed = links_of(tree.text(f"{folder}/README.md"))
        for name in tree.glob(f"{folder}/*.md"):
            file = name.rpartition("/")[2]
            if file != "README.md" and file not in listed:
                yield f"{folder}/README.md", 0, f"no link to {file}"


@register(
    "decision", lambda name: name.startswith(f"{DECISIONS}/") and not name.endswith("README.md")
)
def decision(tree: Tree, name: str) -> Found:
    """A decision has the parts: context, decision, measured consequence, alternatives."""
    parts = re.findall(r"^## (.*)$", tree.text(name), re.MULTILINE)
    if parts != DECISION_PARTS:
        yield 0, f"the parts are {', '.join(DECISION_PARTS)}, not {', '.join(parts)}"


def flattened(text: str) -> str:
    return re.sub(r"\s+(?:\* )?", " ", text).lower()


@register("term")
def term(tree: Tree) -> FoundInTree:
    """The glossary defines a term once, and another document or the code uses it."""
    text = tree.text(GLOSSARY)
    names = [name for name in tree.documents() if name != GLOSSARY]
    names += tree.below("pools", "shim", suffixes=(".c", ".h", ".def"))
    texts = [tree.view(flattened, name) for name in names]
    seen: set[str] = set()
    for match in TERM.finditer(text):
        for one in (name.removeprefix("to ") for name in match[1].split(", ") if name != "Term"):
            line = line_of(text, match.start())
            if one in seen:
                yield GLOSSARY, line, f"defined twice: {one}"
            seen.add(one)
            used = re.compile(rf"\b{re.escape(one.lower())}")
            if not any(one.lower() in other and used.search(other) for other in texts):
                yield GLOSSARY, line, f"used nowhere: {one}"


@register("readme", lambda name: name == "README.md")
def readme(tree: Tree, name: str) -> Found:
    """The README is short, says first which problem it is for, and shows a picture early."""
    text = tree.text(name)
    lines = text.splitlines()
    words = len(text.split())
    if words > README_WORDS_MAX:
        yield 0, f"{words} words, the limit is {README_WORDS_MAX}"
    if lines[0] != "# poolshim" or not lines[2].startswith("*My container's memory grows"):
        yield 1, "does not say first which problem it is for"
    if not any(line.startswith("![") for line in lines[:15]):
        yield 15, "no picture before"
    section = text.partition("## Development\n")[2].partition("\n## ")[0]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    commands = [line.split()[0] for line in block[1].splitlines()] if block else []
    if commands != ["scripts/bench", "scripts/test"]:
        yield 0, "the part Development starts with scripts/bench and scripts/test"
