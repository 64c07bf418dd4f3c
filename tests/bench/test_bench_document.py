# SPDX-License-Identifier: MIT
"""docs/figures.json as the benchmarks write it: the tables' names, headers and form.

scripts/test tests/bench/test_bench_document.py
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

sys.path.insert(0, str(ROOT / "bench"))
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")

from harness import contests, document, report, suite_report  # noqa: E402
from harness.session import Session  # noqa: E402
from poolshim_cli import allocators  # noqa: E402

pytestmark = pytest.mark.bench

STORED = json.loads(document.FIGURES.read_text())["tables"]
NO_PAGES = Session([], [allocators.Allocator("glibc")], 1, 1)


def names_in_documents() -> dict[str, str]:
    """Of bench/run.py, which has the name of other programs."""
    spec = importlib.util.spec_from_file_location("bench_run", ROOT / "bench" / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.NAMES_IN_DOCUMENTS)


def test_the_file_is_as_the_tools_write_it() -> None:
    text = document.FIGURES.read_text()
    assert document.dumps(json.loads(text)) == text


def test_tables_of_a_run_have_the_stored_names_and_headers() -> None:
    made = [report.list_section(NO_PAGES, {}, mode, 100_000_000)
            for mode in ("uncontended", "contended")]  # fmt: skip
    made.append(report.page_section(NO_PAGES, {}, 100_000))
    for section in made:
        name = names_in_documents()[section.title.rpartition(",")[2]]
        assert section.plain_headers() == STORED[name]["headers"]
        assert section.title == STORED[name]["title"]


def test_sums_have_the_stored_headers() -> None:
    assert suite_report.sums_section([]).plain_headers() == STORED["suite.sums"]["headers"]
    assert contests.sums_section([]).plain_headers() == STORED["pools.cases"]["headers"]


def test_storing_replaces_a_table_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(document.FIGURES.read_text())
    section = report.Section("A title", ["allocator", "alloc\nms"], [["glibc", "1"]])
    document.store({"pages": section}, "scripts/bench --only pages", path)
    before, after = json.loads(document.FIGURES.read_text()), json.loads(path.read_text())
    stored = after["tables"].pop("pages")
    assert (stored["headers"], stored["rows"]) == (["allocator", "alloc ms"], [["glibc", "1"]])
    del before["tables"]["pages"]
    assert after == before


def test_only_full_tables_are_stored(build_dir: Path) -> None:
    before = document.FIGURES.read_text()
    for program, words in [
        ("run.py", ["--quick"]),
        ("run.py", ["--only", "contended"]),
        ("run.py", ["--allocators", "glibc"]),
        ("suite.py", ["--quick"]),
        ("suite.py", ["--only", "pair"]),
    ]:
        command = [sys.executable, ROOT / "bench" / program, "--build", build_dir, "--write-docs"]
        done = run_captured([*command, *words])
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (program, words)
        assert "--write-docs" in done.stderr
    assert document.FIGURES.read_text() == before
