# SPDX-License-Identifier: MIT
"""Plans run on real programs: every run is proved, rounds are shuffled, nothing is left running.

scripts/test tests/cli/test_compare_measure.py
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from compare_lab import columns, made_up
from conftest import BUILD_DIR
from table import each_row
from under_shim import need

from poolshim_cli import errors
from poolshim_cli.compare import measure as measuring
from poolshim_cli.compare import processes, single
from poolshim_cli.compare.plan import Column, CommandWork, Plan, ServerWork, find_columns
from poolshim_cli.compare.results import from_json
from poolshim_cli.compare.summary import summarise

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
BALLAST = "b = bytearray(64 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint(len(b))"
REDIS = "redis-server --port {port} --save '' --dir {dir}"
MARK = str(os.getpid())  # in the arguments of what must not run on: other test runs have their own
SLEEP = f"sleep 4713.{MARK}"
LOAD = "redis-benchmark -p {port} -q -n 200 -t set"


@pytest.fixture(autouse=True)
def build(build_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher and the library of the build under test."""
    monkeypatch.setenv("POOLSHIM_BUILD_DIR", str(BUILD_DIR))
    measuring.places.find.cache_clear()


def measure(work: CommandWork | ServerWork, *names: str, **options: object) -> measuring.Results:
    chosen = options.pop("columns", None) or columns(*(names or ("glibc", "poolshim")))
    options = {"runs": 2, "seed": 5, **options}
    return measuring.measure(Plan(tuple(chosen), work, **options))  # type: ignore[arg-type]


def alive(word: str) -> list[str]:
    """Processes with that word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in text and int(path.parent.name) != os.getpid():
            found.append(text)
    return found


def test_every_run_has_all_figures() -> None:
    results = measure(CommandWork((PYTHON, "-c", BALLAST)), curve_ms=1)
    assert [c.name for c in results.columns] == ["glibc", "poolshim", "glibc again"]
    for column in results.columns:
        assert column.failure is None and [run.round for run in column.runs] == [1, 2]
        for run in column.runs:
            assert 64 << 10 < run.peak_rss_kib < 128 << 10
            assert 0 < run.cpu_s < run.wall_s * 4
            assert run.output_bytes == len(f"{64 << 20}\n")
            assert run.curve and max(kib for _, kib in run.curve) <= run.peak_rss_kib + 2048
            if shutil.which("hyperfine"):
                assert run.hyperfine_s is not None and run.hyperfine_s > run.wall_s
    again = from_json(results.to_json())
    assert again == results


def test_order_within_rounds_is_the_seeds() -> None:
    def order(seed: int) -> list[list[str]]:
        seen: list[tuple[int, str]] = []
        plan = Plan(columns("glibc", "poolshim"), CommandWork(("true",)), runs=4, seed=seed)
        measuring.measure(plan, progress=lambda step: seen.append((step.round, step.column)))
        return [[name for at, name in seen if at == number] for number in range(1, 5)]

    first = order(5)
    assert first == order(5)
    assert first != order(6)
    assert len({tuple(names) for names in first}) > 1
    assert all(sorted(names) == ["glibc", "glibc again", "poolshim"] for names in first)


def test_children_count_for_cpu_and_peak() -> None:
    """The shell is small; its children are not."""
    script = f"{PYTHON} -c '{BALLAST}' && {PYTHON} -c '{BALLAST}'; exit 0"
    results = measure(CommandWork(("sh", "-c", script)), runs=1)
    assert all(c.runs[0].peak_rss_kib > 64 << 10 for c in results.columns)
    assert all(c.runs[0].cpu_s > 0.01 for c in results.columns)


def test_environment_of_a_column_reaches_the_command_alone() -> None:
    base = Column("glibc")
    marked = Column("marked", None, {"MARK": "yes"})
    work = CommandWork(("sh", "-c", "echo $MARK"))
    results = measure(work, columns=(base, marked), runs=1)
    sizes = {c.name: c.runs[0].output_bytes for c in results.columns}
    assert sizes == {"glibc": 1, "marked": 4, "glibc again": 1}
    assert any("marked: its output" in line for line in summarise(results).warnings)


def test_output_that_never_repeats_is_blamed_on_nobody() -> None:
    results = measure(CommandWork(("sh", "-c", "cat /proc/sys/kernel/random/uuid")))
    warnings = summarise(results).warnings
    assert any("changes from run to run" in line for line in warnings)
    assert not any(line.startswith("poolshim:") for line in warnings)


def test_prepare_stdin_and_folder(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("hello")
    work = CommandWork(
        ("sh", "-c", "cat; cat made; rm made"), tmp_path, tmp_path / "input",
        prepare="echo ${LD_PRELOAD:-bare} >made",
    )  # fmt: skip
    results = measure(work, runs=1)
    assert {c.runs[0].output_bytes for c in results.columns} == {len("hellobare\n")}
    with pytest.raises(errors.Failed, match="--prepare: exit status 3: no data"):
        measure(CommandWork(("true",), prepare="echo no data >&2; exit 3"))


def test_static_program_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "still.c"
    source.write_text("int main(void) { return 0; }\n")
    program = tmp_path / "still"
    if os.system(f"gcc -static -o {program} {source} 2>/dev/null") != 0:
        pytest.skip("gcc links nothing statically here")
    with pytest.raises(errors.Failed, match="still loads no preloaded library"):
        measure(CommandWork((str(program),)), "glibc", "jemalloc", "poolshim")


def test_unread_mappings_are_not_taken_for_a_static_program() -> None:
    """The case: ptrace is forbidden, and the command ends before the first look at it."""
    report = {"is_expected_mapped": False, "has_maps": False, "mapped": []}
    asked = single.Single(("true",), Column("x", Path("/usr/lib/x.so")))
    with pytest.raises(errors.RunFailed, match="could not be read") as failure:
        single.check_library(report, asked, "")
    assert not isinstance(failure.value, single.NotMapped)


def test_another_allocator_in_the_process_is_no_measurement() -> None:
    mine, other = Path("/usr/lib/x.so"), Path("/usr/lib/y.so")
    report = {"is_expected_mapped": True, "has_maps": True, "mapped": [str(mine), str(other)]}
    asked = single.Single(("true",), Column("x", mine), {other})
    with pytest.raises(errors.RunFailed, match="another allocator was mapped: /usr/lib/y.so"):
        single.check_library(report, asked, "")


def test_column_that_fails_is_out_and_the_others_go_on(tmp_path: Path) -> None:
    script = 'case "$LD_PRELOAD" in *poolshim*) echo broken >&2; exit 3;; esac'
    results = measure(CommandWork(("sh", "-c", script)), "glibc", "mimalloc", "poolshim")
    failures = {c.name: c.failure for c in results.columns}
    assert failures.pop("poolshim") == "exit status 3: broken"
    assert set(failures.values()) == {None}


def test_failing_command_ends_everything_unless_told_to_go_on() -> None:
    work = CommandWork(("sh", "-c", "echo why >&2; exit 7"))
    with pytest.raises(errors.Failed, match=r"glibc: exit status 7: why \(--ignore-failure"):
        measure(work)
    results = measure(CommandWork(work.command, ignore_failure=True), runs=1)
    assert {run.exit_status for c in results.columns for run in c.runs} == {7}


@each_row(("command", "status"), [("/nonexistent/x", 127), ("/etc/passwd", 126)])
@each_row("has_hyperfine", [True, False])
def test_command_that_cannot_start(
    command: str, status: int, has_hyperfine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_hyperfine:
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(errors.OwnFailure, match=command) as failure:
        measure(CommandWork((command,)))
    assert failure.value.status == status


def test_works_without_hyperfine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    results = measure(CommandWork(("true",)), runs=1)
    assert all(run.hyperfine_s is None for c in results.columns for run in c.runs)
    assert summarise(results).clock == "launcher"
    assert any("hyperfine is not installed" in line for line in results.warnings)


def test_endless_command_is_ended() -> None:
    with pytest.raises(errors.Failed, match="no end after 0.3 s"):
        measure(CommandWork(("sh", "-c", f"sleep 4711.{MARK}; true")), timeout_s=0.3)
    assert not alive(f"4711.{MARK}")


def test_what_a_command_leaves_behind_is_killed() -> None:
    script = f"setsid sleep 4712.{MARK} >/dev/null 2>&1 & exit 0"
    results = measure(CommandWork(("sh", "-c", script)), runs=1)
    assert not alive(f"4712.{MARK}")
    assert any("left processes running" in line for line in results.warnings)


def test_confinement_leaves_alone_what_ran_before() -> None:
    before = processes.start(["sleep", "60"])
    try:
        with processes.confined() as watch:
            inside = processes.start(["sleep", "60"])
        assert watch.left_count == 1
        assert not Path(f"/proc/{inside.pid}").exists()
        assert before.poll() is None
    finally:
        before.kill()
        before.wait()


def test_rounds_fill_the_time_budget() -> None:
    """No wall time is asserted: rounds are counted, against what one of them took."""
    session = measuring.Session(
        Plan(columns("glibc"), CommandWork(("true",)), time_budget_s=10),
        None, measuring.no_progress, {}, {},  # type: ignore[arg-type]
    )  # fmt: skip
    assert measuring.rounds_that_fit(session, 1.0) == 10
    assert measuring.rounds_that_fit(session, 0.001) == measuring.ROUNDS_MAX
    assert measuring.rounds_that_fit(session, 100) == measuring.ROUNDS_MIN
    session.plan = Plan(columns("glibc"), CommandWork(("true",)), runs=7)
    assert measuring.rounds_that_fit(session, 100) == 7
    session.plan = Plan(columns("glibc"), CommandWork(("true",)), runs=7, time_budget_s=3)
    assert measuring.rounds_that_fit(session, 1.0) == 3


@pytest.mark.compare
@each_row(
    ("program", "words"),
    [
        ("sqlite3", ["sqlite3", ":memory:", "create table t(a); insert into t values (1), (2);"
                     "select sum(a) from t"]),
        ("jq", ["jq", "-n", "[range(1000)] | add"]),
        ("python3", [PYTHON, "-c", "print(len([object() for _ in range(9999)]))"]),
    ],
)  # fmt: skip
def test_real_programs_under_all_that_is_found(program: str, words: list[str]) -> None:
    need(program)
    found, _ = find_columns(BUILD_DIR)
    results = measure(CommandWork(tuple(words)), columns=found, runs=1)
    assert "floor" not in {c.name for c in results.columns}
    assert all(c.failure is None and len(c.runs) == 1 for c in results.columns)
    assert len({run.output_sha256 for c in results.columns for run in c.runs}) == 1


def test_only_what_would_be_measured_is_missed(tmp_path: Path) -> None:
    """Installed, there is no floor; nobody asked for it."""
    found, missing = find_columns(tmp_path)
    assert "poolshim" in {one.name for one in missing}
    assert "floor" not in {one.name for one in missing} | {column.name for column in found}


def test_server_under_load() -> None:
    need("redis-server", "redis-benchmark")
    results = measure(ServerWork(REDIS, LOAD), runs=1, curve_ms=5)
    for column in results.columns:
        assert column.failure is None
        run = column.runs[0]
        assert run.load_said and run.load_said.startswith("SET: ")
        assert run.cpu_s > 0 and run.peak_rss_kib > 4096 and run.curve
    assert not alive("redis-benchmark -p")
    json.loads(results.to_json())


def test_program_that_brings_an_allocator_is_named() -> None:
    """One that is linked to jemalloc, as Debian's redis is; libc preloaded serves it instead."""
    need("redis-server")
    linked = os.popen(f"ldd {shutil.which('redis-server')}").read()
    if "libjemalloc" not in linked:
        pytest.skip("this redis-server is not linked to jemalloc")
    found, _ = find_columns(BUILD_DIR, only=("glibc", "jemalloc"), additions=("libc=libc.so.6",))
    work = CommandWork(("redis-server", "--version"))
    results = measure(work, columns=found, runs=1)
    assert [c.failure for c in results.columns] == [None] * 4
    assert len(results.warnings) == 1 and "is linked to libjemalloc.so.2" in results.warnings[0]


def test_server_with_a_ready_command() -> None:
    need("redis-server", "redis-benchmark", "redis-cli")
    ready = "redis-cli -p {port} ping"
    results = measure(ServerWork(REDIS, LOAD, ready=ready), "glibc", runs=1)
    assert len(results.base_column.runs) == 1


@each_row(
    ("work", "status", "message"),
    [
        (ServerWork("sh -c 'echo no config >&2; exit 1' {port}", "true"), 1,
         "ended before it was ready .*: no config"),
        (ServerWork(SLEEP + " {port}", "true", ready_timeout_s=0.2), 1, "not ready within"),
        (ServerWork(SLEEP, "false", ready="true"), 1, "the load: exit status 1"),
        (ServerWork(SLEEP, "/nonexistent/x", ready="true"), 127, "/nonexistent/x: not"),
        (ServerWork("/nonexistent/y", "true", ready="false"), 127, "/nonexistent/y: not found"),
        (ServerWork(SLEEP, "true", ready="/nonexistent/z"), 127, "--ready: /nonexist"),
        (ServerWork("sh -c 'sleep 0.2; exit 9'", "sh -c 'sleep 0.5'", ready="true"), 1,
         "the server ended under its load"),
        # Its folder fills until it has ended, and is removed only then.
        (ServerWork("sh -c 'while :; do : > {dir}/$((i += 1)); done'", "false",
                    ready="test -e {dir}/999"), 1, "the load: exit status 1"),
    ],
)  # fmt: skip
def test_server_that_does_not_serve(work: ServerWork, status: int, message: str) -> None:
    with pytest.raises(errors.GIVING_UP, match=message) as failure:
        measure(work)
    assert failure.value.status == status
    assert not alive(SLEEP)


def test_load_is_not_preloaded_and_the_servers_start_is_not_counted() -> None:
    busy = "import time, sys\nwhile time.process_time() < 0.5: pass\nopen(sys.argv[1], 'w')"
    server = f"{PYTHON} -c \"{busy}\ntime.sleep(60)\" {{dir}}/ready"
    work = ServerWork(server, "sh -c 'echo ${LD_PRELOAD:-bare}'", ready="test -e {dir}/ready")
    results = measure(work, runs=1)
    for column in results.columns:
        assert column.runs[0].load_said == "bare"
        assert column.runs[0].cpu_s < 0.25


def test_server_that_ignores_sigterm_is_killed() -> None:
    server = "sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' {port} 4714." + MARK
    work = ServerWork(server, "true", ready="true", stop_timeout_s=0.3)
    results = measure(work, "glibc", runs=1)
    assert len(results.base_column.runs) == 1
    assert not alive(f"4714.{MARK}")


def test_made_up_results_are_what_they_say() -> None:
    """The other tests rest on them."""
    summary = summarise(made_up({"glibc": 1.0, "poolshim": 0.9, "glibc again": 1.0}))
    found = summary.row("poolshim").time
    assert found and found.is_different and found.ratio == pytest.approx(0.9, rel=0.01)
    assert summary.noise and not summary.noise.is_different
