# SPDX-License-Identifier: MIT
"""The language of the product: mechanisms act, not persons, and each thing has one word.

Documents have no word of either list; code (comments, messages and help texts) has no words for
persons, and comments in C have neither a retired word nor a phrase of DIALECT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from linting.rules import register
from linting.tree import Tree, is_document, line_of

PERSONS = re.compile(  # NOBODY is a user of the system
    r"\b([Hh](e|is|im|imself)|[Ww]ho(m|ever)?|([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body|[Ss]omeone"
    r"|[Bb]ut\s+for|[Dd]ear(er|est)?)\b"
)

# Retired words, each with the word that took its place (docs/glossary.md).
RETIRED = {
    r"hot\s+runs?": "free streak",
    r"free\s+runs?\s+of\s+blocks": "gap",
    r"orphan(s|ages?)?": "slab",
    r"reclaim\s+notices?|wakes?|woken?|waked": "notification",
    r"recent\s+blocks?|recents|LIFO\s+caches?": "front",
    r"slices?\s+of\s+64\s+KiB|64\s+KiB\s+slices?": "granule",
    r"robs?|robbed|robbers?|thefts?|thief": "steal",
    r"lets?\s+go\s+of": "detach",
    r"hand-?overs?|hands?\s+over|handed\s+over|hander-?overs?": "transfer",
    r"go(?:es)?\s+home|comes?\s+home|gone\s+home": "return",
    r"not\s+missed": "stopped",
}  # fmt: skip
RETIRED_ANY = re.compile(rf"(?i)\b(?:{'|'.join(RETIRED)})\b")

# Phrases that say nothing to a reader of other allocators: memory that looks, waits to be told, or
# goes home, and sentences that open with a clause for a noun ("What is freed here ...").
DIALECT = re.compile(
    r"\b([Ll]ook(s|ed|ing)?(?![ -]?ups?\b)|(com(e|es|ing)|came)\s+back|(is|are|been)\s+told"
    r"|(go(es)?|went|sen[dt]s?)\s+home|gone|thie(f|ves)|lets?\s+go|hot\s+runs?)\b"
    r"|(^|[.:;]\s)(Wh(at|ether|ere|o)|Of)\b"
)

FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# Tests are no text of the product.
FOLDERS = ("pools/", "shim/", "scripts/", "bench/")
TEXT_SUFFIXES = (".c", ".h", ".hpp", ".cpp", ".def", ".py", ".toml", ".cmake", ".txt")
Found = Iterator[tuple[int, str]]


def blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def prose_of(text: str) -> str:
    """A document without its code, its addresses and its comments; keeps the numbers of lines."""
    text = CODE.sub("", FENCE.sub(blank, text))
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def comments_of(text: str) -> list[tuple[int, str]]:
    """Each comment of a C source as one line, without code and names, and where it starts."""
    found = []
    for match in COMMENT.finditer(text):
        prose = re.sub(r"\s+", " ", re.sub(r"\n[ \t]*\*?", " ", match[0][2:-2]))
        prose = re.sub(r"`[^`]*`|\b\w*_\w*\b", "_", prose).strip()
        found.append((line_of(text, match.start()), prose))
    return found


def is_text_of_product(name: str) -> bool:
    is_text = name.endswith(TEXT_SUFFIXES) or "." not in name.rpartition("/")[2]
    return is_document(name) or (name.startswith(FOLDERS) and is_text)


def is_commented(name: str) -> bool:
    return name.startswith(("pools/", "shim/")) and name.endswith((".c", ".h", ".hpp"))


@register("person", is_text_of_product)
def person(tree: Tree, name: str) -> Found:
    """Mechanisms act: no word for a person."""
    text = tree.view(prose_of, name) if is_document(name) else tree.text(name)
    for match in PERSONS.finditer(text):
        yield line_of(text, match.start()), f"a word for a person: {match[0]}"


@register("retired", lambda name: is_document(name) or is_commented(name))
def retired(tree: Tree, name: str) -> Found:
    """A thing has one word: not the word that it had before."""
    if is_document(name):
        text = tree.view(prose_of, name)
        places = [(line_of(text, one.start()), one[0]) for one in RETIRED_ANY.finditer(text)]
    else:
        comments = tree.view(comments_of, name)
        places = [(line, one[0]) for line, text in comments for one in RETIRED_ANY.finditer(text)]
    for line, found in places:
        (word, *_) = (word for old, word in RETIRED.items() if re.fullmatch(f"(?i){old}", found))
        yield line, f"{found}: the word is {word}"


@register("dialect", is_commented)
def dialect(tree: Tree, name: str) -> Found:
    """Comments in C have no phrase that a reader of other allocators does not know."""
    for line, comment in tree.view(comments_of, name):
        for match in DIALECT.finditer(comment):
            yield line, f"says nothing to a reader of other allocators: {match[0].strip()}"
