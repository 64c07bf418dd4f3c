# SPDX-License-Identifier: MIT
"""The pools library as one source: compiled by both compilers, and the examples run on it alone.

    scripts/test tests/pools/test_amalgamation.py
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from test_pools import compilers, declared

sys.path.insert(0, str(ROOT / "scripts"))
from packages import amalgamation  # noqa: E402

SCRIPT = ROOT / "scripts" / "dev" / "amalgamate"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
TIMEOUT = 300  # the compiler may have little of a processor
EXAMPLES = ("region.c", "slots.c", "shared.c", "region.cpp")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, and nothing of the checkout."""
    output = tmp_path_factory.mktemp("amalgamation")
    written = run_captured([sys.executable, SCRIPT, "--output", output])
    assert written.returncode == 0, written.stderr
    assert {path.name for path in output.iterdir()} == set(amalgamation.NAMES)
    return output


@pytest.fixture(scope="module")
def library(folder: Path) -> Path:
    """Compiled by gcc."""
    command = ["gcc", "-std=c11", "-O1", *WARNINGS, "-c", folder / "poolshim-pools.c"]
    compiled = run_captured([*command, "-o", folder / "poolshim-pools.o"], TIMEOUT)
    assert compiled.returncode == 0, compiled.stderr
    return folder / "poolshim-pools.o"


def test_the_bytes_are_the_same_twice(folder: Path, tmp_path: Path) -> None:
    for path in amalgamation.write(ROOT, amalgamation.version_of(ROOT), tmp_path):
        assert path.read_bytes() == (folder / path.name).read_bytes()


def test_nothing_of_the_checkout_is_named(folder: Path) -> None:
    for path in folder.glob("poolshim-*.[ch]*"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
        assert set(re.findall(r'#include "(.*)"', text)) <= set(amalgamation.NAMES)
        assert not re.search(r"#include <poolshim/", text) and str(ROOT) not in path.read_text()


def test_it_has_the_functions_of_the_headers(library: Path) -> None:
    rows = run_captured(["nm", "--defined-only", library]).stdout.splitlines()
    globals_ = {line.split()[2] for line in rows if line.split()[1] in "TBDR"}
    assert declared() <= globals_
    assert {name for name in globals_ if not name.startswith("ps_")} == set()


@pytest.mark.parametrize("pair", compilers(), ids=lambda pair: pair[0])
def test_compiles_without_a_warning(pair: tuple[str, str], folder: Path) -> None:
    runs = [(pair[1], "-std=c++17", "-xc++", "poolshim-pools.hpp")]
    if pair[0] != "gcc":  # see the fixture
        runs.append((pair[0], "-std=c11", "-xc", "poolshim-pools.c"))
    for compiler, standard, language, name in runs:
        command = [compiler, standard, *WARNINGS, language, "-fsyntax-only", folder / name]
        compiled = run_captured(command, TIMEOUT)
        assert compiled.returncode == 0, f"{compiler} {name}: {compiled.stderr}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_on_it_alone(
    name: str, folder: Path, library: Path, tmp_path: Path
) -> None:
    if name.endswith(".cpp") and shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    text = (ROOT / "pools" / "examples" / name).read_text()
    text, count = re.subn(r"<poolshim/\w+\.(hp*)>", r'"poolshim-pools.\1"', text)
    assert count > 0
    source = tmp_path / name
    source.write_text(text)
    compiler = ["g++", "-std=c++17"] if name.endswith(".cpp") else ["gcc", "-std=gnu11"]
    flags = [*WARNINGS, f"-I{folder}", "-pthread"]
    built = run_captured([*compiler, *flags, source, library, "-o", tmp_path / "a"], TIMEOUT)
    assert built.returncode == 0, built.stderr
    ran = run_captured([tmp_path / "a"], cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    needed = run_captured(["readelf", "-d", tmp_path / "a"]).stdout
    assert "poolshim" not in needed


def test_names_of_two_sources_are_told_apart() -> None:
    text = (
        "static int at;\nPS_UNDO_LOG(undo, 3);\nstruct one {\n    int at;\n};\n"
        "int f(struct one *o) { return at + o->at; }\n"
    )
    assert amalgamation.locals_of(text) == {"at", "one", "undo"}
    assert amalgamation.rename(text, {"at": "file", "one": "file"}) == (
        "static int file_at;\nPS_UNDO_LOG(undo, 3);\nstruct file_one {\n    int at;\n};\n"
        "int f(struct file_one *o) { return file_at + o->at; }\n"
    )
