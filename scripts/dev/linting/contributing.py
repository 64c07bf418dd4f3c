# SPDX-License-Identifier: MIT
"""CONTRIBUTING.md says where a change goes: all files, functions and types that it names exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from linting.rules import register
from linting.tree import Tree, line_of

GUIDE = "CONTRIBUTING.md"
TOPS = ("pools", "shim", "tests", "bench", "scripts", "cmake", "docs", "build")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"```.*?```", re.DOTALL)
PATH = re.compile(r"[\w./<>*{},-]+")
NAME = re.compile(r"(ps_|fake_os_|poolshim_)\w+(\(\))?|struct \w+|PS_\w+")
SUFFIXES = (".c", ".h", ".hpp", ".cpp", ".def", ".py", ".md", ".toml", ".txt", ".json")
# These have names of absent things.
NOT_SOURCES = ("scripts/dev/linting/", "tests/repo/")

# What newcomers looked for in a review of the tree, and a word of the row that answers it.
ERRANDS = {
    "a size class": "size classes",
    "a subcommand": "subcommand",
    "a hostile test": "misuse",
    "a workload": "workload",
    "a C++ adapter": "C++ adapter",
    "an option": "option",
    "a hardening check": "mistakes",
    "a counter": "counter",
    "a pool family": "new pool",
    "the purge policy": "memory goes back",
    "the page size of the system": "page size",
    "the policy of huge pages": "huge pages",
    "a processor": "processor",
    "realloc": "realloc",
}

# The header that says when memory goes back; every source of that row includes it.
RETENTION = "pools/engine/page/retention.h"

# Policies with one place: a call that makes a decision, and the files that may.
ONE_PLACE = {
    "ps_os_advise_huge": {
        "pools/engine/os/os.h", "pools/engine/os/os_linux.c",
        "pools/engine/page/huge.h", "pools/engine/page/huge.c",
        "pools/engine/harden/guard.c",  # keeps a mapping apart; no policy
    },
}  # fmt: skip

Found = Iterator[tuple[str, int, str]]


def words_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def is_in_sources(tree: Tree, word: str) -> bool:
    names = (name for name in tree.names if name.endswith((".c", ".h", ".hpp", ".py", ".def")))
    return any(
        word in tree.view(words_of, name) for name in names if not name.startswith(NOT_SOURCES)
    )


def problem_with_path(tree: Tree, path: str) -> str | None:
    pattern = re.sub(r"<[^>]*>", "*", path.rstrip(".,"))
    is_path = pattern.split("/")[0] in TOPS and "/" in pattern
    if pattern.startswith("build/") or not (is_path or pattern.endswith(SUFFIXES)):
        return None
    if not is_path:
        is_known = "/" in pattern or tree.has(pattern) or tree.glob(f"**/{pattern}")
        return None if is_known else f"no file is called {path}"
    if tree.glob(pattern):
        return None
    # A pattern with a name left open may have no file yet, but has a folder.
    has_folder = "<" in path and tree.glob(pattern.rstrip("/").rpartition("/")[0])
    return None if has_folder else f"no {path}"


@register("guide-names")
def guide_names(tree: Tree) -> Found:
    """CONTRIBUTING.md names files, functions and types that exist."""
    text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), tree.text(GUIDE))
    for match in CODE.finditer(text):
        word, line = match[1], line_of(text, match.start())
        if NAME.fullmatch(word):
            if not is_in_sources(tree, word.removesuffix("()").split()[-1]):
                yield GUIDE, line, f"no {word} in the sources"
            continue
        for path in PATH.findall(word):
            problem = problem_with_path(tree, path)
            if problem:
                yield GUIDE, line, problem


def rows(text: str) -> dict[str, tuple[int, str]]:
    """The table of places: a change, the line, and where it goes."""
    start = text.find("## Places of changes")
    part = text[start:].split("\n## ")[0]
    found = {}
    for number, line in enumerate(part.splitlines(), line_of(text, start)):
        if line.startswith("| "):
            change, _, place = line.strip("|").partition("|")
            found[change.strip()] = number, place.strip()
    return found


@register("errands")
def errands(tree: Tree) -> Found:
    """Every errand of a newcomer has one row in CONTRIBUTING.md, which names a place."""
    table = rows(tree.text(GUIDE))
    for errand, word in ERRANDS.items():
        places = [place for change, place in table.items() if word in change]
        if len(places) != 1:
            yield GUIDE, 0, f"{errand}: {len(places)} rows have {word!r}"
        elif not re.search(r"`[\w./<>*]+`|`\w+\(\)`", places[0][1]):
            yield GUIDE, places[0][0], f"{errand}: the row names no place"


@register("one-policy")
def one_policy(tree: Tree) -> Found:
    """Every source that returns memory includes the header of the policy; the row names them."""
    for change, (line, place) in rows(tree.text(GUIDE)).items():
        if "memory goes back" not in change:
            continue
        policy, *sources = re.findall(r"`(pools/[\w/]+\.[ch])`", place) or [""]
        if policy != RETENTION or len(sources) < 6:
            yield GUIDE, line, f"names {RETENTION} first, then the sources that ask it"
        for source in sources:
            if tree.has(source) and f'#include "{policy}"' not in tree.text(source):
                yield source, 0, f"returns memory and does not include {policy}"


@register("one-place")
def one_place(tree: Tree) -> Found:
    """A call that decides a policy is in the files that may decide it."""
    for call, allowed in ONE_PLACE.items():
        for name in tree.below("pools", "shim", suffixes=(".c", ".h")):
            if call in tree.view(words_of, name) and name not in allowed:
                yield name, line_of(tree.text(name), tree.text(name).find(call)), call
        for name in allowed:
            if not tree.has(name) or call not in tree.view(words_of, name):
                yield name, 0, f"does not call {call}: remove it from ONE_PLACE"
