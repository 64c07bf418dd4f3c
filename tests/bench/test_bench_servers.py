# SPDX-License-Identifier: MIT
"""Threaded programs: the table, the figures from made-up courses, a run from end to end.

scripts/test tests/bench/test_bench_servers.py
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, library_that_does_not_load, run_captured
from table import each_row

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")

from harness import server_cases, server_figures, server_report, server_runs  # noqa: E402
from harness.server_cases import KeptGoal, Server, Table, read_servers  # noqa: E402
from harness.server_figures import ServerRun  # noqa: E402
from harness.suite_cases import DEFAULT_SUITE, read_suite  # noqa: E402
from poolshim_cli.allocators import Allocator, tomllib  # noqa: E402
from poolshim_cli.errors import BadRequest, RunFailed  # noqa: E402

pytestmark = pytest.mark.bench


def made(
    allocator: str, number: int, cpu: float, mean: float, peak: float, rest: float
) -> ServerRun:
    return ServerRun(allocator, number, cpu, mean * 1024, peak * 1024, rest * 1024, 1, 0, 1)


def stored(runs: list[ServerRun]) -> server_report.Stored:
    names = list(dict.fromkeys(run.allocator for run in runs))
    return server_report.Stored(
        {
            "machine": "a machine", "version": "", "rounds": 2, "busy_cores": 0.5,
            "allocators": [{"name": n, "version": f"{n} 1", "note": ""} for n in names],
            "runs": [run.as_json() for run in runs], "curves": {},
        }
    )  # fmt: skip


# ---- the table of programs ----


def test_the_table_is_complete() -> None:
    table = read_servers()
    assert {"ruby", "python", "python-malloc", "node", "mariadb", "rocksdb", "pool"} == {
        server.name for server in table.servers if server.is_in_means
    }
    for server in table.servers:
        own = [word for word in server.command if word.startswith("{folder}")]
        assert all((server_runs.FOLDER / word.removeprefix("{folder}/")).exists() for word in own)
    groups = {group.name: group for group in read_suite(DEFAULT_SUITE)}
    cases = [row.short_name for row in groups["kept"].cases]
    assert [goal.case for goal in table.kept] == cases


def test_setup_installs_what_the_table_needs() -> None:
    listed = (ROOT / "scripts" / "setup").read_text()
    for server in read_servers().servers:
        for package in server.package.split():
            assert f" {package}\n" in listed or f' {package}"' in listed, package


GOOD = '[[server]]\nname = "a"\ntitle = "A"\ncommand = ["true"]\nwork = 1\n'


@each_row(
    ("text", "complaint"),
    [
        ("[[server", "servers.toml"),
        ('[[server]]\nname = "a"\n', "missing"),
        (GOOD + 'loads = ["x"]\n', "'loads'"),
        (GOOD + GOOD, "a is there twice"),
        (GOOD + 'ready = "/sock"\n', "belong together"),
        (GOOD + "[goals]\nswap = 1\n", "'swap'"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "servers.toml"
    path.write_text(text)
    with pytest.raises(BadRequest) as refused:
        read_servers(path)
    assert complaint in str(refused.value)


def test_a_program_that_is_missing_is_skipped_with_its_package() -> None:
    here = Server("here", "", ("sh",), 1)
    gone = Server("gone", "", ("sh",), 1, needs=("no-such-program",), package="some-package")
    found, missing = server_cases.installed([here, gone])
    assert found == [here]
    assert [one.reason for one in missing] == [
        "not found: no-such-program; Debian packages some-package"
    ]


# ---- figures of a course ----


def test_mean_is_over_time_and_under_load_only() -> None:
    course = [(0.0, 1000.0), (100.0, 10.0), (110.0, 10.0), (120.0, 10.0), (130.0, 10.0),
              (200.0, 10.0), (270.0, 80.0), (900.0, 5000.0)]  # fmt: skip
    assert server_figures.mean_between(course, 100, 200) == 10
    assert server_figures.mean_between(course, 100, 270) == (100 * 10 + 70 * 45) / 170
    with pytest.raises(RunFailed, match="only 2 samples"):
        server_figures.mean_between(course, 200, 300)


def test_rest_is_the_median_of_its_end() -> None:
    course = [(float(at), kib) for at, kib in
              ((1000, 900.0), (2000, 500.0), (3700, 100.0), (3800, 90.0), (4000, 110.0),
               (4001, 7.0))]  # fmt: skip
    assert server_figures.at_rest(course, 1000) == 100
    with pytest.raises(RunFailed, match="no sample at rest"):
        server_figures.at_rest(course[:2], 1000)


def test_thinning_keeps_the_peak_and_the_order() -> None:
    course = [(float(at), 10.0) for at in range(10000)]
    course[7777] = (7777.0, 99.0)
    short = server_figures.thin(course, 50)
    assert len(short) == 50 and (7777.0, 99.0) in short
    assert [at for at, _ in short] == sorted(at for at, _ in short)
    assert server_figures.thin(course[:9], 50) == course[:9]


def test_ratios_are_of_medians_and_of_rounds() -> None:
    runs = [
        made("glibc", 0, 1.0, 10, 20, 10), made("glibc", 1, 4.0, 30, 20, 10),
        made("glibc", 2, 2.0, 20, 20, 10), made("poolshim", 0, 0.5, 10, 10, 5),
        made("poolshim", 1, 2.0, 10, 10, 5), made("poolshim", 2, 2.0, 90, 10, 5),
    ]  # fmt: skip
    own = server_figures.ratios(runs, "glibc")["poolshim"]
    assert own == {"cpu": 0.5, "mean": 0.5, "peak": 0.5, "rest": 0.5}
    assert server_figures.ratios(runs, "none") == {}
    assert server_figures.typical([run for run in runs if run.allocator == "glibc"]).round == 2


def test_means_are_geometric_and_need_every_program() -> None:
    first = {"x": dict.fromkeys(server_figures.METRICS, 4.0)}
    second = {"x": dict.fromkeys(server_figures.METRICS, 1.0), "y": {}}
    assert server_figures.means([first, second], "x") == dict.fromkeys(server_figures.METRICS, 2.0)
    assert server_figures.means([first, second], "y") is None
    assert server_figures.means([], "x") is None


# ---- tables ----


def test_tables_from_known_figures() -> None:
    server = Server("one", "the first", ("true",), 1)
    stays = Server("stays", "what stays", ("true",), 1, group="kept", goal=0.05)
    table = Table((server, stays), (KeptGoal("turns", "turns", mib=150),), {"mean": 0.9})
    runs = [made("other", 0, 2.0, 90, 100, 50), made("glibc", 0, 1.0, 100, 100, 100),
            made("poolshim", 0, 0.5, 80, 100, 100)]  # fmt: skip
    memory = server_report.Stored(
        stored(runs).content
        | {"runs": [{"case": "turns", "allocator": name, "round": 0, "rss": mib * 1024,
                     "peak": 400 * 1024} for name, mib in (("glibc", 300), ("poolshim", 151))]}
    )  # fmt: skip
    text = server_report.summary_text(
        table, {"one": stored(runs), "stays": stored(runs), "kept": memory}
    )
    lines = text.splitlines()
    assert "| glibc | 1.000 | 1.000 | 1.000 | 1.000 |" in lines
    assert "| poolshim | 0.500 | 0.800 | 1.000 | 1.000 |" in lines
    assert "| goal |  | 0.90 |  |  |" in lines
    assert "| one | mean | 100.0 | 80.0 | 90.0 | 0.89 other |" in lines
    assert "| one | at rest | 100.0 | 100.0 | 50.0 | 2.00 other |" in lines
    assert "| turns | 300 | 151 | – | 150 MiB | no |" in lines
    assert "| what stays | 100 | 100 | 50 | 5 % of its peak | no |" in lines
    assert "others used up to 0.5 cores" in lines[-1]


@each_row(
    ("goal", "value", "reached"),
    [
        (KeptGoal("", "", mib=10), 10.0, True), (KeptGoal("", "", mib=10), 10.1, False),
        (KeptGoal("", "", glibc=1.1), 11.0, True), (KeptGoal("", "", glibc=1.1), 12.0, False),
        (KeptGoal("", "", peak=0.05), 5.0, True), (KeptGoal("", "", peak=0.05), 6.0, False),
    ],
)  # fmt: skip
def test_a_goal_is_reached_or_not(goal: KeptGoal, value: float, reached: bool) -> None:
    assert server_report.is_reached(goal, value, 10.0, 100.0) is reached


# ---- runs ----

PROGRAM = r"""
import sys, time
blocks = [b"x" * (1 << 20) for _ in range(20)]
time.sleep(0.3)
del blocks
print(sys.argv[1], flush=True)
sys.stdin.read()
"""


def run_program(
    build_dir: Path, tmp_path: Path, server: Server, allocator: Allocator
) -> tuple[ServerRun, server_figures.Course]:
    libraries = [path for path in (allocator.library,) if path is not None]
    runner = server_runs.ServerRunner(build_dir, libraries, 30, 1, tmp_path, 300)
    return runner.run(server, allocator, 0)


def program(said: str = "load ended", **fields: Any) -> Server:
    return Server("p", "", (sys.executable, "-c", PROGRAM, said), 1, **fields)


def test_a_run_has_its_load_and_its_rest(build_dir: Path, shim: Path, tmp_path: Path) -> None:
    run, course = run_program(build_dir, tmp_path, program(), Allocator("poolshim", shim.resolve()))
    assert 20 << 10 < run.peak < 200 << 10
    assert run.mean <= run.peak and run.rest <= run.peak
    assert 0 == run.begin_ms < run.ended_ms == run.load_ms
    assert course[-1][0] <= run.ended_ms + 300
    assert run.cpu > 0


def test_memory_of_descendants_counts(build_dir: Path, tmp_path: Path) -> None:
    whole = Server("p", "", ("sh", "-c", '"$@"; exit $?', "sh", *program().command), 1)
    run, _ = run_program(build_dir, tmp_path, whole, Allocator("glibc"))
    assert run.peak > 20 << 10


@each_row(
    ("server", "complaint"),
    [
        (program("something else"), "no end of its load"),
        (Server("p", "", ("false",), 1), "it ended before its load"),
        (Server("p", "", ("sleep", "60"), 1, ready="{dir}/none", load=(("true",),)), "not ready"),
        (Server("p", "", ("true",), 1, before=("sh", "-c", "echo no >&2; exit 3")),
         "before: exit status 3: no"),
    ],
)  # fmt: skip
def test_a_run_that_is_none_says_why(
    build_dir: Path, tmp_path: Path, server: Server, complaint: str
) -> None:
    runner = server_runs.ServerRunner(build_dir, [], 2, 1, tmp_path, 300)
    with pytest.raises(RunFailed, match=complaint):
        runner.run(server, Allocator("glibc"), 0)


def test_a_library_that_is_not_mapped_is_no_measurement(build_dir: Path, tmp_path: Path) -> None:
    broken = library_that_does_not_load(tmp_path)
    with pytest.raises(RunFailed, match="was not mapped"):
        run_program(build_dir, tmp_path, program(), Allocator("broken", broken))


def test_another_allocator_in_the_program_is_no_measurement(
    build_dir: Path, shim: Path, tmp_path: Path
) -> None:
    runner = server_runs.ServerRunner(build_dir, [shim.resolve()], 30, 1, tmp_path, 300)
    smuggled = program(env={"LD_PRELOAD": str(shim)})
    with pytest.raises(RunFailed, match="another allocator was mapped"):
        runner.run(smuggled, Allocator("glibc"), 0)


@pytest.mark.slow
@pytest.mark.preload
def test_quick_from_end_to_end(build_dir: Path, tmp_path: Path) -> None:
    """Installed programs of three kinds, and the workloads. With three times the work, since a busy
    machine leaves too few samples of a tenth of a second."""
    wanted = ["pool", "python"] + (["redis-flushall"] if shutil.which("redis-benchmark") else [])
    command = [
        sys.executable, ROOT / "bench" / "servers.py", "--quick", "--scale", "0.3",
        "--build", build_dir, "--only", ",".join([*wanted, "kept"]),
        "--allocators", "glibc,poolshim", "--results", tmp_path,
    ]  # fmt: skip
    env = {"PYTHONPATH": f"{ROOT}/scripts:{ROOT}/bench", "PATH": "/usr/bin:/bin:/usr/sbin"}
    done = run_captured(command, timeout=300, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in wanted:
        content = json.loads((tmp_path / f"{name}.json").read_text())
        assert {run["allocator"] for run in content["runs"]} == {"glibc", "poolshim"}
        assert all(len(content["curves"][name]) > 3 for name in ("glibc", "poolshim"))
    cases = {run["case"] for run in json.loads((tmp_path / "kept.json").read_text())["runs"]}
    assert cases == {goal.case for goal in read_servers().kept}
    assert "| poolshim | " in done.stdout


def test_a_request_that_cannot_be_met_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "servers.py", "--only", "nosuch"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}/scripts:{ROOT}/bench", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("servers.py: --only: no 'nosuch' here")
    assert len(done.stderr.splitlines()) == 1


def test_the_sources_of_the_peers_are_pinned() -> None:
    """scripts/dev/peers builds the same tomorrow."""
    manifest = tomllib.loads((ROOT / "bench" / "peers" / "Cargo.toml").read_text())
    versions = [entry if isinstance(entry, str) else entry["version"]
                for entry in manifest["dependencies"].values()]  # fmt: skip
    assert all(version.startswith("=") for version in versions)
    assert (ROOT / "bench" / "peers" / "Cargo.lock").exists()
