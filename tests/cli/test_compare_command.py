# SPDX-License-Identifier: MIT
"""`poolshim compare` from its command line: what it writes, how every mistake ends.

scripts/test tests/cli/test_compare_command.py
"""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from compare_lab import POOLSHIM, compare
from conftest import BUILD_DIR, ROOT
from poolshim_cli import machine
from table import each_row
from under_shim import need

RESULTS = ROOT / "tests" / "cli" / "golden" / "compare.json"
FEW = ("--allocators", "glibc,poolshim", "--runs", "1")


@pytest.fixture(autouse=True)
def build(build_dir: Path) -> None:
    """Everything here needs the launcher."""


def check_refusal(
    done: "subprocess.CompletedProcess[str]", status: int, *parts: str, folder: Path | None = None
) -> None:
    """One line on stderr, nothing on stdout, nothing written."""
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("poolshim compare: "), done.stderr
    for part in parts:
        assert part in lines[0]
    if folder is not None:
        assert not list(folder.iterdir())


@pytest.mark.compare
def test_all_outputs_of_one_run_agree(tmp_path: Path) -> None:
    need("jq")
    files = {name: tmp_path / f"results.{name}" for name in ("json", "csv", "markdown", "html")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    done = compare(*words, "--runs", "2", "--rss-curve", "5", "--", "jq", "-n", "[range(9)]|add")
    assert done.returncode == 0 and done.stderr == ""
    assert "Too few rounds for a verdict" in done.stdout
    data = json.loads(files["json"].read_text())
    names = [column["name"] for column in data["columns"]]
    assert names[0] == "glibc" and "poolshim" in names and names[-1] == "glibc again"
    assert all(len(column["runs"]) == 2 for column in data["columns"])
    assert data["about"]["reproduce"].startswith("poolshim compare --json ")
    rows = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
    assert [row["allocator"] for row in rows] == names
    for name in names[:-1]:
        for text in (done.stdout, files["markdown"].read_text(), files["html"].read_text()):
            assert name in text
    assert set(tmp_path.iterdir()) == set(files.values())


def test_earlier_results_are_shown_again() -> None:
    done = compare("--from", RESULTS)
    assert done.returncode == 1, "a column of theirs failed"
    golden = RESULTS.with_suffix(".txt").read_text()
    shown = "".join(line.rstrip() + "\n" for line in done.stdout.splitlines()[1:])
    assert shown == golden
    assert done.stdout.startswith("jq '.[] | select(.size > 10)' 'big file.json'\n")
    again = compare("--from", RESULTS, "--json", "-")
    assert again.stdout == RESULTS.read_text() and again.stderr == ""
    table = compare("--from", RESULTS, "--csv", "-").stdout
    assert table == RESULTS.with_suffix(".csv").read_text()
    assert compare("--from", RESULTS, "-q").stdout == ""


def test_settings_additions_and_profiles_are_columns(tmp_path: Path) -> None:
    saved = tmp_path / "tuned.toml"
    saved.write_text(
        'poolshim_profile = 1\ncommand = ["true"]\n'
        '[environment]\nPOOLSHIM_SIZE_CLASSES = "16,32,64,128,1024"\n'
    )
    done = compare(
        *FEW, "--setting", "hard:POOLSHIM_HARDEN=1 POOLSHIM_PURGE_DELAY_MS=0",
        "--setting", "plain@glibc:MARK=1", "--add", f"mine={BUILD_DIR / 'libpoolshim.so'}",
        "--tuned", saved, "--tuned", f"other={saved}", "--json", "-", "--", "env",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = {column["name"]: column for column in json.loads(done.stdout)["columns"]}
    names = ["glibc", "poolshim", "mine", "hard", "plain", "tuned", "other", "glibc again"]
    assert list(data) == names
    assert data["hard"]["env"] == {"POOLSHIM_HARDEN": "1", "POOLSHIM_PURGE_DELAY_MS": "0"}
    assert data["plain"]["library"] is None
    assert data["tuned"]["env"]["POOLSHIM_SIZE_CLASSES"] == "16,32,64,128,1024"


def test_column_that_fails_makes_the_status_1() -> None:
    script = 'case "$LD_PRELOAD" in *poolshim*) exit 3;; esac'
    done = compare(*FEW, "--", "sh", "-c", script)
    assert done.returncode == 1
    assert "poolshim: FAILED: exit status 3" in done.stdout


@each_row(
    ("words", "status", "parts"),
    [
        ([], 2, ["no command given"]),
        (["--runs", "0", "--", "true"], 2, ["--runs"]),
        (["--allocators", "nosuch", "--", "true"], 2, ["no nosuch; known: glibc, "]),
        (["--add", "x=/nonexistent.so", "--", "true"], 2, ["x: not found: /nonexistent.so"]),
        (["--add", "nonsense", "--", "true"], 2, ["NAME=LIBRARY"]),
        (["--add", "x=libm.so.6", "--", "true"], 2, ["libm.so.6 defines no malloc"]),
        (["--setting", "nonsense", "--", "true"], 2, ["NAME:VARIABLE=VALUE"]),
        (["--setting", "x@nosuch:A=1", "--", "true"], 2, ["there is no nosuch"]),
        (["--setting", "x:POOLSHIM_HARDN=1", "--", "true"], 2, ["x: ", "POOLSHIM_HARDEN"]),
        (["--setting", "x:POOLSHIM_HARDEN=9", "--", "true"], 2, ["x: ", "POOLSHIM_HARDEN"]),
        (["--setting", "glibc:A=1", "--", "true"], 2, ["two columns are called glibc"]),
        (["--tuned", "/nonexistent.toml", "--", "true"], 2, ["/nonexistent.toml"]),
        (["--base", "nosuch", "--", "true"], 2, ["--base: no nosuch"]),
        (["--table", "/nonexistent", "--", "true"], 2, ["/nonexistent"]),
        (["--stdin", "/nonexistent", "--", "true"], 2, ["--stdin: /nonexistent"]),
        (["--stdin", "/etc", "--", "true"], 2, ["--stdin: /etc: cannot be read"]),
        (["--stdin", "/dev/fd/0", "--", "true"], 2, ["/dev/fd/0: can be read only once"]),
        (["--cwd", "/nonexistent", "--", "true"], 2, ["--cwd: /nonexistent"]),
        (["--server", "x"], 2, ["--server needs --load"]),
        (["--server", "x", "--load", "y"], 2, ["without {port} needs --ready"]),
        (["--server", "x", "--load", "y", "--ready", "z", "--", "true"], 2, ["takes no command"]),
        (["--server", "'x", "--load", "y", "--ready", "z"], 2, ["--server: No closing quotation"]),
        (["--load", "y", "--", "true"], 2, ["go with --server"]),
        (["--from", "/nonexistent"], 2, ["/nonexistent: No such file"]),
        (["--from", str(POOLSHIM)], 2, ["not a result file of this version of poolshim"]),
        (["--from", str(RESULTS), "--", "true"], 2, ["--from measures nothing"]),
        (["--json", "-", "--csv", "-", "--", "true"], 2, ["only one of"]),
        (["--json", "/nonexistent/x", "--", "true"], 2, ["/nonexistent/x"]),
        ([*FEW, "--", "/nonexistent/x"], 127, ["/nonexistent/x: not found"]),
        ([*FEW, "--", "/etc/passwd"], 126, ["/etc/passwd: cannot be executed"]),
        ([*FEW, "--", "sh", "-c", "echo why >&2; exit 5"], 1, ["exit status 5: why"]),
        ([*FEW, "--", "sh", "-c", "kill -SEGV $$"], 1, ["ended by signal 11"]),
        ([*FEW, "--timeout", "0.2", "--", "sleep", "4721.5"], 1, ["no end after 0.2 s"]),
    ],
)  # fmt: skip
def test_mistakes_end_in_one_line(
    words: list[str], status: int, parts: list[str], tmp_path: Path
) -> None:
    if "--json" not in words and "--from" not in words:
        words = ["--json", str(tmp_path / "out.json"), "--markdown", str(tmp_path / "o.md"), *words]
    done = compare(*words, input="once" if "/dev/fd/0" in words else None)
    check_refusal(done, status, *parts, folder=tmp_path)


def test_report_without_jinja_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "jinja2.py").write_text("raise ModuleNotFoundError('no', name='jinja2')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "POOLSHIM_BUILD_DIR": str(BUILD_DIR)}
    done = subprocess.run(
        [POOLSHIM, "compare", "--html", tmp_path / "x.html", "--", "touch", tmp_path / "ran"],
        env=env, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 125 and len(done.stderr.splitlines()) == 1
    assert "jinja2" in done.stderr and "plot" in done.stderr
    assert not (tmp_path / "x.html").exists() and not (tmp_path / "ran").exists()


def test_earlier_file_survives_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("precious")
    assert compare(*FEW, "--json", path, "--", "false").returncode == 1
    assert path.read_text() == "precious" and list(tmp_path.iterdir()) == [path]


def running(word: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@each_row(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@each_row("is_server", [False, True])
def test_nothing_runs_on_after_a_signal(
    number: signal.Signals, status: int, is_server: bool, tmp_path: Path
) -> None:
    """The command's child has left its session, as daemons do; it is found all the same."""
    word = f"47{int(number)}{int(is_server)}.{os.getpid()}"
    script = tmp_path / "command"
    script.write_text(f"#!/bin/sh\nsetsid sleep {word} &\nsleep {word}\n")
    script.chmod(0o755)
    words = ["--server", str(script), "--ready", "true", "--load", f"sleep {word}"]
    if not is_server:
        words = ["--", str(script)]
    out = tmp_path / "results.json"
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(BUILD_DIR)}
    process = subprocess.Popen(
        [POOLSHIM, "compare", *FEW, "--json", out, *words], env=env, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # ignored under nohup, or by &
    )  # fmt: skip
    until = time.monotonic() + 60
    while len(running(f"sleep\0{word}")) < 2 + is_server and time.monotonic() < until:
        time.sleep(0.05)
    assert running(f"sleep\0{word}")
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert not running(f"sleep\0{word}") and not out.exists()


def test_inherited_preload_does_not_reach_the_base() -> None:
    env = {**os.environ, "LD_PRELOAD": str(BUILD_DIR / "libpoolshim.so"),
           "POOLSHIM_BUILD_DIR": str(BUILD_DIR)}  # fmt: skip
    done = subprocess.run(
        [POOLSHIM, "compare", *FEW, "--json", "-", "--", "sh", "-c", "echo ${LD_PRELOAD:-none}"],
        env=env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sizes = {c["name"]: c["runs"][0]["output_bytes"] for c in json.loads(done.stdout)["columns"]}
    assert sizes["glibc"] == sizes["glibc again"] == len("none\n") < sizes["poolshim"]


def test_inherited_settings_are_shown_with_the_columns_that_run_with_them(tmp_path: Path) -> None:
    """A setting of the environment hardens no column in silence."""
    settings = {"POOLSHIM_HARDEN": "3", "MALLOC_ARENA_MAX": "1", "MIMALLOC_VERBOSE": "0"}
    env = {**os.environ, **settings, "POOLSHIM_BUILD_DIR": str(BUILD_DIR), "COLUMNS": "100",
           "LD_PRELOAD": str(BUILD_DIR / "libpoolshim.so")}  # fmt: skip
    words = ["--setting", "soft:POOLSHIM_HARDEN=0", "--json", tmp_path / "r.json",
             "--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md"]  # fmt: skip
    done = subprocess.run(
        [POOLSHIM, "compare", *FEW, *words, "--", "true"], env=env, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "r.json").read_text())
    inherited = {column["name"]: column["inherited"] for column in data["columns"]}
    assert inherited["poolshim"] == {"POOLSHIM_HARDEN": "3"} and inherited["soft"] == {}
    assert inherited["glibc"] == {"MALLOC_ARENA_MAX": "1"}
    said = "warning: poolshim runs with POOLSHIM_HARDEN=3, which is set in the environment"
    assert said in done.stdout and "MIMALLOC" not in done.stdout
    assert "LD_PRELOAD of the environment is left out" in done.stdout
    page = (tmp_path / "r.html").read_text()
    assert "<code>POOLSHIM_HARDEN=3</code> (inherited)" in page and said[9:] in page
    assert "poolshim runs with" in (tmp_path / "r.md").read_text()
    again = compare("--from", tmp_path / "r.json")
    assert said in again.stdout


def test_whose_setting_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches a library of an unknown name cannot be told: all of it may."""
    for name in ("POOLSHIM_HUGE", "MALLOC_CONF", "GLIBC_TUNABLES", "PYTHONMALLOC", "LD_DEBUG"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("POOLSHIM_BUILD_DIR", "/x")
    names = {"POOLSHIM_HUGE", "MALLOC_CONF", "GLIBC_TUNABLES", "PYTHONMALLOC"}
    for library, reached in (
        ("/usr/lib/libpoolshim.so.0.1.0", {"POOLSHIM_HUGE", "PYTHONMALLOC"}),
        ("/usr/lib/libjemalloc.so.2", {"MALLOC_CONF", "PYTHONMALLOC"}),
        ("/lib/libc.so.6", {"GLIBC_TUNABLES", "PYTHONMALLOC"}),
        ("/opt/mine.so", names),
    ):
        assert set(machine.inherited_by([library], ())) & names == reached
    assert "POOLSHIM_HUGE" not in machine.inherited_by(["/opt/mine.so"], ["POOLSHIM_HUGE"])
    assert not {"LD_DEBUG", "POOLSHIM_BUILD_DIR"} & machine.inherited_by(["/x.so"], ()).keys()


def test_terminal_shows_progress_and_pipes_do_not() -> None:
    """A pseudo-terminal on standard error gets the bar; standard output gets only the table."""
    import pty

    own, theirs = pty.openpty()
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(BUILD_DIR), "TERM": "xterm"}
    process = subprocess.Popen(
        [POOLSHIM, "compare", *FEW, "--", "sleep", "0.3"], env=env, stdout=subprocess.PIPE,
        stderr=theirs, text=True,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(own, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    out = process.communicate(timeout=60)[0]
    os.close(own)
    assert b"warm-up glibc" in seen and b"round 1/1" in seen
    assert "warm-up" not in out and "\x1b" not in out and "glibc" in out


def test_help_is_short_of_nothing() -> None:
    done = compare("--help")
    assert done.returncode == 0
    for name in ("--allocators", "--server", "--rss-curve", "--from", "--html", "--tuned"):
        assert name in done.stdout
