# SPDX-License-Identifier: MIT
"""`poolshim explain`: it names the cause of each of twelve programs whose memory is resident for
one known cause, the account is complete, and a refusal is one line.

    scripts/test tests/cli/test_explain.py

Line 1 of each program in tests/causes has the cause and, where there is one, the call site.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from running import SILENT, Start, complaint, run_as_nobody, spawn, start  # noqa: F401
from table import each_row
from under_shim import need, transparent_huge_pages

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.explain import mappings, verdict  # noqa: E402
from poolshim_cli.explain.account import PARTS, Account  # noqa: E402
from poolshim_cli.explain.heap import Site  # noqa: E402
from poolshim_cli.explain.history import (  # noqa: E402
    Course,
    growth_of,
    usual_bytes,
)
from poolshim_cli.explain.watch import Moment  # noqa: E402

pytestmark = pytest.mark.preload

MAIN = ROOT / "scripts" / "poolshim_cli" / "__main__.py"
SOURCES = {path.stem: path for path in sorted((ROOT / "tests" / "causes").glob("*.c"))}
SEEDS = ("1", "2", "3")
PACES = ("1", "4", "16")  # slower where the machine is so busy that few samples are taken
SAMPLES_LEAST = 10
ACCOUNTED = 0.98
MIB = 1 << 20
CAUSES = {"leak", "fragmentation", "cache", "large", "rounding", "stacks", "mappings", "huge",
          "fork", "nothing"}  # fmt: skip


def option_of(name: str, key: str) -> str:
    """What the leading comment of a program says."""
    found = re.search(rf"^// {key}: (.*)$", SOURCES[name].read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def expected_of(name: str) -> tuple[str, str]:
    """Cause and call site."""
    cause, _, site = option_of(name, "verdict").partition(", ")
    return cause, site


def poolshim(
    build: Path, *words: str | os.PathLike[str], timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POOLSHIM_")}
    env = {**kept, "POOLSHIM_BUILD_DIR": str(build), **environment}
    return run_captured([sys.executable, MAIN, "explain", *words], env=env, timeout=timeout)


@cache
def explained(build: Path, name: str, seed: str) -> dict[str, Any]:
    """The whole finding about one program."""
    need("addr2line")
    program = build / "tests" / "causes" / name
    env = dict(pair.split("=") for pair in option_of(name, "environment").split())
    for pace in PACES:
        done = poolshim(build, "--json", "--", program, seed, pace, **env)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        if len(found["samples"]) >= SAMPLES_LEAST:
            break
    return found


def is_right(name: str, found: dict[str, Any]) -> bool:
    """Whether the verdict is that of the program."""
    cause, site = expected_of(name)
    sites = found["verdict"]["sites"]
    return found["verdict"]["cause"] == cause and (not site or sites[:1] == [site])


def skip_without_huge_pages(name: str) -> None:
    if name == "huge_pages" and transparent_huge_pages() == "never":
        pytest.skip("the kernel makes no huge pages")


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.nightly) for seed in SEEDS[1:])]
)
@pytest.mark.parametrize("name", SOURCES)
def test_the_cause_is_named(build_dir: Path, name: str, seed: str) -> None:
    skip_without_huge_pages(name)
    found = explained(build_dir, name, seed)
    assert is_right(name, found), (expected_of(name), found["verdict"], found["parts"])


@pytest.mark.slow
@each_row("name", SOURCES)
def test_the_memory_is_accounted_for(build_dir: Path, name: str) -> None:
    found = explained(build_dir, name, SEEDS[0])
    rss = found["resident_bytes"]
    assert abs(found["accounted_bytes"] - rss) <= (1 - ACCOUNTED) * rss
    assert list(found["parts"]) == list(PARTS)
    sites = sum(one["live_bytes"] for one in found["sites"])
    live = found["parts"]["live"] + found["parts"]["rounding"] + found["parts"]["huge"]
    assert sites <= 1.25 * live + 4 * MIB


@pytest.mark.slow
def test_another_program_s_verdict_is_wrong(build_dir: Path) -> None:
    """No two of the programs have the same verdict: were they shuffled, each would be wrong."""
    found = {name: explained(build_dir, name, SEEDS[0]) for name in SOURCES
             if name != "huge_pages" or transparent_huge_pages() != "never"}  # fmt: skip
    for name in found:
        assert [other for other in found if is_right(name, found[other])] == [name]


@pytest.mark.slow
def test_pinned_memory_is_charged_to_the_blocks_that_pin_it(build_dir: Path) -> None:
    found = explained(build_dir, "survivors", SEEDS[0])
    pinned = {one["name"]: one["pinned_bytes"] for one in found["sites"]}
    whole = found["parts"]["pinned"]
    assert whole > 10 * MIB
    assert pinned["remember_user"] > 0.95 * whole
    assert sum(pinned.values()) == pytest.approx(whole, rel=0.05)


@pytest.mark.slow
def test_scattered_remainders_are_told_from_survivors(build_dir: Path) -> None:
    emptied = explained(build_dir, "class_emptied", SEEDS[0])["verdict"]["text"]
    survivors = explained(build_dir, "survivors", SEEDS[0])["verdict"]["text"]
    assert "has freed" in emptied and "has freed" not in survivors


def test_every_cause_has_a_program() -> None:
    assert {expected_of(name)[0] for name in SOURCES} == CAUSES
    assert set(verdict.CAUSES) | {"nothing"} == CAUSES | {"files", "shared"}


def test_the_report_has_a_picture_a_table_sites_and_a_verdict(build_dir: Path) -> None:
    need("addr2line")
    program = build_dir / "tests" / "causes" / "rounding"
    done = poolshim(build_dir, "--", program)
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("rounding (process ") and "MiB resident" in lines[0]
    assert any(line.strip("L ") == "" and line.count("L") > 20 for line in lines)
    assert re.search(r"^ r +[0-9.]+ +[0-9.]+  rounding of requests$", done.stderr, re.MULTILINE)
    share = re.search(r"^ +[0-9.]+ +([0-9.]+)  accounted for$", done.stderr, re.MULTILINE)
    assert share is not None and float(share.group(1)) >= 100 * ACCOUNTED
    assert "make_node < main" in done.stderr
    assert "verdict: rounding: " in done.stderr and "advice: `poolshim tune`" in done.stderr
    assert max(len(line) for line in lines) <= 80


@each_row("has_profile", [False, True])
def test_a_running_process(build_dir: Path, has_profile: bool) -> None:
    library = build_dir / "libpoolshim.so"
    env = {**os.environ, "LD_PRELOAD": str(library)}
    if has_profile:
        env["POOLSHIM_PROFILE"] = "/dev/null"
    code = "x = [bytearray(b'x' * 100000) for _ in range(100)]; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        done = poolshim(build_dir, "--pid", str(process.pid), "--seconds", "300ms", "--json")
        process.stdin.close()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pid"] == process.pid
    sites = sum(one["live_bytes"] for one in found["sites"])
    assert sites > 5 * MIB if has_profile else found["sites"] == []
    assert found["parts"]["live"] > 9 * MIB


@each_row(
    ("words", "status", "message"),
    [
        ((), 2, "which command? poolshim explain -- COMMAND"),
        (("--top", "none", "--", "true"), 2, "--top: none is no number from 1 on"),
        (("--every", "soon", "--", "true"), 2, "--every: 'soon' is no time"),
        (("--nonsense", "--", "true"), 2, "no option --nonsense"),
        (("--html",), 2, "--html needs a value"),
        (("--html", "/no/such/folder/x.html", "--", "true"), 2, "No such file or directory"),
        (("--html", "/", "--", "true"), 2, "is a directory"),
        (("--pid", "1", "--", "true"), 2, "a command, --server or --pid: one of them"),
        (("--pid", "4194304000"), 2, "out of range"),
        (("--pid", "999999999"), 127, "no process 999999999"),
        (("--server", "true {port}"), 2, "--server and --load go together"),
        (("--server", "true", "--load", "true"), 2, "--server without {port} needs --ready"),
        (("--server", "true {port}", "--load", "true"), 1, "the server ended before it was ready"),
        (("--server", "'", "--load", "true", "--ready", "true"), 2, "--server: No closing quot"),
        (("--verify", "--pid", "1"), 2, "--verify runs a command again"),
        (("--", "/no/such/command"), 127, "/no/such/command: no such command"),
        (("--", "/dev/null"), 126, "/dev/null: Permission denied"),
        (("--interval", "much", "--", "true"), 2, "--interval: much is no size"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    build_dir: Path, words: tuple[str, ...], status: int, message: str
) -> None:
    done = poolshim(build_dir, *words)
    assert done.returncode == status, done.stderr
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert message in done.stderr and done.stderr.startswith("poolshim explain: ")


def test_the_status_is_the_command_s(build_dir: Path) -> None:
    need("addr2line")
    done = poolshim(build_dir, "--", "sh", "-c", "sleep 0.4; exit 7")
    assert done.returncode == 7
    killed = poolshim(build_dir, "--", "sh", "-c", "sleep 0.4; kill -9 $$")
    assert killed.returncode == 128 + 9


def test_a_process_without_the_library_is_one_line(build_dir: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        time.sleep(0)
        done = poolshim(build_dir, "--pid", str(process.pid))
        process.kill()
    assert done.returncode == 1
    assert "does not run on poolshim" in done.stderr and len(done.stderr.splitlines()) == 1


# ---- parts ----


def course_of(live: list[float], made: list[int]) -> Course:
    return Course("site", (), Site(live[-1], blocks=live[-1] / 100, counted=live[-1]), live, made)


def test_growth_without_frees_is_told_from_the_noise_of_a_balance() -> None:
    steps = range(13)
    leak = growth_of(course_of([MIB * i for i in steps], [MIB * i for i in steps]), 128 << 10)
    assert leak[1:3] == (6, 6) and leak[3] > 3
    balance = [50 * MIB + MIB * (i % 3) for i in steps]
    found = growth_of(course_of(balance, [100 * MIB * i for i in steps]), 128 << 10)
    assert found[3] < 1
    ramp = [MIB * min(i, 6) for i in steps]
    assert growth_of(course_of([float(one) for one in ramp], ramp), 128 << 10)[1] == 0


def test_a_leak_of_which_little_was_sampled_lately_has_not_stopped() -> None:
    """Readings of slow_leak: 31 and 27 samples in all, 4 of them in the last third."""
    for kib in (
        [5391, 5904, 6803, 7188, 7702, 8087, 8857, 9114, 9242, 9370],
        [3851, 4493, 5264, 5777, 6034, 6419, 6804, 7189, 7317, 7317],
    ):
        made = [one << 10 for one in kib]
        course = course_of([float(one) for one in made], made)
        gained, rises, pieces, deviations = growth_of(course, 128 << 10)
        assert gained == made[-1] - made[0] and rises == pieces >= 3 and deviations > 3


def test_neither_the_exit_nor_a_short_peak_is_explained() -> None:
    def usual(sizes: list[int]) -> int:
        return usual_bytes(
            [Moment(float(i), {1: Account(1, pss=size)}) for i, size in enumerate(sizes)]
        )

    assert usual([10] * 50 + [100] * 5 + [40] * 40 + [1] * 3) == 40
    assert usual([10, 20, 30, 40, 50, 60]) == 40
    assert usual([7]) == 7


def test_few_moments_are_no_growth() -> None:
    assert growth_of(course_of([1.0, 2.0], [1, 2]), 1)[1:3] == (0, 0)


def test_smaps_are_read(tmp_path: Path) -> None:
    text = (
        "7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \n"
        "Size:               1024 kB\nRss:                 512 kB\nPss:                 256 kB\n"
        "AnonHugePages:         0 kB\nVmFlags: rd wr mr mw me ac\n"
        "7f0000200000-7f0000300000 r-xp 00001000 08:01 42         /usr/lib/a b.so (deleted)\n"
        "Rss:                   4 kB\n"
    )
    first, second = mappings.parse(text)
    assert (first.rss, first.pss, first.is_anonymous) == (512 << 10, 256 << 10, True)
    assert (second.path, second.offset, second.rss) == ("/usr/lib/a b.so", 4096, 4096)
    assert mappings.code_files([first, second]) == {"/usr/lib/a b.so"}


# ---- the report as a file, and the setting ----


class Page(HTMLParser):
    """The elements of a report: whether they are closed, and what they refer to."""

    VOID = {"meta", "br"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: Counter[str] = Counter()
        self.references: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        self.references += [f"{key}={value}" for key, value in attrs if key in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_is_one_file(build_dir: Path, tmp_path: Path) -> None:
    need("addr2line")
    path = tmp_path / "report.html"
    done = poolshim(build_dir, "--html", path, "--", build_dir / "tests" / "causes" / "survivors")
    assert done.returncode == 0, done.stderr
    content = path.read_text()
    page = Page()
    page.feed(content)
    assert page.open == [] and page.references == []
    assert "<script" not in content and "url(" not in content and "@import" not in content
    assert page.count["svg"] == 2 and page.count["polygon"] >= 3 and page.count["rect"] >= 1
    assert "fragmentation: " in page.text and "remember_user" in page.text
    assert "free, pinned by live blocks" in page.text


@pytest.mark.slow
def test_the_setting_is_verified(build_dir: Path, tmp_path: Path) -> None:
    need("addr2line")
    path = tmp_path / "report.html"
    program = build_dir / "tests" / "causes" / "rounding"
    done = poolshim(
        build_dir, "--verify", "--rounds", "5", "--json", "--html", path, "--", program, timeout=300
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"]["settings"]["POOLSHIM_SIZE_CLASSES"].split(",").count("1056") == 1
    gain = found["verified"]
    assert gain["rounds"] == 5 and gain["figure"] == "late"
    assert gain["memory"]["high"] < 1, gain
    assert gain["after_bytes"] < gain["before_bytes"]
    assert " helps: " in done.stderr and "helps: " in path.read_text()


def test_where_no_setting_helps_nothing_is_run(build_dir: Path, tmp_path: Path) -> None:
    need("addr2line")
    marks = tmp_path / "marks"
    program = build_dir / "tests" / "causes" / "thread_stacks"
    script = f'echo run >> "{marks}"; exec "{program}"'
    done = poolshim(build_dir, "--verify", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert marks.read_text() == "run\n"
    assert "verified: nothing: no setting changes this" in done.stderr


@pytest.mark.slow
def test_a_server_is_loaded_and_stopped(build_dir: Path, tmp_path: Path) -> None:
    server, load = tmp_path / "server.py", tmp_path / "load.py"
    server.write_text(
        "import socket, sys\n"
        "kept, one = [], socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "while True:\n"
        "    other, _ = one.accept()\n"
        "    kept += [bytearray(b'x' * 50000) for _ in range(len(other.recv(100)))]\n"
    )
    load.write_text(
        "import socket, sys, time\n"
        "for _ in range(40):\n"
        "    with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as one:\n"
        "        one.sendall(b'x' * 10)\n"
        "    time.sleep(0.02)\n"
    )
    done = poolshim(
        build_dir, "--json", "--rest", "1s", "--server", f"{sys.executable} {server} {{port}}",
        "--load", f"{sys.executable} {load} {{port}}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["parts"]["live"] > 19 * MIB
    assert subprocess.run(["pgrep", "-f", str(server)], check=False).returncode == 1


def test_a_load_that_fails_is_one_line(build_dir: Path) -> None:
    server = f"{sys.executable} -m http.server --bind 127.0.0.1 {{port}}"
    done = poolshim(build_dir, "--server", server, "--load", "false")
    assert done.returncode == 1
    assert done.stderr == "poolshim explain: false: the load ended with 1\n"


@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    process = start(SILENT)
    refused = run_as_nobody("explain", "--pid", str(process.pid))
    assert "not permitted" in complaint(refused, "explain", 126)


def test_a_report_that_cannot_be_written(build_dir: Path) -> None:
    need("addr2line")
    program = build_dir / "tests" / "causes" / "thread_stacks"
    done = poolshim(build_dir, "--html", "/dev/full", "--", program)
    assert done.returncode == 125
    assert done.stderr.splitlines()[-1].startswith("poolshim explain: /dev/full: No space left")
