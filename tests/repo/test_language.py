# SPDX-License-Identifier: MIT
"""The language of the product: mechanisms act, not persons, and each thing has one word.

    scripts/test tests/repo/test_language.py

Documents have no word of either list; code (comments, messages and help texts) has no words for
persons, and comments in C have neither a retired word nor a phrase of DIALECT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from test_documents import CODE, FENCE, documents

PERSONS = re.compile(  # NOBODY is a user of the system
    r"\b([Hh](e|is|im|imself)|[Ww]ho(m|ever)?|([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body|[Ss]omeone"
    r"|[Bb]ut\s+for|[Dd]ear(er|est)?)\b"
)

# Retired words, each with the word that took its place (docs/glossary.md).
RETIRED = {
    r"hot\s+runs?": "free streak",
    r"free\s+runs?\s+of\s+blocks": "gap",
    r"orphanages?": "orphans",
    r"central": "orphans",
    r"wakes?|woken?|waked": "reclaim notice",
    r"recent\s+blocks?|recents|LIFO\s+caches?": "current span",
    r"slices?\s+of\s+64\s+KiB|64\s+KiB\s+slices?": "granule",
    r"robs?|robbed|robbers?|thefts?|thief": "steal",
    r"lets?\s+go\s+of": "detach",
    r"hand-?overs?|hands?\s+over|handed\s+over|hander-?overs?": "transfer",
    r"go(?:es)?\s+home|comes?\s+home|gone\s+home": "return",
    r"not\s+missed": "stopped",
}  # fmt: skip

# Phrases that say nothing to a reader of other allocators: memory that looks, waits to be told, or
# goes home, and sentences that open with a clause for a noun ("What is freed here ...").
DIALECT = re.compile(
    r"\b([Ll]ook(s|ed|ing)?(?![ -]?ups?\b)|(com(e|es|ing)|came)\s+back|(is|are|been)\s+told"
    r"|(go(es)?|went|sen[dt]s?)\s+home|gone|thie(f|ves)|lets?\s+go|hot\s+runs?)\b"
    r"|(^|[.:;]\s)(What|Whether|Of|Where|Who)\b"
)

# Tests are no text of the product.
FOLDERS = ["pools", "shim", "scripts", "bench"]
C_FOLDERS = ["pools", "shim"]
C_SUFFIXES = {".c", ".h", ".hpp"}
CODE_SUFFIXES = {".c", ".h", ".hpp", ".cpp", ".def", ".py", ".toml", ".cmake", ".txt", ""}


def prose_of(text: str) -> str:
    """A document without its code, its addresses and its comments."""
    text = re.sub(r"<!--.*?-->", "", CODE.sub("", FENCE.sub("", text)), flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def words_in(pattern: str | re.Pattern[str], text: str) -> list[str]:
    found = re.finditer(pattern, text)
    return [f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]}" for match in found]


def retired_in(text: str) -> list[str]:
    return [
        f"{place}, the word is {word}"
        for pattern, word in RETIRED.items()
        for place in words_in(rf"(?i)\b(?:{pattern})\b", text)
    ]


@pytest.mark.parametrize(
    "path", documents(ROOT), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_documents_keep_the_language(path: Path) -> None:
    text = prose_of(path.read_text())
    assert not words_in(PERSONS, text) + retired_in(text)


def comments_in(text: str) -> Iterator[str]:
    """Each comment of a C source as one line, without code and names."""
    for match in re.finditer(r"/\*.*?\*/", text, re.DOTALL):
        prose = re.sub(r"\n[ \t]*\*?", " ", match[0][2:-2])
        yield re.sub(r"`[^`]*`|\b\w*_\w*\b", "_", re.sub(r"\s+", " ", prose)).strip()


def count_in(folder: str, suffixes: set[str], count: Callable[[str], int]) -> dict[str, int]:
    """By file, without those that have none."""
    paths = [path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    counts = {path: count(path.read_text()) for path in paths if path.is_file()}
    return {
        path.relative_to(ROOT).as_posix(): number
        for path, number in counts.items()
        if number
    }


def dialect_in(text: str) -> int:
    return sum(len(DIALECT.findall(comment)) for comment in comments_in(text))


@pytest.mark.parametrize("folder", FOLDERS)
def test_code_has_no_words_for_persons(folder: str) -> None:
    assert not count_in(folder, CODE_SUFFIXES, lambda text: len(PERSONS.findall(text)))


@pytest.mark.parametrize("folder", C_FOLDERS)
def test_comments_have_no_dialect(folder: str) -> None:
    assert not count_in(folder, C_SUFFIXES, dialect_in)


@pytest.mark.parametrize("folder", C_FOLDERS)
def test_comments_have_no_retired_words(folder: str) -> None:
    assert not count_in(
        folder, C_SUFFIXES, lambda text: len(retired_in("\n".join(comments_in(text))))
    )


@pytest.mark.parametrize(
    "text",
    ["The owner: he looks.", "Whoever frees", "who frees", "all but\nfor one", "nobody waits",
     "Everybody waits", "someone", "the dearest"],
)  # fmt: skip
def test_planted_persons_are_found(text: str) -> None:
    assert words_in(PERSONS, prose_of(text))


@pytest.mark.parametrize(
    "text",
    ["a hot run", "wakes an owner", "a 64 KiB slice", "Recent blocks", "the orphanage", "robs it"],
)
def test_planted_retired_words_are_found(text: str) -> None:
    assert retired_in(prose_of(text))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("/* What is freed here goes home. */", 2),
        ("/*\n * Settles. Whether it is\n * told: Of a span. */", 3),
        ("/* the thief looks\n * at it, and it is gone */", 3),
        ("/* Looks up the span, in `what_looks`; x_gone is a list. */ int looks = 1;", 0),
    ],
)
def test_planted_dialect_is_counted(text: str, count: int) -> None:
    assert dialect_in(text) == count


@pytest.mark.parametrize(
    "text",
    ["`PS_KEY_NOBODY`", "```\nwake()\n```", "[a](tests/wake.md)", "another", "but forks", "awake"],
)
def test_code_and_other_words_are_left_alone(text: str) -> None:
    text = prose_of(text)
    assert not words_in(PERSONS, text) + retired_in(text)
