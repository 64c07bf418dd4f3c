# SPDX-License-Identifier: MIT
"""How often phrases occur in comments and documents that make a text hard to read.

The ceilings are what other allocators have: snmalloc, mimalloc and tcmalloc. Each phrase hides the
subject or the act of a sentence: say which code acts and what it changes instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from linting.rules import register
from linting.tree import Tree, suffix_of

PHRASES = {
    "what is": re.compile(r"(?i)\bwhat\s+(?:is|are|was|were|has|have|had)\b(?![^.]*\?)"),
    "holds": re.compile(r"(?i)\bholds?\b"),
    "holds, held": re.compile(r"(?i)\b(?:holds?|held|holding)\b"),
    "keeps, kept": re.compile(r"(?i)\b(?:keeps?|kept|keeping)\b"),
    "of which": re.compile(r"(?i)\bof\s+(?:which|those)\b"),
    "stays": re.compile(r"(?i)\bstay(?:s|ed|ing)?\b"),
    "behind": re.compile(r"(?i)\bbehind\b"),
    "waits": re.compile(r"(?i)\bwaits?\b"),
    "stands": re.compile(r"(?i)\b(?:stands?(?!-in)|stood|standing)\b"),
}

# Per 1,000 words of a folder.
CEILINGS = {
    "what is": 0.16, "holds": 1.3, "holds, held": 1.6, "keeps, kept": 1.28, "of which": 0.32,
    "stays": 0.24, "behind": 0.06, "waits": 0.62, "stands": 0.06,
}  # fmt: skip

FOLDERS = ("pools", "shim", "tests", "bench", "scripts", "docs")
REST = "root"  # what lies elsewhere
LEFT_OUT = ("CHANGELOG.md",)  # history
C_SUFFIXES = (".c", ".h", ".cpp", ".hpp", ".def", ".rs")
C_COMMENT = re.compile(r"/\*.*?\*/|(?://[^\n]*\n[ \t]*)+", re.DOTALL)
PYTHON_TEXT = re.compile(r'"""(.*?)"""|#([^\n]*)', re.DOTALL)

Found = Iterator[tuple[str, int, str]]
Counts = dict[str, int]


def counts_of(text: str) -> Counts:
    found = {phrase: len(pattern.findall(text)) for phrase, pattern in PHRASES.items()}
    return {"words": len(re.findall(r"[A-Za-z']+", text)), **found}


def in_document(text: str) -> Counts:
    """In its prose."""
    text = re.sub(r"`[^`]*`", "_", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return counts_of(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))


def in_c(text: str) -> Counts:
    """In comments."""
    comments = (match[0] for match in C_COMMENT.finditer(text))
    return counts_of("\n".join(re.sub(r"\n[ \t]*(\*|//[/!]?)?", " ", one) for one in comments))


def in_python(text: str) -> Counts:
    """In docstrings and comments."""
    return counts_of("\n".join(match[0] for match in PYTHON_TEXT.finditer(text)))


def in_cmake(text: str) -> Counts:
    """In comments."""
    return counts_of("\n".join(re.findall(r"#[^\n]*", text)))


def in_script(text: str) -> Counts:
    """In a file without a suffix, by its first line."""
    if not text.startswith("#!"):
        return counts_of("")
    return in_python(text) if "python" in text[:80] else in_cmake(text)


def kind_of(name: str) -> Callable[[str], Counts] | None:
    if name.startswith(LEFT_OUT):
        return None
    suffix = suffix_of(name)
    if suffix in C_SUFFIXES:
        return in_c
    return {".md": in_document, ".py": in_python, ".cmake": in_cmake, ".txt": in_cmake,
            "": in_script}.get(suffix)  # fmt: skip


def folder_of(name: str) -> str:
    top = name.partition("/")[0]
    return top if top in FOLDERS else REST


def counts_by_folder(tree: Tree) -> dict[str, dict[str, Counts]]:
    """Folder, file, phrase: how often."""
    found: dict[str, dict[str, Counts]] = {folder: {} for folder in (*FOLDERS, REST)}
    for name in tree.names:
        kind = kind_of(name)
        if kind:
            found[folder_of(name)][name] = tree.view(kind, name)
    return found


def rates(files: dict[str, Counts]) -> dict[str, float]:
    words = sum(counts["words"] for counts in files.values())
    return {
        phrase: 1000 * sum(counts[phrase] for counts in files.values()) / max(words, 1)
        for phrase in PHRASES
    }


@register("phrase")
def phrase(tree: Tree) -> Found:
    """A folder has no more phrases that make a text hard to read than other allocators have."""
    for folder, files in counts_by_folder(tree).items():
        for one, rate in rates(files).items():
            if rate > CEILINGS[one]:
                most = sorted(files, key=lambda name: -files[name][one])[:3]
                places = ", ".join(f"{name} ({files[name][one]})" for name in most)
                message = f"{one!r} {rate:.2f} times in 1,000 words, the ceiling is "
                yield folder, 0, f"{message}{CEILINGS[one]}; most: {places}"


def table(tree: Tree) -> Iterator[str]:
    """For --rates: what each folder has, a star where that is above the goal."""
    yield "%-8s %s" % ("", " ".join(f"{phrase:>11}" for phrase in PHRASES))
    yield "%-8s %s" % ("goal", " ".join(f"{CEILINGS[phrase]:11.2f}" for phrase in PHRASES))
    for folder, files in counts_by_folder(tree).items():
        cells = (f"{rate:.2f}{'*' if rate > CEILINGS[phrase] else ' '}"
                 for phrase, rate in rates(files).items())  # fmt: skip
        yield "%-8s %s" % (folder, " ".join(f"{cell:>11}" for cell in cells))
