# SPDX-License-Identifier: MIT
"""Rules on files of tools and services: they agree with each other and call what exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from linting.guides import option_names
from linting.rules import register
from linting.tree import Tree, line_of

CLANG = "16"
SETUP = "scripts/setup"
HOOKS = "scripts/dev/hooks/"
WORKFLOW = ".github/workflows/ci.yml"
CONTAINERS = "docs/containers.md"
# CMake takes cmake_minimum_required for a promise, and checks none of it.
NEW_CMAKE = re.compile(
    r"PROJECT_IS_TOP_LEVEL|\bcmake_path\(|file\((?:CONFIGURE|COPY_FILE)|DEFER|string\(JSON"
    r"|C_STANDARD 17"
)

Found = Iterator[tuple[int, str]]
FoundInTree = Iterator[tuple[str, int, str]]


@register("clang-version")
def clang_version(tree: Tree) -> FoundInTree:
    """All name the version of the clang tools that scripts/setup installs."""
    for tool in (f"clang-format-{CLANG}", f"clang-tidy-{CLANG}"):
        if not re.search(rf"^{tool} +{tool}$", tree.text(SETUP), re.MULTILINE):
            yield SETUP, 0, f"does not install {tool}"
    for name in (".clang-format", ".clang-tidy", "CONTRIBUTING.md"):
        found = re.findall(r"clang-(?:format|tidy)[ -](\d+)|\(version (\d+)\)", tree.text(name))
        if {a or b for a, b in found} != {CLANG}:
            yield name, 0, f"does not name version {CLANG} of the clang tools, or another one"


@register("editor")
def editor(tree: Tree) -> FoundInTree:
    """.editorconfig tells editors what clang-format does."""
    name = ".editorconfig"
    for ours, theirs in (("max_line_length", "ColumnLimit"), ("indent_size", "IndentWidth")):
        value = re.findall(rf"^{theirs}: (\d+)", tree.text(".clang-format"), re.MULTILINE)
        wanted = rf"\[\*\]\n(?:.+\n)*{ours} = {''.join(value)}\n"
        if not re.search(wanted, tree.text(name)):
            yield name, 0, f"{ours} is not the {theirs} of .clang-format"


@register("called", lambda name: name == WORKFLOW or name.startswith((HOOKS, ".devcontainer/")))
def called(tree: Tree, name: str) -> Found:
    """Hooks, jobs and the container call scripts and tests that exist."""
    text = tree.text(name)
    for match in re.finditer(r"(?<![\w./-])(\.ci|scripts|tests)/[\w./-]+", text):
        if not tree.has(match[0]):
            yield line_of(text, match.start()), f"does not exist: {match[0]}"


@register("pinned", lambda name: name == WORKFLOW)
def pinned(tree: Tree, name: str) -> Found:
    """A job runs actions of others by their commit: a tag can be moved to other code."""
    for number, line in enumerate(tree.text(name).splitlines(), 1):
        used = re.search(r"\buses: +([^#\s]+)", line)
        if used and not re.search(r"@[0-9a-f]{40}$", used[1]):
            yield number, f"no commit: {used[1]}"


@register("container", lambda name: name == ".devcontainer/devcontainer.json")
def container(tree: Tree, name: str) -> Found:
    """The container of developers is made by scripts/setup."""
    if "scripts/setup test" not in json.loads(tree.text(name)).get("onCreateCommand", ""):
        yield 0, "does not run scripts/setup test"


@register("snippet", lambda name: name == CONTAINERS)
def snippet(tree: Tree, name: str) -> Found:
    """The unit and the manifest of docs/containers.md set options that exist."""
    text = tree.text(name)
    known = {"LD_PRELOAD", *(f"POOLSHIM_{option}" for option in option_names(tree))}
    for match in re.finditer(r"^Environment=(\w+)=|name: ([A-Z_]+), value", text, re.MULTILINE):
        if (match[1] or match[2]) not in known:
            yield line_of(text, match.start()), f"no option: {match[1] or match[2]}"


@register("old-cmake", lambda name: name in ("CMakeLists.txt", "scripts/CMakeLists.txt")
          or name.startswith("cmake/"))  # fmt: skip
def old_cmake(tree: Tree, name: str) -> Found:
    """The part of the build that users run needs no CMake after 3.16."""
    for number, line in enumerate(tree.text(name).splitlines(), 1):
        if NEW_CMAKE.search(line.partition("#")[0]):
            yield number, f"not in CMake 3.16: {line.strip()}"
    if name == "CMakeLists.txt" and "cmake_minimum_required(VERSION 3.16)" not in tree.text(name):
        yield 0, "does not require CMake 3.16"
