# SPDX-License-Identifier: MIT
"""`poolshim profile` of several profiles, and its flame graphs, which a browser draws.

    scripts/test tests/cli/test_cli_profile_dumps.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, find_browser
from conftest import ROOT, run_captured
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof, symbols  # noqa: E402
from poolshim_cli.callsites import CallSites  # noqa: E402
from poolshim_cli.folds import Folds  # noqa: E402
from poolshim_cli.profile import dumps, flame  # noqa: E402

pytestmark = pytest.mark.preload

MAIN = ROOT / "scripts" / "poolshim_cli" / "__main__.py"
HOSTILE = "</script><script>document.title='taken'</script>"


def poolshim(
    build: Path, *words: str | os.PathLike[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command, with this build's library."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POOLSHIM_")}
    env = {**kept, "POOLSHIM_BUILD_DIR": str(build), **environment}
    return run_captured([sys.executable, MAIN, "profile", *words], env=env, timeout=120)


@pytest.fixture
def peaks(build_dir: Path, tmp_path: Path) -> list[Path]:
    """Profiles of a program at its peaks, and at its end."""
    program = build_dir / "tests" / "scenarios" / "profiled_phases"
    env = {
        **os.environ, "LD_PRELOAD": str(build_dir / "libpoolshim.so"),
        "POOLSHIM_PROFILE": str(tmp_path / "%n.pb.gz"), "POOLSHIM_PROFILE_PEAK": "1",
        "POOLSHIM_PROFILE_INTERVAL": "64KiB", "POOLSHIM_PROFILE_SEED": "1",
    }  # fmt: skip
    assert run_captured([program], env=env).returncode == 0
    return sorted(tmp_path.iterdir())


def test_differences_of_two_profiles(build_dir: Path, peaks: list[Path]) -> None:
    need("addr2line")
    done = poolshim(build_dir, "--diff", "--json", peaks[3], peaks[-1])
    assert (done.returncode, done.stderr) == (0, "")
    grown, shrunk = json.loads(done.stdout)["sites"]
    assert grown["name"] == "hold_at_end" and grown["nbytes"] == pytest.approx(4 << 20, rel=0.1)
    assert shrunk["name"] == "hold_at_peak" and shrunk["nbytes"] < 0 and shrunk["blocks"] < 0
    done = poolshim(build_dir, "--diff", peaks[3], peaks[-1])
    assert re.search(r"\+4\.\d .*\+4 +hold_at_end", done.stdout)
    assert re.search(r"-\d\.\d .*-\d +hold_at_peak", done.stdout)
    same = poolshim(build_dir, "--diff", peaks[3], peaks[3])
    assert "+0.0 MiB" in same.stdout and len(same.stdout.splitlines()) == 1


def test_a_profile_of_all_that_was_allocated_differs_too(
    build_dir: Path, peaks: list[Path]
) -> None:
    need("addr2line")
    done = poolshim(build_dir, "--diff", "--alloc", "--json", peaks[-2], peaks[-1])
    rows = {row["name"]: row["nbytes"] for row in json.loads(done.stdout)["sites"]}
    assert rows["hold_at_end"] == pytest.approx(4 << 20, rel=0.1)
    assert all(nbytes > 0 for nbytes in rows.values())


def test_leaks_grow_in_each_profile(build_dir: Path, peaks: list[Path]) -> None:
    need("addr2line")
    done = poolshim(build_dir, "--leaks", "--json", *peaks[:5])
    assert [row["name"] for row in json.loads(done.stdout)["sites"]] == ["hold_at_peak"]
    done = poolshim(build_dir, "--leaks", *peaks)
    assert done.returncode == 0 and done.stdout.startswith("no call site grew in each of")


def test_leaks_of_several_processes_are_refused(build_dir: Path, tmp_path: Path) -> None:
    """A child has its parent's addresses: the file says whose it is."""
    program = build_dir / "tests" / "scenarios" / "profiled_phases"
    env = {
        **os.environ, "LD_PRELOAD": str(build_dir / "libpoolshim.so"),
        "POOLSHIM_PROFILE": str(tmp_path / "%p.%n.pb.gz"), "POOLSHIM_PROFILE_PEAK": "1",
    }  # fmt: skip
    assert run_captured([program, "fork"], env=env).returncode == 0
    paths = sorted(tmp_path.iterdir())
    profiles = [pprof.read(path) for path in paths]
    pids = [int(path.name.partition(".")[0]) for path in paths]
    assert [profile.pid for profile in profiles] == pids and len(set(pids)) == 2
    assert all(profile.comments == [] for profile in profiles)
    other = next(at for at, pid in enumerate(pids) if pid != pids[0])
    done = poolshim(build_dir, "--leaks", *paths)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"poolshim profile: {paths[0]} and {paths[other]} are of two processes ({pids[0]}, "
        f"{pids[other]}): --leaks follows one, give its profiles; --diff compares two\n"
    )
    assert poolshim(build_dir, "--diff", paths[0], paths[other]).returncode == 0


def test_profiles_of_one_process_are_told_apart() -> None:
    libc, program = pprof.Mapping(16, 32, 0, "libc", ""), pprof.Mapping(1, 2, 0, "program", "")
    moved = pprof.Mapping(48, 64, 0, "libc", "")
    first = pprof.Profile(mappings=[program, libc], pid=7)
    for mappings, pid, is_same in (
        ([libc], 7, True), ([program, libc], 8, False), ([libc], None, True),
        ([moved], 7, False), ([moved], None, False), ([], 7, True),
    ):  # fmt: skip
        assert first.is_same_process(pprof.Profile(mappings=mappings, pid=pid)) == is_same


def test_leaks_go_by_the_times_of_the_profiles(build_dir: Path, peaks: list[Path]) -> None:
    need("addr2line")
    done = poolshim(build_dir, "--leaks", "--json", *reversed(peaks[:5]))
    assert [row["name"] for row in json.loads(done.stdout)["sites"]] == ["hold_at_peak"]


def profile_of(*rows: tuple[str, int, int]) -> pprof.Profile:
    """Sites with what they allocated and what of it is live, in MiB blocks."""
    names = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]
    return pprof.Profile(
        types=[(name, "") for name in names], period=1 << 19,
        samples=[
            pprof.Sample((pprof.Location(0, None, (name,)),), (made, made << 20, live, live << 20))
            for name, made, live in rows
        ],
    )  # fmt: skip


def test_what_is_freed_in_part_or_stands_still_is_no_leak() -> None:
    found = [
        dumps.stacks_of(profile, symbols.Symbols(), CallSites([], Folds()))
        for profile in (
            profile_of(("leak", 1, 1), ("cache", 5, 5), ("queue", 5, 2), ("late", 1, 0)),
            profile_of(("leak", 3, 3), ("cache", 9, 9), ("queue", 9, 4), ("late", 2, 2)),
            profile_of(("leak", 4, 4), ("cache", 9, 9), ("queue", 20, 6), ("late", 5, 5),
                       ("new", 3, 3)),
        )
    ]  # fmt: skip
    assert [row.name for row in dumps.leaks(found)] == ["late", "leak"]
    assert [row.nbytes >> 20 for row in dumps.leaks(found)] == [5, 3]


class Page(HTMLParser):
    """The elements of a page, and the data of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts = 0
        self.is_data = False
        self.data = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.scripts += tag == "script"
        self.is_data = ("id", "data") in attrs

    def handle_data(self, data: str) -> None:
        if self.is_data:
            self.data += data

    def handle_endtag(self, tag: str) -> None:
        self.is_data = False


def graph_in(path: Path) -> dict[str, Any]:
    """The data; the page must refer to nothing outside of it."""
    page = Page()
    page.feed(path.read_text())
    assert page.scripts == 2
    assert not [name for name, _ in page.attributes if name in ("src", "href")]
    found: dict[str, Any] = json.loads(page.data)
    return found


def test_a_flame_graph_is_one_file(build_dir: Path, tmp_path: Path, peaks: list[Path]) -> None:
    need("addr2line")
    path = tmp_path / "flame.html"
    done = poolshim(build_dir, "--read", peaks[-1], "--flame", path)
    assert (done.returncode, done.stderr) == (0, "")
    node = graph_in(path)
    assert node["value"] == pprof.read(peaks[-1]).total("inuse_space")
    names = []
    while node["children"]:
        (node,) = node["children"]
        names.append(node["name"])
    assert names[-3:] == ["main", "have_peak", "hold_at_end"]


def test_a_command_has_a_flame_graph(build_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "flame.html"
    program = build_dir / "tests" / "scenarios" / "profiled_sites"
    done = poolshim(build_dir, "--flame", path, "--", program)
    assert done.returncode == 0 and graph_in(path)["value"] > 0


def test_names_cannot_leave_their_place(tmp_path: Path) -> None:
    root = flame.Node()
    root.add([HOSTILE, "inner"], 100, -5)
    path = tmp_path / "flame.html"
    path.write_text(flame.page(root, HOSTILE, HOSTILE, True))
    assert graph_in(path)["children"][0]["name"] == HOSTILE


def test_deep_stacks_are_drawn() -> None:
    root = flame.Node()
    root.add([f"f{i}" for i in range(900)], 1, 0)
    assert "f899" in flame.page(root, "deep", "")


def test_a_browser_draws_it(tmp_path: Path) -> None:
    """And zooms, marks the frames that match a search, and names a frame."""
    if find_browser() is None:
        pytest.skip("no browser is installed")
    root = flame.Node()
    root.add(["main", "std::vector<int>"], 3 << 20, 1 << 20)
    root.add(["main", HOSTILE], 1 << 20, -(1 << 20))
    path = tmp_path / "flame.html"
    path.write_text(flame.page(root, "a program", "", True))
    with Browser() as browser:
        page = browser.open(path, width=900, height=600)

        def shown(what: str) -> Any:
            """Of every frame."""
            return page.evaluate(f"[...document.querySelectorAll('.frame')].map(e => {what})")

        def details() -> Any:
            return page.evaluate("document.getElementById('details').textContent")

        def click(name: str) -> None:
            page.evaluate("[...document.querySelectorAll('.frame')]"
                          f".find(e => e.textContent === {json.dumps(name)}).click()")  # fmt: skip

        names = sorted(["all", "main", "std::vector<int>", HOSTILE])
        assert sorted(shown("e.textContent")) == names
        assert page.evaluate("document.title") == "a program"
        title = "std::vector<int>: 3.0 MiB, 75.0 %, +1.0 MiB"
        assert title in shown("e.title")
        whole, part = max(shown("e.offsetWidth")), min(shown("e.offsetWidth"))
        assert part == pytest.approx(whole / 4, abs=2)

        click("std::vector<int>")
        assert sorted(shown("e.textContent")) == ["all", "main", "std::vector<int>"]
        assert set(shown("e.offsetWidth")) == {whole}
        assert shown("e.className") == ["frame caller", "frame caller", "frame"]
        page.evaluate("document.querySelector('.frame:last-child').focus()")
        assert details() == title
        page.evaluate("document.getElementById('reset').click()")
        assert len(shown("1")) == 4

        page.evaluate("{ const box = document.getElementById('search'); box.value = 'VECTOR';"
                      " box.dispatchEvent(new Event('input')) }")  # fmt: skip
        marked = shown("[e.textContent, e.style.background === 'rgb(230, 0, 230)']")
        assert [name for name, is_marked in marked if is_marked] == ["std::vector<int>"]
        assert details() == "3.0 MiB, 75.0 %"


def test_a_flame_graph_of_python_has_its_lines(build_dir: Path, tmp_path: Path) -> None:
    """From the module to the function that allocates, without frames of the interpreter's loop."""
    script = tmp_path / "work.py"
    script.write_text(
        "def make_rows():\n    return list(map(bytes, [5000] * 2000))\n"
        "def outer():\n    return [make_rows(), make_rows()]\nkept = outer()\n"
    )
    path = tmp_path / "flame.html"
    done = poolshim(build_dir, "--alloc", "--flame", path, "--", sys.executable, script)
    assert done.returncode == 0, done.stderr
    stacks, left = [], [(graph_in(path), ())]
    while left:
        node, above = left.pop()
        names = (*above, node["name"])
        left += [(child, names) for child in node["children"]]
        if node["name"] == "work.py:2 make_rows":
            stacks.append((node["value"], names))
    assert sum(value for value, _ in stacks) > 15 << 20
    for _, names in stacks:
        assert names[-3:] == ("work.py:5 <module>", "work.py:4 outer", "work.py:2 make_rows")
        assert not any("_PyEval_EvalFrame" in name for name in names)


@each_row(
    ("words", "said"),
    [
        (["--diff", "a"], "--diff needs two profiles"),
        (["--leaks", "a"], "--leaks needs two profiles or more"),
        (["--diff", "--leaks", "a", "b"], "no option about one"),
        (["--leaks", "--flame=x", "a", "b"], "--leaks lists what is live"),
        (["--diff", "/nonexistent", "/nonexistent"], "/nonexistent: No such file"),
        (["--flame=/nonexistent/x", "--", "true"], "/nonexistent"),
    ],
)
def test_bad_requests_are_one_line(build_dir: Path, words: list[str], said: str) -> None:
    done = poolshim(build_dir, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
