# SPDX-License-Identifier: MIT
"""Who calls whom in the engine, as `nm` of its built objects tells: no reference to a folder above,
and no large knot of objects that call each other.

    scripts/test tests/repo/test_calls.py
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from linting.layering import LAYERS
from table import each_row

# The way up: the core calls the modes through these tables alone (pools/engine/heap/mode.h).
TABLES = {"ps_mode_entries", "ps_mode_hooks"}
CYCLE_MAX = 2  # objects
FUNCTIONS = "TW"
DEFINED = "TWVBDR"


@dataclass
class Object:
    """What a source's object defines, with nm's letter, and what it leaves to others."""

    defined: dict[str, str] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)


Objects = dict[str, Object]  # by path from the root, without suffix: pools/engine/heap/free


def read_objects(folder: Path, source_root: Path) -> Objects:
    """Of all sources that are there: a build folder keeps the objects of those that are gone."""
    objects: Objects = {}
    for path in sorted(folder.rglob("*.o")):
        name = path.relative_to(folder).as_posix().split(".")[0]
        if not (source_root / f"{name}.c").exists():
            continue
        objects[name] = Object()
        for line in run_captured(["nm", path]).stdout.splitlines():
            *_, letter, symbol = line.split()
            if letter in "Uw":
                objects[name].wanted.add(symbol)
            elif letter in DEFINED:
                objects[name].defined[symbol] = letter
    return objects


def rank_of(name: str) -> int:
    return LAYERS.index(name.rpartition("/")[0])


def upward_references(objects: Objects) -> list[str]:
    home = {symbol: name for name, object in objects.items() for symbol in object.defined}
    return [
        f"{name} refers to {symbol} of {home[symbol]}, which is above it"
        for name, object in objects.items()
        for symbol in sorted(object.wanted - TABLES)
        if symbol in home and rank_of(home[symbol]) > rank_of(name)
    ]


def call_graph(objects: Objects) -> dict[str, set[str]]:
    home = {
        symbol: name
        for name, object in objects.items()
        for symbol, letter in object.defined.items()
        if letter in FUNCTIONS
    }
    return {
        name: {home[symbol] for symbol in object.wanted if symbol in home} - {name}
        for name, object in objects.items()
    }


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    left = list(graph[start])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += graph[name]
    return found


def cycles(objects: Objects) -> list[list[str]]:
    """Sets of objects each of which calls each other, directly or not; the largest first."""
    graph = call_graph(objects)
    below = {name: reachable(graph, name) for name in graph}
    knots: dict[frozenset[str], None] = defaultdict(None)
    for name in graph:
        knot = frozenset(other for other in below[name] if name in below[other])
        if knot:
            knots[knot] = None
    return sorted((sorted(knot) for knot in knots), key=len, reverse=True)


@pytest.fixture(scope="module")
def engine(build_dir: Path) -> Objects:
    folder = build_dir / "CMakeFiles" / "poolshim-engine.dir"
    objects = read_objects(folder, ROOT)
    if not objects:
        pytest.skip(f"no objects under {folder}")
    assert len({name.rpartition("/")[0] for name in objects}) >= 4
    return objects


def nothing_refers_to_a_folder_above(engine: Objects) -> None:
    assert not upward_references(engine)


def the_tables_are_the_way_up(engine: Objects) -> None:
    wanting = [name for name, object in engine.items() if object.wanted & TABLES]
    assert wanting == ["pools/engine/heap/mode"]


def no_large_knot_of_calls(engine: Objects) -> None:
    assert [knot for knot in cycles(engine) if len(knot) > CYCLE_MAX] == []


@each_row(
    "check",
    [
        nothing_refers_to_a_folder_above,
        the_tables_are_the_way_up,
        no_large_knot_of_calls,
    ],
)
def test_the_engine(engine: Objects, check: Callable[[Objects], None]) -> None:
    check(engine)


def plant(root: Path, sources: dict[str, str]) -> Objects:
    for name, text in sources.items():
        source = root / f"{name}.c"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        result = run_captured(["gcc", "-c", source, "-o", root / f"{name}.c.o"])
        assert result.returncode == 0, result.stderr
    return read_objects(root, root)


@each_row(
    ("text", "above"),
    [
        ("void up(void); void down(void) { up(); }\n", "void up(void) {}\n"),
        ("void up(void); void (*down)(void) = up;\n", "void up(void) {}\n"),
        ("extern int up; int down(void) { return up; }\n", "int up = 1;\n"),
    ],
)
def planted_upward_reference_is_found(tmp_path: Path, text: str, above: str) -> None:
    objects = plant(tmp_path, {"pools/engine/small/low": text, "pools/engine/heap/high": above})
    wanted = ["pools/engine/small/low refers to up of pools/engine/heap/high, which is above it"]
    assert upward_references(objects) == wanted


def planted_knot_is_found(tmp_path: Path) -> None:
    """A ring of calls, one object more than may be; what only calls into it is not part of it."""
    count = CYCLE_MAX + 1
    ring = {
        f"pools/engine/heap/f{i}": f"void f{next}(void); void f{i}(void) {{ f{next}(); }}\n"
        for i, next in enumerate([*range(1, count), 0])
    }
    caller = {"pools/engine/heap/caller": "void f0(void); void caller(void) { f0(); }\n"}
    assert cycles(plant(tmp_path, {**ring, **caller})) == [sorted(ring)]


def a_pointer_in_a_table_is_no_call_into_a_knot(tmp_path: Path) -> None:
    objects = plant(
        tmp_path,
        {
            "pools/engine/heap/core": "extern void (*const ps_mode_hooks[])(void);\n"
            "void core(void) { ps_mode_hooks[0](); }\n",
            "shim/table": "void mode(void);\nvoid (*const ps_mode_hooks[])(void) = {mode};\n",
            "shim/mode": "void core(void); void mode(void) { core(); }\n",
        },
    )
    assert not upward_references(objects)
    assert not cycles(objects)


@each_row(
    "check",
    [
        planted_upward_reference_is_found,
        planted_knot_is_found,
        a_pointer_in_a_table_is_no_call_into_a_knot,
    ],
)
def test_planted_references(tmp_path: Path, check: Callable[..., None]) -> None:
    check(tmp_path=tmp_path)
