# SPDX-License-Identifier: MIT
"""Every relative link in the project's documents leads somewhere, its anchor to a heading.

    scripts/test tests/repo/test_documents.py
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import ROOT

NOT_OURS = {"build", "node_modules"}  # and what is hidden
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
LINK = re.compile(r'\]\(\s*<?([^()\s>]+(?:\([^()\s]*\))?)>?(?:\s+"[^"]*")?\s*\)')
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]: +<?([^\s>]+)", re.MULTILINE)
HTML = re.compile(r'<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)="([^"]+)"')
OTHER_PLACES = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def documents(root: Path) -> list[Path]:
    found = []
    for path in root.rglob("*.md"):
        folders = path.relative_to(root).parts[:-1]
        if not any(name in NOT_OURS or name.startswith(".") for name in folders):
            found.append(path)
    return sorted(found)


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


def links_of(text: str) -> list[str]:
    prose = CODE.sub("", FENCE.sub("", text))
    links = [link for pattern in (LINK, REFERENCE, HTML) for link in pattern.findall(prose)]
    return [link for link in links if not OTHER_PLACES.match(link)]


def problems_of(path: Path, root: Path) -> list[str]:
    """Links of one document that lead nowhere, or out of the project."""
    found = []
    for link in links_of(path.read_text()):
        name, _, anchor = link.partition("#")
        target = (path.parent / unquote(name)).resolve() if name else path.resolve()
        if not target.is_relative_to(root.resolve()) or not target.exists():
            found.append(link)
        elif anchor and (target.is_dir() or anchor not in anchors_of(target.read_text())):
            found.append(link)
    return found


@pytest.mark.parametrize(
    "path", documents(ROOT), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_links_resolve(path: Path) -> None:
    assert not problems_of(path, ROOT)


def test_documents_of_every_folder_are_looked_at() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in documents(ROOT)}
    assert {"README.md", "docs/pools.md", "pools/README.md", "bench/README.md"} <= names


def test_links_are_seen() -> None:
    """The test above is no use if there is nothing to see."""
    assert sum(len(links_of(path.read_text())) for path in documents(ROOT)) >= 20


@pytest.mark.parametrize(
    ("link", "is_good"),
    [
        ("[a](other.md)", True),
        ("[a](other.md#a-heading-of-two)", True),
        ("[a](other.md#a-heading-of-two-1)", True),
        ("[a](#here)", True),
        ('![a](folder/picture.svg "title")', True),
        ("[a](https://example.org/x#y)", True),
        ("`[a](missing.md)`", True),
        ("```\n[a](missing.md)\n```", True),
        ("[a](folder)", True),
        ("[a](missing.md)", False),
        ("[a](other.md#missing)", False),
        ("[a](#missing)", False),
        ("[a]: missing.md", False),
        ('<img src="missing.png">', False),
        ("[a](folder#missing)", False),
        ("[a](../../outside.md)", False),
    ],
)
def test_planted_links(tmp_path: Path, link: str, is_good: bool) -> None:
    root = tmp_path / "project"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "picture.svg").touch()
    (tmp_path / "outside.md").touch()
    (root / "other.md").write_text("# A heading, of `two`\n\n## A heading of two\n")
    path = root / "document.md"
    path.write_text(f"# Here\n\n{link}\n")
    assert (problems_of(path, root) == []) == is_good
