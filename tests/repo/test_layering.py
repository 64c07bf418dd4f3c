# SPDX-License-Identifier: MIT
"""A file includes only its own folder or a layer below it; the list is that of pools/README.md.

    scripts/test tests/repo/test_layering.py
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT

# Ascending; a folder may include itself and everything before it.
LAYERS = [
    "pools/engine/base",
    "pools/engine/os",
    "pools/engine/page",
    "pools/engine/small",
    "pools/engine/heap",
    "pools/engine/harden",
    "pools/engine/profile",
    "pools/engine/record",
    "pools/engine/modes",
    "shim",
]
PUBLIC_HEADERS = "pools/include"
COMMON = "pools/common"
PAGES = "pools/pages"  # the family that libpoolshim.so exports
RUST = "pools/rust"  # above the engine and the families, as the shim is
BELOW_PUBLIC_POOLS = [
    "pools/engine/base", "pools/engine/os", "pools/engine/page", COMMON, PUBLIC_HEADERS
]
SUFFIXES = {".c", ".h", ".def", ".cpp", ".hpp"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<(poolshim/[^>]+)>)', re.MULTILINE)

Graph = dict[str, list[str]]


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


def read_graph(root: Path) -> Graph:
    """Every source file with what it includes from the project, as paths from the root."""
    graph: Graph = {}
    for top in ("pools", "shim"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES:
                graph[path.relative_to(root).as_posix()] = [
                    quoted or f"{PUBLIC_HEADERS}/{angled}"
                    for quoted, angled in INCLUDE.findall(path.read_text())
                ]
    return graph


def problems_of(graph: Graph) -> list[str]:
    found = []
    for path, includes in graph.items():
        for include in includes:
            if ".." in include.split("/"):
                found.append(f"{path}: {include} leaves its folder by ..")
            elif include.endswith((".c", ".cpp")):
                found.append(f"{path}: includes the source file {include}")
            elif include not in graph:
                found.append(f"{path}: {include} is not a file, as seen from the root")
            elif folder_of(include) not in allowed_folders(folder_of(path)):
                found.append(f"{path}: includes {include}, which is not below it")
    return found


def find_cycle(graph: Graph) -> list[str]:
    """One include cycle, or nothing. Files without an include are taken away until none is left."""
    left = {path: {i for i in includes if i in graph} for path, includes in graph.items()}
    while True:
        leaves = [path for path, includes in left.items() if not includes]
        if not leaves:
            break
        for leaf in leaves:
            del left[leaf]
        for includes in left.values():
            includes.difference_update(leaves)
    walk: list[str] = []
    step = min(left, default=None)
    while step is not None and step not in walk:
        walk.append(step)
        step = min(left[step])
    return walk[walk.index(step) :] if step is not None else []


def test_no_upward_include() -> None:
    graph = read_graph(ROOT)
    assert graph
    assert not problems_of(graph)


def test_no_include_cycle() -> None:
    assert not find_cycle(read_graph(ROOT))


def test_readme_lists_the_layers_in_this_order() -> None:
    text = (ROOT / "pools" / "README.md").read_text()
    names = [layer.split("/")[-1] for layer in LAYERS[:-1]]
    listed = re.findall(r"^[-*|0-9. ]*[`*]*(?:pools/)?(\w+)/?[`*]*", text, re.MULTILINE)
    order = [name for name in dict.fromkeys(listed) if name in names]
    assert order in (names, names[::-1]), f"layers in pools/README.md: {order}"


def plant(root: Path, files: dict[str, str]) -> Graph:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_graph(root)


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("pools/engine/base/a.h", "pools/engine/os/target.h"),
        ("pools/engine/page/a.c", "pools/engine/heap/target.h"),
        ("pools/engine/small/a.c", "shim/target.h"),
        ("pools/engine/heap/a.c", "pools/region/target.h"),
        ("pools/engine/heap/a.c", "pools/include/poolshim/target.h"),
        ("pools/region/a.c", "pools/engine/heap/target.h"),
        ("pools/region/a.c", "pools/fifo/target.h"),
        ("pools/region/a.c", "pools/pages/target.h"),
        ("pools/common/a.c", "pools/pages/target.h"),
        ("pools/include/poolshim/a.h", "pools/engine/base/target.h"),
        ("pools/rust/native/a.c", "shim/target.h"),
        ("pools/rust/native/a.c", "pools/region/target.h"),
    ],
)
def test_planted_upward_include_is_found(tmp_path: Path, path: str, include: str) -> None:
    graph = plant(tmp_path, {path: f'#include "{include}"\n', include: ""})
    assert problems_of(graph) == [f"{path}: includes {include}, which is not below it"]


@pytest.mark.parametrize("include", ["../os/os.h", "pools/engine/os/b.c", "os.h"])
def test_planted_bad_form_is_found(tmp_path: Path, include: str) -> None:
    files = {
        "pools/engine/os/a.c": f' # include "{include}"\n',
        "pools/engine/os/b.c": "",
        "pools/engine/os/os.h": "",
    }
    assert len(problems_of(plant(tmp_path, files))) == 1


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("pools/engine/heap/a.c", '"pools/engine/base/target.h"'),
        ("pools/engine/heap/a.c", '"pools/engine/heap/target.h"'),
        ("shim/a.c", '"pools/engine/heap/target.h"'),
        ("shim/a.c", '"pools/pages/target.h"'),
        ("pools/pages/a.c", '"pools/common/target.h"'),
        ("pools/region/a.c", '"pools/engine/page/target.h"'),
        ("pools/region/a.c", "<poolshim/target.h>"),
    ],
)
def test_downward_include_is_accepted(tmp_path: Path, path: str, include: str) -> None:
    target = include.strip('"').replace("<poolshim", "pools/include/poolshim").strip(">")
    graph = plant(tmp_path, {path: f"#include {include}\n#include <stdio.h>\n", target: ""})
    assert graph[path] == [target]
    assert not problems_of(graph)


def test_planted_cycle_is_found(tmp_path: Path) -> None:
    names = ["pools/engine/heap/a.h", "pools/engine/heap/b.h", "pools/engine/heap/c.h"]
    files = {name: f'#include "{names[index - 2]}"\n' for index, name in enumerate(names)}
    files["pools/engine/heap/user.c"] = f'#include "{names[0]}"\n'
    graph = plant(tmp_path, files)
    assert not problems_of(graph)
    assert sorted(find_cycle(graph)) == names
