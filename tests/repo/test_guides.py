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


@each_row("check", [a_missing_row_is_found, an_outdated_table_is_found])
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
