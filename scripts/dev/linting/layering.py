# SPDX-License-Identifier: MIT
"""A file includes only its own folder or a layer below it; the list is that of pools/README.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from linting.rules import register
from linting.tree import C_SUFFIXES, Tree, line_of

# Ascending; a folder may include itself and everything before it.
LAYERS = [
    "pools/engine/arch",
    "pools/engine/base",
    "pools/engine/os",
    "pools/engine/page",
    "pools/engine/small",
    "pools/engine/front",
    "pools/engine/heap",
    "pools/engine/harden",
    "pools/engine/profile",
    "pools/engine/record",
    "pools/engine/modes",
    "shim",
]
PUBLIC_HEADERS = "pools/include"
PAGES = "pools/pages"  # the family that libpoolshim.so exports
PROGRAMS = "pools/examples/programs/"  # installed as they are: their header lies beside them
RUST = "pools/rust"  # above the engine and the families, as the shim is
ARCH = LAYERS[0]
BELOW_PUBLIC_POOLS = [*LAYERS[:4], "pools/common", PUBLIC_HEADERS]
README = "pools/README.md"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<(poolshim/[^>]+)>)', re.MULTILINE)

ARCH_PART = re.compile(r"^#include PS_ARCH_PART\((\w+\.h)\)", re.MULTILINE)

Found = Iterator[tuple[str, int, str]]


def folder_of(path: str) -> str:
    """The layer's folder: pools/engine/<name>, pools/<name>, or shim."""
    parts = path.split("/")
    depth = {"pools/engine": 3, "pools": 2}
    return "/".join(parts[: depth.get("/".join(parts[:2]), depth.get(parts[0], 1))])


def allowed_folders(folder: str) -> set[str]:
    if folder == PUBLIC_HEADERS:
        return {PUBLIC_HEADERS}
    if folder in ("shim", RUST):
        return {folder, PUBLIC_HEADERS, PAGES, *LAYERS} - ({"shim"} - {folder})
    if folder in LAYERS:
        return set(LAYERS[: LAYERS.index(folder) + 1])
    return {folder, *BELOW_PUBLIC_POOLS}


def includes_of(text: str) -> dict[str, int]:
    """Headers of the project, as paths from the root, with the lines that include them."""
    return {
        match[1] or f"{PUBLIC_HEADERS}/{match[2]}": line_of(text, match.start())
        for match in INCLUDE.finditer(text)
    }


def is_beside(path: str, header: str) -> bool:
    """An example that users compile where it is installed includes a file of its own folder."""
    return path.startswith(PROGRAMS) and "/" not in header


def parts_of(text: str) -> dict[str, int]:
    """Parts of processors, by name, with the lines that include them."""
    return {match[1]: line_of(text, match.start()) for match in ARCH_PART.finditer(text)}


def graph_of(tree: Tree) -> dict[str, dict[str, int]]:
    names = tree.below("pools", "shim", suffixes=C_SUFFIXES)
    processors = {name.rpartition("/")[0] for name in tree.below(ARCH) if name.count("/") == 4}
    graph = {
        name: {
            PROGRAMS + header if is_beside(name, header) else header: line
            for header, line in tree.view(includes_of, name).items()
        }
        for name in names
    }
    for name in names:
        for part, line in tree.view(parts_of, name).items():
            for folder in processors - {f"{ARCH}/generic"}:
                graph[name][f"{folder}/{part}"] = line
    return graph


@register("include")
def include(tree: Tree) -> Found:
    """An include names an existing header from the root, of the file's own layer or below it."""
    graph = graph_of(tree)
    for path, includes in graph.items():
        allowed = allowed_folders(folder_of(path))
        for header, line in includes.items():
            if ".." in header.split("/"):
                yield path, line, f"{header} leaves its folder by .."
            elif header.endswith((".c", ".cpp")):
                yield path, line, f"includes the source file {header}"
            elif header not in graph:
                yield path, line, f"{header} is not a file, as seen from the root"
            elif folder_of(header) not in allowed:
                yield path, line, f"includes {header}, which is not below it"


@register("include-cycle")
def include_cycle(tree: Tree) -> Found:
    """No file includes itself through others."""
    graph = graph_of(tree)
    left = {path: {one for one in includes if one in graph} for path, includes in graph.items()}
    while leaves := {path for path, includes in left.items() if not includes}:
        left = {path: includes - leaves for path, includes in left.items() if path not in leaves}
    walk: list[str] = []
    step = min(left, default=None)
    while step is not None and step not in walk:
        walk.append(step)
        step = min(left[step])
    if step is not None:
        cycle = walk[walk.index(step) :]
        yield cycle[0], graph[cycle[0]][[*cycle, step][1]], f"a cycle: {' -> '.join(cycle)}"


@register("layers-listed")
def layers_listed(tree: Tree) -> Found:
    """pools/README.md lists the layers in their order."""
    names = [layer.split("/")[-1] for layer in LAYERS[:-1]]
    listed = re.findall(
        r"^[-*|0-9. ]*[`*]*(?:pools/)?(\w+)/?[`*]*", tree.text(README), re.MULTILINE
    )
    order = [name for name in dict.fromkeys(listed) if name in names]
    if order not in (names, names[::-1]):
        yield README, 0, f"the layers are {', '.join(names)}, not {', '.join(order)}"
