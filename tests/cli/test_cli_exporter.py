# SPDX-License-Identifier: MIT
"""`poolshim exporter`: what it serves, that the board refers to it, and its mistakes.

    scripts/test tests/cli/test_cli_exporter.py
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from typing import Any

import pytest
from conftest import ROOT, run_captured
from running import POOLSHIM, SILENT, Start, program, ready, run_as_nobody, spawn, start
from running import complaint as complaint_of
from serving import serve
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.live.census import Census  # noqa: E402
from poolshim_cli.live.counts import Counts, program_mark  # noqa: E402
from poolshim_cli.live.processes import Watch  # noqa: E402

parser = pytest.importorskip("prometheus_client.openmetrics.parser")

__all__ = ["program", "serve", "spawn", "start"]

# Executes itself anew at each line of its input; allocates much at first.
BECOMES = """
import os, sys
kept = [bytes(100 + i % 9) for i in range(int(os.environ.pop("FIRST", "200000")))]
print(1, flush=True)
os.read(0, 1)
os.environ["FIRST"] = "0"
words = open("/proc/self/cmdline").read().split("\\0")[:-1]
os.execv(sys.executable, words)
"""
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
BOARD = ROOT / "docs" / "grafana.json"

Values = dict[tuple[str, str], float]


def exporter(*words: str) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "exporter", *words])


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    return complaint_of(done, "exporter", status)


def values_in(text: str, pid: int) -> Values:
    """(name, the label that is no process's) -> value, of one process."""
    found: Values = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("pid") == str(pid):
                label = sample.labels.get("part", sample.labels.get("block_bytes", ""))
                found[sample.name, label] = sample.value
    return found


def fetch(address: str) -> str:
    request = urllib.request.Request(address, headers={"Accept": OPEN_METRICS})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text: str = answer.read().decode()
        return text


@pytest.mark.preload
def test_the_figures_are_those_of_stats(spawn: Start, program: Any) -> None:
    pid = spawn([program, "known"]).pid
    values = values_in(exporter("--once", str(pid)).stdout, pid)
    own = json.loads(run_captured([POOLSHIM, "stats", "--json", str(pid)]).stdout)
    assert values["poolshim_mallocs_total", ""] == own["calls"]["malloc_count"]
    assert values["poolshim_frees_total", ""] == own["calls"]["free_count"]
    assert values["poolshim_mapped_bytes", ""] == own["memory"]["mapped_bytes"]
    for one in own["size_classes"]:
        name = str(one["block_bytes"])
        found = values.get(("poolshim_class_live_bytes", name))
        assert found == (one["live_bytes"] if one["slab_count"] else None)
    parts = [value for (name, _), value in values.items() if name == "poolshim_memory_bytes"]
    assert len(parts) == 6 and abs(sum(parts) - own["memory"]["resident_bytes"]) < 1 << 20


@pytest.mark.preload
def test_it_serves_processes_as_they_come_and_go(start: Start, serve: Any) -> None:
    process, address = serve()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", address)
    first = start(SILENT)
    assert values_in(fetch(address), first.pid)
    second = start(SILENT)
    first.kill()
    first.wait()
    text = fetch(address)
    assert values_in(text, second.pid) and not values_in(text, first.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.preload
def test_counters_never_fall(spawn: Start, program: Any, serve: Any) -> None:
    pid = spawn([program, "load", "4"]).pid
    _process, address = serve(str(pid))
    before: Values = {}
    for _ in range(30):
        values = values_in(fetch(address), pid)
        for key, value in values.items():
            assert not key[0].endswith("_total") or value >= before.get(key, 0)
        before = values
    assert before["poolshim_mallocs_total", ""] > 1000


def execute_again(process: subprocess.Popen[str]) -> None:
    """Once BECOMES has done so."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    ready(process)


@pytest.mark.preload
def test_a_process_that_becomes_another_program_goes_on(start: Start, serve: Any) -> None:
    process = start(BECOMES)
    _exporter, address = serve(str(process.pid))
    before = values_in(fetch(address), process.pid)
    assert before["poolshim_mallocs_total", ""] > 100_000
    execute_again(process)
    after = values_in(fetch(address), process.pid)
    own = json.loads(run_captured([POOLSHIM, "stats", "--json", str(process.pid)]).stdout)
    assert own["calls"]["malloc_count"] < 100_000, "another program counts anew"
    totals = [key for key in before if key[0].endswith("_total")]
    assert len(totals) >= 5 and all(after[key] >= before[key] for key in totals)
    assert after["poolshim_memory_bytes", "live"] < before["poolshim_memory_bytes", "live"]


@pytest.mark.preload
def test_likewise_where_no_process_is_named(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists only the test's process of all on this machine."""
    process, listdir = start(BECOMES), os.listdir
    monkeypatch.setattr(
        os, "listdir", lambda path=".": [str(process.pid)] if path == "/proc" else listdir(path)
    )
    watch = Watch([])
    (before,) = watch.read()
    execute_again(process)
    (after,) = watch.read()
    assert after.census.malloc_count < 100_000 < before.counts["malloc_count"]
    assert all(after.counts[name] >= before.counts[name] for name in before.counts)


def test_counts_go_on_over_an_exec() -> None:
    counts = Counts()
    for made, freed in ((400, 300), (390, 310)):
        counts.add(Census(large_allocs=made, run_live_count=made - freed))
    assert (counts["malloc_count"], counts["free_count"]) == (400, 310)
    counts.begin_program()
    counts.add(Census(large_allocs=10, run_live_count=9))
    assert (counts["malloc_count"], counts["free_count"]) == (410, 311)


@pytest.mark.preload
def test_a_mark_tells_programs_apart_without_random_addresses(start: Start) -> None:
    process = start("import ctypes; ctypes.CDLL(None).personality(0x40000)\n" + BECOMES)
    marks = [program_mark(process.pid)]
    for _ in range(2):
        execute_again(process)
        marks.append(program_mark(process.pid))
    assert len(set(marks)) == 3 and program_mark(process.pid) == marks[2]


@pytest.mark.preload
def test_the_board_refers_to_metrics_that_are_served(start: Start) -> None:
    text = exporter("--once", "--pss", str(start(SILENT).pid)).stdout
    board = json.loads(BOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    names = {name for query in queries for name in re.findall(r"poolshim_\w+", query)}
    assert len(names) >= 5
    for name in names:  # no group has a limit, perhaps: then there is the head alone
        assert re.search(rf"^# TYPE {name.removesuffix('_total')} ", text, re.MULTILINE), name


@pytest.mark.preload
def test_no_counts_of_calls_from_a_hardened_process(start: Start) -> None:
    pid = start(SILENT, POOLSHIM_HARDEN="2").pid
    values = values_in(exporter("--once", str(pid)).stdout, pid)
    assert ("poolshim_mallocs_total", "") not in values
    assert ("poolshim_live_blocks", "") in values


@pytest.mark.preload
def test_an_address_in_use(serve: Any) -> None:
    _process, address = serve()
    port = re.findall(r":(\d+)/", address)[0]
    line = complaint(exporter("--listen", port), 125)
    assert line == f"127.0.0.1:{port}: Address already in use\n"


@pytest.mark.preload
@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    line = complaint(run_as_nobody("exporter", "--once", str(start(SILENT).pid)), 126)
    assert "not permitted" in line


@each_row(
    ("words", "status", "line"),
    [
        (["no-such-program"], 127, "no process has the name no-such-program"),
        (["--container", "a", "1"], 2, "--container names the processes: no PID"),
        (["--container", "none"], 127, "no container none has a process here"),
        (["--push-every", "1s"], 2, "--push-every goes with --push"),
        (["--push", "x"], 2, "--push: x is not an address such as http://127.0.0.1:4040"),
        (["--push", "http://a/b"], 2,
         "--push: /b is the path of no protocol: /ingest is Pyroscope's, "
         "/v1development/profiles OpenTelemetry's"),
        (["--push", "http://a", "--push-every", "100ms"], 2,
         "--push-every: 100ms is less than 1 s"),
        (["--listen", "x"], 2, "--listen: x is not ADDRESS:PORT"),
        (["--listen", "1.2.3.4:70000"], 2, "--listen: 1.2.3.4:70000 is not ADDRESS:PORT"),
        (["--listen"], 2, "--listen needs a value"),
        (["--all"], 2, "no option --all"),
        (["2147483647"], 127, "no process 2147483647"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], status: int, line: str) -> None:
    assert complaint(exporter(*words), status) == line + "\n"
