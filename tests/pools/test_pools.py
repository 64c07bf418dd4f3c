# SPDX-License-Identifier: MIT
"""The pools library: its tests and examples in every build, its headers in every language
version, its symbols.

    scripts/test tests/pools/test_pools.py
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row
from test_unit import run_in_builds

SOURCES = sorted(
    path
    for pattern in ("tests/pools/*_test.c", "tests/pools/*_test.cpp", "pools/examples/*.c*",
                    "pools/examples/programs/*.cpp")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_pool_program(source: Path, tmp_path: Path) -> None:
    run_in_builds(source, f"pools/{source.stem}-{source.suffix[1:]}", tmp_path)


def test_there_are_pool_programs() -> None:
    assert SOURCES


INCLUDE = ROOT / "pools" / "include"
HEADERS = sorted((INCLUDE / "poolshim").glob("*.h*"))
C_STANDARDS = ("c11", "c17", "c2x")
CXX_STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++2b")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")


def compilers() -> list[tuple[str, str]]:
    """C and C++ compiler of each kind that is installed."""
    pairs = [("gcc", "g++"), ("clang-16", "clang++-16"), ("clang", "clang++")]
    found = [pair for pair in pairs if all(shutil.which(name) for name in pair)]
    return [pair for pair in found if pair[0] != "clang" or len(found) < 3]


def compiler_runs() -> list[object]:
    """Each compiler with all standards at night; by day the first with the oldest and the newest,
    the others with the oldest."""
    found = compilers()
    by_day = [
        pytest.param(pair, 2 if pair == found[0] else 1, id=f"{pair[0]}-ends") for pair in found
    ]
    return by_day + [
        pytest.param(pair, 0, marks=pytest.mark.nightly, id=f"{pair[0]}-all") for pair in found
    ]


@pytest.mark.parametrize(("pair", "ends"), compiler_runs())
@each_row("header", HEADERS)
def test_header_compiles_alone(
    header: Path, pair: tuple[str, str], ends: int, tmp_path: Path
) -> None:
    is_c = header.suffix == ".h"
    runs = [(pair[0], "c", standard) for standard in C_STANDARDS if is_c]
    runs += [(pair[1], "c++", s) for s in (CXX_STANDARDS if is_c else CXX_STANDARDS[2:])]
    runs = runs if ends == 0 else [runs[0], runs[-1]][:ends]
    source = tmp_path / "includer"
    source.write_text(f"#include <poolshim/{header.name}>\n" * 2 + "extern int used;\n")
    for compiler, language, standard in runs:
        flags = [*WARNINGS, "-fsyntax-only", f"-I{INCLUDE}"]
        command = [compiler, "-x", language, f"-std={standard}", *flags, source]
        result = run_captured(command)
        assert result.returncode == 0, f"{compiler} {standard}: {result.stderr}"


@each_row("pair", compilers())
def test_fixed_pools_work_in_constant_expressions(pair: tuple[str, str]) -> None:
    """In C++20; the compiler refuses a misuse and names the function that ends the program."""
    source = ROOT / "tests" / "pools" / "fixed_constants.cpp"
    command = [pair[1], "-std=c++20", *WARNINGS, "-fsyntax-only", f"-I{INCLUDE}", source]
    result = run_captured(command)
    assert result.returncode == 0, result.stderr
    for misuse in ("double_free", "foreign"):
        refused = run_captured([*command, f"-DMISUSE={misuse}"])
        assert refused.returncode != 0 and "ps_fixed_misuse" in refused.stderr, refused.stderr


def declared() -> set[str]:
    """The functions and variables that the C headers of the library mark PS_API."""
    names: set[str] = set()
    for header in INCLUDE.glob("poolshim/*.h"):
        pattern = r"/\*.*?\*/|//[^\n]*|^#.*?(?<!\\)$"
        text = re.sub(pattern, "", header.read_text(), flags=re.DOTALL | re.MULTILINE)
        names.update(re.findall(r"\bPS_API\b[^;{]*?\b(ps_\w+)\s*\(", text))
        names.update(re.findall(r"\bextern PS_API\b[^;(]*?\b(ps_\w+)\s*(?:;|\[|__attr)", text))
    return names


def test_exports_what_the_headers_declare(build_dir: Path) -> None:
    command = ["nm", "-D", "--defined-only", "--with-symbol-versions"]
    library = str(build_dir / "libpoolshim-pools.so")
    text = subprocess.run([*command, library], check=True, capture_output=True, text=True).stdout
    rows = [line.split()[1:] for line in text.splitlines()]
    exported = dict(name.split("@@") for kind, name in rows if kind != "A")
    assert declared() == exported.keys()
    table = (ROOT / "shim" / "entry_points.def").read_text()
    pages = set(re.findall(r"^PS_CONTROL\((ps_\w+)\)", table, re.MULTILINE))
    assert {name for name, version in exported.items() if version == "POOLSHIM_0.1"} == pages
    assert {exported[name] for name in exported.keys() - pages} == {"POOLSHIM_0.3"}
