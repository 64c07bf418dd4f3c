# SPDX-License-Identifier: MIT
"""What runs of hours have: outcomes from which a run continues, shards, tables of what has run.

    scripts/test tests/repo/test_machine_tests.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import outcomes
from conftest import ROOT, load_script, run_captured
from table import each_row

MACHINE = ROOT / "scripts" / "dev" / "test-machine"
CONFTEST = """
import os
from pathlib import Path
from outcomes import Outcomes
def pytest_configure(config):
    path = Path(os.environ["TEST_OUTCOMES"])
    config.pluginmanager.register(Outcomes(path, hasattr(config, "workerinput")))
"""
TESTS = """
import os, pytest
def test_good(): pass
def test_bad(): assert os.path.exists("repaired"), "broken"
def test_absent(): pytest.skip("no such thing")
@pytest.fixture
def late(): yield; assert os.path.exists("repaired"), "late"
def test_end(late): pass
"""


def run_tests(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TEST_OUTCOMES": str(folder / "outcomes"),
           "PYTHONPATH": str(ROOT / "tests")}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words, "test_some.py"]
    return run_captured(command, env=env, cwd=folder)


def outcomes_of(folder: Path) -> dict[str, str]:
    found = outcomes.read(folder / "outcomes")
    return {test.partition("::")[2]: one["outcome"] for test, one in found.items()}


def test_a_run_continues_where_it_ended(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run_tests(tmp_path)
    expected = {"test_good": "passed", "test_bad": "failed", "test_absent": "skipped"}
    assert outcomes_of(tmp_path) == expected | {"test_end": "failed"}
    found = outcomes.read(tmp_path / "outcomes")
    assert found["test_some.py::test_absent"]["reason"] == "no such thing"
    assert "broken" in found["test_some.py::test_bad"]["reason"]
    with (tmp_path / "outcomes").open("a") as file:  # the machine stopped in the middle of a line
        file.write('{"test": "test_some.py::test_go')
    (tmp_path / "repaired").touch()
    again = run_tests(tmp_path, "-n", "2")
    assert "2 passed" in again.stdout and "skipped" not in again.stdout
    assert set(outcomes_of(tmp_path).values()) == {"passed", "skipped"}


def test_each_test_is_in_one_shard() -> None:
    names = [f"tests/a/test_b.py::test_c[{number}]" for number in range(300)]
    shards = [[one for one in names if outcomes.is_in_shard(one, f"{i}/3")] for i in (1, 2, 3)]
    assert sorted(sum(shards, [])) == sorted(names)
    assert all(len(shard) > 60 for shard in shards)


def test_a_table_counts_what_has_not_run_too(tmp_path: Path) -> None:
    script = load_script("test-machine")
    ended = {
        "tests/a/test_a.py::test_1": {"outcome": "passed", "seconds": 1.5},
        "tests/a/test_a.py::test_2": {"outcome": "failed", "seconds": 0, "reason": "a\x1b\nbroken"},
        "tests/b/test_b.py::test_3": {"outcome": "skipped", "seconds": 0, "reason": "none"},
    }
    chosen = ["tests/a/test_a.py::test_1", "tests/b/test_b.py::test_4"]
    assert script.table_of(ended, chosen)[2:] == [
        "| tests/a | 1 | 0 | 1 | 0 |",
        "| tests/b | 0 | 1 | 0 | 1 |",
        "| all | 1 | 1 | 1 | 1 |",
    ]
    script.write_xml(ended, tmp_path / "tests.xml")
    suite = ElementTree.parse(tmp_path / "tests.xml").getroot()
    failure = suite.find("testcase/failure")
    assert suite.get("tests") == "3" and failure is not None
    assert failure.get("message") == "broken"


@each_row(
    ("words", "message"),
    [
        ([MACHINE, "--cpus", "0"], "--cpus 0: 1 to"),
        ([MACHINE, "--mib", "1"], "--mib 1: at least 1024"),
        ([MACHINE, "--slowness", "0"], "--slowness 0: at least 1"),
        ([MACHINE, "--hours", "nan"], "--hours nan: more than 0"),
        ([MACHINE, "--shard", "3/2"], "--shard 3/2: I/N"),
        ([MACHINE, "--shard", "2"], "--shard 2: I/N"),
        ([ROOT / "scripts/dev/nightly", "nothing"], "no part nothing; see --list"),
        ([ROOT / "scripts/test", "--shard", "0/2"], "--shard takes I/N"),
        ([ROOT / "scripts/test", "--shard", "3/2"], "--shard takes I/N"),
        ([ROOT / "scripts/test", "--outcomes", "/no/such/file"], "--outcomes takes a file"),
    ],
)
def test_wrong_options_end_in_one_line(words: list[str], message: str) -> None:
    result = run_captured(words)
    assert result.returncode == 2
    assert message in result.stderr and result.stderr.count("\n") == 1


@each_row(
    ("part", "text", "counts"),
    [
        ("tests", "x\n== 1 failed, 90 passed, 3 skipped, 2 errors in 7.02s ==\n", (90, 3, 3, 0)),
        ("tests", "build failed\n", None),
        ("matrix", "a-gcc-1: passed, 3 s\nb-gcc: failed, 4 s\nc: not tried: no\n", (1, 0, 1, 1)),
        ("elsewhere", "| variant | passed |\n| aarch64 | 90 | 2 | 1 | 5 | 9 | a; b |\n"
         "| riscv64 | - | - | - | - | - | left out |\n| musl | 0 | 0 | 0 | 0 | 3 | no build |\n",
         (90, 2, 2, 1)),
        ("machine", "| all | 1 | 0 | 0 | 0 |\n| all | 1,200 | 3 | 1 | 7 |\n", (1200, 3, 1, 7)),
    ],
)  # fmt: skip
def test_parts_of_a_night_are_counted(
    part: str, text: str, counts: tuple[int, ...] | None
) -> None:
    assert load_script("nightly").PARTS[part].counts(text) == counts
