# SPDX-License-Identifier: MIT
"""Guides: tables of other allocators are complete, figures are current.

    scripts/test tests/repo/test_guides.py

The installed libraries say which settings they have; one that is not installed is skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from linting.guides import SPAN, rows
from table import each_row

GUIDES = ROOT / "docs" / "guides"
FOLDER = Path("/usr/lib/x86_64-linux-gnu")
SAME = "the same name"  # of scripts/dev/function_tables.py
MADE = ROOT / "scripts" / "dev" / "gen-guides"


def named_left(path: Path) -> set[str]:
    """Names that the first columns of a guide have as code."""
    return {name for row in rows(path.read_text()) for name in SPAN.findall(row[0])}


def library(name: str) -> str:
    found = next((path for path in (FOLDER / name, *Path("/usr/lib").glob(f"*/{name}"))
                  if path.exists()), None)  # fmt: skip
    if found is None:
        pytest.skip(f"{name} is not installed")
    return str(found)


def said(name: str, **env: str) -> str:
    """What a library prints when it serves a program."""
    everything = {**os.environ, "LD_PRELOAD": library(name), **env}
    return run_captured(["/bin/bash", "-c", "true"], env=everything).stderr


def strings(path: str) -> set[str]:
    return {text.decode() for text in re.findall(rb"[ -~]{4,}", Path(path).read_bytes())}


def every_option_of_jemalloc_has_a_row(name: str) -> None:
    text = said(name, MALLOC_CONF="stats_print:true")
    options = set(re.findall(r"^  (opt\.\w+):", text, re.MULTILINE))
    assert len(options) > 40
    assert options <= named_left(GUIDES / "from-jemalloc.md")


def every_option_of_mimalloc_has_a_row(name: str) -> None:
    text = said(name, MIMALLOC_VERBOSE="1")
    options = set(re.findall(r"option '(\w+)'", text))
    assert len(options) > 20
    current = {name for name in options if not name.startswith("deprecated_")}
    assert current <= named_left(GUIDES / "from-mimalloc.md")


def every_variable_of_gperftools_has_a_row(name: str) -> None:
    found = {text for text in strings(library(name))
             if re.fullmatch(r"(TCMALLOC|HEAP|PERFTOOLS)_[A-Z_]+|MALLOCSTATS|HEAP[A-Z]+|CPUPROFILE",
                             text)}  # fmt: skip
    assert len(found) > 15
    left = {name.partition("=")[0] for name in named_left(GUIDES / "from-tcmalloc.md")}
    assert found <= left


@each_row(
    "check, name",
    [
        (every_option_of_jemalloc_has_a_row, "libjemalloc.so.2"),
        (every_option_of_mimalloc_has_a_row, "libmimalloc.so.2"),
        (every_variable_of_gperftools_has_a_row, "libtcmalloc_minimal.so.4"),
        (every_variable_of_gperftools_has_a_row, "libtcmalloc_minimal_debug.so.4"),
    ],
)
def test_every_setting_of_an_allocator_has_a_row(check: Callable[[str], None], name: str) -> None:
    check(name)


# ---- functions ----


def exported(path: str | Path) -> set[str]:
    result = run_captured(["nm", "-D", "--defined-only", path])
    assert result.returncode == 0, result.stderr
    return {line.split()[-1].partition("@")[0] for line in result.stdout.splitlines()}


# Of each: its library, the names in it that are its interface, its headers, and how they declare
# a function.
ORIGINALS = {
    "jemalloc": ("libjemalloc.so.2", r"(?!_|je_test)[a-z]\w+", ["jemalloc/jemalloc.h"],
                 r"\bje_(\w+)\("),
    "tcmalloc": ("libtcmalloc_minimal.so.4", r"(tc_|MallocExtension_|MallocHook_[A-Z][a-z]+)\w+",
                 ["gperftools/tcmalloc.h", "gperftools/malloc_extension_c.h",
                  "gperftools/malloc_hook_c.h", "gperftools/heap-profiler.h",
                  "gperftools/profiler.h", "gperftools/nallocx.h"],
                 r"\b((?:tc_|Malloc(?:Extension|Hook)_|\w*HeapProfile|Profiler|nallocx)\w*)\s*\("),
    "mimalloc": ("libmimalloc.so.2", r"mi_\w+", ["mimalloc.h"],
                 r"^(?:mi_decl\w* )+[^(]*?\b(mi_\w+)\("),
}  # fmt: skip
INTERNAL = {"MallocHook_InitAtFirstAllocation_HeapLeakChecker", "malloc_size"}


def functions_of(guide: Path) -> dict[str, str]:
    """The rows of the generated table: the name, and the answer."""
    text = guide.read_text()
    table = text[text.index("<!-- table: functions.") :]
    return {SPAN.findall(row[0])[0]: row[1] for row in rows(table[: table.index("<!-- / -->")])}


def declared_in(header: Path, pattern: str) -> set[str]:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.DOTALL)
    return {match[1] for match in re.finditer(pattern, text, re.MULTILINE)}


@pytest.mark.parametrize("allocator", ORIGINALS)
def test_every_function_of_an_allocator_has_a_row(allocator: str) -> None:
    name, interface, headers, pattern = ORIGINALS[allocator]
    there = set(functions_of(GUIDES / f"from-{allocator}.md"))
    found = {one for one in exported(library(name)) if re.fullmatch(interface, one)} - INTERNAL
    assert len(found) > 15
    for header in headers:
        path = Path("/usr/include") / header
        found |= declared_in(path, pattern) if path.exists() else set()
    assert found - there == set()


def test_functions_of_the_same_name_are_those_of_the_library(shim: Path) -> None:
    ours = exported(shim)
    for allocator in ORIGINALS:
        found = functions_of(GUIDES / f"from-{allocator}.md")
        same = {name for name, here in found.items() if here == SAME and "::" not in name}
        assert same == {name for name in found if name in ours}, allocator
        assert len(same) > 10
        assert "" not in found.values()
    assert "_ZN15MallocExtension8instanceEv" in ours


def a_row_without_an_answer_is_found(tmp_path: Path) -> None:
    """Of a name that the library does not export."""
    table = tmp_path / "rows.toml"
    table.write_text('[[jemalloc]]\nnames = "malloc mallocy"\ndifference = ""\n')
    script = ("import function_tables, pathlib, sys\n"
              "function_tables.ROWS = pathlib.Path(sys.argv[1])\n"
              "function_tables.read_rows('jemalloc')\n")  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts" / "dev")}
    result = run_captured([sys.executable, "-c", script, table], env=env)
    assert result.returncode == 1 and "without an answer, or twice: mallocy" in result.stderr


def a_missing_row_is_found(tmp_path: Path) -> None:
    path = tmp_path / "guide.md"
    path.write_text("| a | b |\n|---|---|\n| `opt.x`, `opt.y` | `opt.z` |\n")
    assert named_left(path) == {"opt.x", "opt.y"}


def test_tables_are_those_of_the_results() -> None:
    result = run_captured([sys.executable, MADE, "--check"])
    assert result.returncode == 0, result.stderr


def an_outdated_table_is_found(tmp_path: Path) -> None:
    """In a copy in which one result has changed."""
    tree = tmp_path / "tree"
    for name in ("bench/results", "docs/guides"):
        shutil.copytree(ROOT / name, tree / name)
    for name in ("scripts/dev/gen-guides", "scripts/dev/made_files.py", "bench/servers.toml"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    command = [sys.executable, tree / MADE.relative_to(ROOT), "--check"]
    assert run_captured(command).returncode == 0
    result = tree / "bench" / "results" / "servers" / "ruby.json"
    result.write_text(result.read_text().replace('"peak": ', '"peak": 9'))
    changed = run_captured(command)
    assert changed.returncode == 1
    assert "ruby.md" in changed.stderr and "run scripts/dev/gen-guides" in changed.stderr


@each_row(
    "check", [a_missing_row_is_found, an_outdated_table_is_found, a_row_without_an_answer_is_found]
)
def test_planted_faults_are_found(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)


# ---- the tutorial ----


def blocks(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.preload
@pytest.mark.slow
def test_the_commands_of_the_tutorial_run(build_dir: Path, tmp_path: Path) -> None:
    """One after the other, in a folder in which bench/ is that of the checkout."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("/usr/bin/python3 is not installed")
    (tmp_path / "bench").symlink_to(ROOT / "bench")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "poolshim").symlink_to(ROOT / "scripts" / "poolshim")
    found = blocks((ROOT / "docs" / "tutorial.md").read_text())
    assert len(found) == 6
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    said = []
    for block in found:
        done = run_captured(["bash", "-euc", block], timeout=300, env=env, cwd=tmp_path)
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        said.append(done.stdout)
    shown = dict(re.findall(r'"(\w+)_bytes": (\d+)', said[3]))
    assert 0 < int(shown["live"]) < int(shown["resident"])
    assert (tmp_path / "heap.pb.gz").exists()
