# SPDX-License-Identifier: MIT
"""The plugin of pytest: planted leaks and peaks fail with their lines, others pass.

    scripts/test tests/cli/test_pytest_plugin.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import ROOT, run_captured
from table import each_row

pytestmark = pytest.mark.preload

PLUGIN = "poolshim_cli.pytest_plugin"
SOURCE = {
    "leaks": """
        import threading

        KEPT = []


        class Node:
            def __init__(self):
                self.text = "x" * 100 + str(len(KEPT))
                self.me = self


        def leak_here():
            KEPT.append(Node())


        @pytest.mark.poolshim_no_growth
        def test_leak():
            leak_here()


        @pytest.mark.poolshim_no_growth
        def test_leak_of_a_thread():
            thread = threading.Thread(target=leak_here)
            thread.start()
            thread.join()


        @pytest.mark.poolshim_no_growth(allow="1 KiB")
        def test_allowed():
            leak_here()


        @pytest.mark.parametrize("count", [0, 3])
        @pytest.mark.poolshim_no_growth(rounds=6)
        def test_some(count):
            for _ in range(count):
                leak_here()


        class TestUnits(unittest.TestCase):
            @pytest.mark.poolshim_no_growth
            def test_unit(self):
                leak_here()
    """,
    "calm": """
        import functools

        TABLE, ROUND = {}, []


        @functools.lru_cache(maxsize=None)
        def computed(number):
            return "a" * number


        @pytest.mark.poolshim_no_growth
        def test_a_cache_that_fills():
            ROUND.append(0)
            if len(ROUND) < 7:
                TABLE[len(ROUND)] = bytes(100)
            del ROUND[100:]


        @pytest.mark.poolshim_no_growth
        def test_first_imports():
            import decimal
            import xml.dom.minidom

            assert decimal.Decimal("1.5") + 2 == decimal.Decimal("3.5")
            xml.dom.minidom.parseString("<a><b/></a>").unlink()


        @pytest.mark.poolshim_no_growth
        @pytest.mark.parametrize("number", [1, 1000])
        def test_garbage_in_cycles(number):
            computed(number)
            for _ in range(100):
                one = []
                one.append(one)
    """,
    "peaks": """
        def build():
            return [bytes([i % 7]) * 200 for i in range(40000)]


        @pytest.mark.poolshim_limit("4 MiB")
        def test_blocks():
            build()


        @pytest.mark.poolshim_limit("64 MiB")
        def test_blocks_within():
            build()


        @pytest.mark.poolshim_limit(1_000_000)
        def test_buffer():
            bytearray(2_000_000)


        @pytest.fixture
        def many():
            return build()


        @pytest.mark.poolshim_limit("1 MiB")
        def test_a_fixture_does_not_count(many):
            assert len(many) == 40000


        def test_without_a_marker():
            bytearray(32 << 20)
    """,
}


def written(folder: Path, name: str) -> Path:
    """A file of SOURCE, or one with such text."""
    path = folder / f"test_{name if name in SOURCE else 'one'}.py"
    text = textwrap.dedent(SOURCE.get(name, name))
    path.write_text(f"import unittest\n\nimport pytest\n{text}")
    return path


def pytest_of(
    path: Path, *words: str, status: int = 0, before: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """pytest with the plugin, on one file."""
    inherited = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "COLUMNS": "80", **env}
    command = [sys.executable, *before, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider"]
    done = run_captured([*command, *words, path.name], 240, cwd=path.parent, env=inherited)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def failures_of(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The text of each failure, whose lines are folded where their figures leave room."""
    text = done.stdout.partition("= FAILURES =")[2]
    text = text.partition("\n")[2].partition("\n==")[0]
    parts = re.split(r"^_+ (\S+) _+$", text, flags=re.M)
    return dict(zip(parts[1::2], [" ".join(one.split()) for one in parts[2::2]], strict=True))


def line_of(path: Path, text: str) -> int:
    """Where a line begins with it."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    return next(at for at, line in enumerate(lines, 1) if line.startswith(text))


@pytest.mark.slow
@each_row("workers", [[], ["-n", "2"]])
def test_planted_leaks_fail_with_their_lines(tmp_path: Path, workers: list[str]) -> None:
    path = written(tmp_path, "leaks")
    found = failures_of(pytest_of(path, "--poolshim", *workers, status=1))
    assert set(found) == {"test_leak", "test_leak_of_a_thread", "test_some[3]",
                          "TestUnits.test_unit"}  # fmt: skip
    leak, made = line_of(path, "KEPT.append"), line_of(path, "self.text")
    for text in found.values():
        assert f"test_leaks.py:{made} Node.__init__" in text
        assert f"test_leaks.py:{leak} leak_here" in text and "pluggy" not in text
    assert "blocks of 160 bytes: +1.0 per round" in found["test_leak"]
    assert "blocks of 160 bytes: +3.0 per round" in found["test_some[3]"]
    assert "(12 rounds)" in found["test_some[3]"]


@pytest.mark.slow
def test_what_only_looks_like_a_leak_passes(tmp_path: Path) -> None:
    assert "4 passed" in pytest_of(written(tmp_path, "calm"), "--poolshim").stdout


@each_row("workers", [[], ["-n", "2"]])
def test_peaks(tmp_path: Path, workers: list[str]) -> None:
    path, junit = written(tmp_path, "peaks"), tmp_path / "junit.xml"
    done = pytest_of(path, "--poolshim", "--poolshim-top", "2", "--junit-xml", str(junit),
                     *workers, status=1)  # fmt: skip
    found = failures_of(done)
    assert set(found) == {"test_blocks", "test_buffer"}
    assert f"test_peaks.py:{line_of(path, 'return [bytes')} build" in found["test_blocks"]
    assert "live at the peak: poolshim_limit allows 4.0 MiB" in found["test_blocks"]
    assert f"test_peaks.py:{line_of(path, 'bytearray(2_')} test_buffer" in found["test_buffer"]
    title = done.stdout.index("highest peaks of live memory")
    names = re.findall(r"^ +[0-9.]+  (\S+)$", done.stdout[title:], re.M)
    assert [name.partition("::")[2] for name in names][0] == "test_without_a_marker"
    assert len(names) == 2
    peaks = {case.get("name"): int(one.get("value") or 0) for case in
             ElementTree.parse(junit).iter("testcase") for one in case.iter("property")
             if one.get("name") == "poolshim_peak_bytes"}  # fmt: skip
    assert peaks["test_without_a_marker"] == pytest.approx(32 << 20, rel=0.02)
    # 240 bytes of each of 40,000 blocks, and their list.
    assert peaks["test_blocks"] == pytest.approx(40000 * 248, rel=0.1)
    assert peaks["test_a_fixture_does_not_count"] < 1 << 20


def test_a_peak_whose_samples_find_no_room_is_no_pass(tmp_path: Path) -> None:
    path = written(tmp_path, """
        @pytest.mark.poolshim_limit("1 GiB")
        def test_it():
            kept = [bytes(70_000) for _ in range(4000)]
            assert kept
    """)  # fmt: skip
    done = pytest_of(path, "--poolshim", status=1, POOLSHIM_PROFILE_MAX="64KiB")
    assert "the peak is unknown: " in failures_of(done)["test_it"]


def test_a_test_that_fails_is_not_judged(tmp_path: Path) -> None:
    path = written(tmp_path, """
        @pytest.mark.poolshim_limit("1 KiB")
        @pytest.mark.poolshim_no_growth
        def test_it():
            block = bytearray(1 << 20)
            assert not block, "own reason"
    """)  # fmt: skip
    text = failures_of(pytest_of(path, "--poolshim", status=1))["test_it"]
    assert "own reason" in text and "poolshim_limit allows" not in text


def test_a_body_that_cannot_be_repeated(tmp_path: Path) -> None:
    path = written(tmp_path, """
        @pytest.mark.poolshim_no_growth
        def test_it(tmp_path):
            (tmp_path / "folder").mkdir()
    """)  # fmt: skip
    text = failures_of(pytest_of(path, "--poolshim", status=1))["test_it"]
    assert "fails when poolshim_no_growth repeats it" in text and "FileExistsError" in text


@each_row("marker, text", [
    ("poolshim_limit", 'a size is missing, such as "24 MiB"'),
    ('poolshim_limit("much")', "'much' is not a size such as 65536, 64K or 64KiB"),
    ("poolshim_limit(0)", "0 is less than 1"),
    ("poolshim_limit(True)", 'True is not a size such as "24 MiB"'),
    ('poolshim_limit("1 KiB", "2 KiB")', "2 arguments without a name; there is size"),
    ('poolshim_limit("1 KiB", size="2 KiB")', "size is given twice"),
    ("poolshim_no_growth(round=5)", "no argument round; there are allow, rounds, warmup"),
    ("poolshim_no_growth(rounds=4)", "rounds: 4 is no number from 5 on"),
    ("poolshim_no_growth(warmup=0)", "warmup: 0 is no number from 1 on"),
    ('poolshim_no_growth("-1")', "allow: '-1' is not a size"),
])  # fmt: skip
def test_wrong_arguments_of_a_marker(tmp_path: Path, marker: str, text: str) -> None:
    path = written(tmp_path, f"@pytest.mark.{marker}\ndef test_it():\n    pass\n")
    done = pytest_of(path, "--strict-markers", status=1)
    assert f"{marker.partition('(')[0]}: " in done.stdout and text in done.stdout
    assert "1 error" in done.stdout and "Traceback" not in done.stdout


@each_row("before, words, env, text", [
    ((), [], {"POOLSHIM_BUILD_DIR": "/nowhere"}, "/nowhere/libpoolshim.so: build first"),
    (("-E", "-c", "import sys; sys.path.insert(0, {scripts!r}); import pytest; "
      "sys.exit(pytest.main(sys.argv[3:]))"), [], {}, "Python ignores PYTHONMALLOC"),
    ((), [], {"PYTEST_ON_POOLSHIM": "1"}, "is preloaded, and does not serve this Python"),
    ((), ["--poolshim-interval", "some"], {}, "--poolshim-interval: 'some' is not a size"),
])  # fmt: skip
def test_what_prevents_a_run_is_one_line(
    tmp_path: Path, before: tuple[str, ...], words: list[str], env: dict[str, str], text: str
) -> None:
    path = written(tmp_path, "def test_it():\n    pass\n")
    scripts = str(ROOT / "scripts")
    done = pytest_of(path, "--poolshim", *words, status=4,
                     before=tuple(word.format(scripts=scripts) for word in before),
                     **env)  # fmt: skip
    (line,) = [line for line in done.stderr.splitlines() if line]
    assert line.startswith("ERROR: --poolshim: ") and text in line


def test_without_the_option_nothing_is_measured(tmp_path: Path) -> None:
    path = written(tmp_path, """
        import os

        @pytest.mark.poolshim_limit("1 KiB")
        @pytest.mark.poolshim_no_growth
        def test_it():
            bytearray(1 << 20)
            assert "libpoolshim" not in os.environ.get("LD_PRELOAD", "")
    """)  # fmt: skip
    done = pytest_of(path, "--strict-markers")
    assert "highest peaks" not in done.stdout and "1 passed" in done.stdout


def test_a_suite_that_runs_on_the_library_already(tmp_path: Path) -> None:
    """It is started again all the same: its small objects would be no blocks of malloc."""
    path = written(tmp_path, """
        import os

        def test_it():
            assert os.environ["PYTHONMALLOC"] == "malloc"
            assert os.environ["LD_PRELOAD"].count("libpoolshim") == 1
    """)  # fmt: skip
    command = [ROOT / "scripts" / "poolshim", "run", "--", sys.executable, "-m", "pytest", "-p",
               PLUGIN, "-p", "no:cacheprovider", "--poolshim", path]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = run_captured(command, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
