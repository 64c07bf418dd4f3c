# SPDX-License-Identifier: MIT
"""poolshim tune from end to end, on real programs, and every way in which it says no.

    scripts/test tests/cli/test_tune_command.py
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RunShim, run_captured

sys.path.insert(0, str(ROOT / "scripts"))
pytest.importorskip("click", reason="click is not installed: run scripts/setup")
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")

from poolshim_cli import files  # noqa: E402
from poolshim_cli.tune import profile, recording  # noqa: E402
from poolshim_cli.tune.command import SMALL_MAX_BYTES  # noqa: E402
from poolshim_cli.tune.cost import Workload, grid_points, slab_plan  # noqa: E402

POOLSHIM = ROOT / "scripts" / "poolshim"
GOLDEN = Path(__file__).parent / "golden"
Tune = Callable[..., "subprocess.CompletedProcess[str]"]

# That many live blocks of each size, written to from end to end, and never freed.
OBJECTS = r"""
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        size_t size = strtoul(argv[i], NULL, 10);
        for (size_t left = strtoul(argv[i + 1], NULL, 10); left > 0; left--) {
            char *volatile block = malloc(size);
            if (block == NULL) {
                return 1;
            }
            memset(block, 1, size);
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc-12") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("objects")
    (folder / "objects.c").write_text(OBJECTS)
    run_captured([compiler, "-O1", "-o", folder / "objects", folder / "objects.c"])
    return folder / "objects"


@pytest.fixture
def tune(shim: Path, build_dir: Path, tmp_path: Path) -> Tune:
    """Runs the command in an empty folder."""

    def run(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("POOLSHIM_")}
        full = {**clean, "POOLSHIM_BUILD_DIR": str(build_dir), "COLUMNS": "120", **env}
        return run_captured([POOLSHIM, "tune", *words], timeout=120, cwd=tmp_path, env=full)

    return run


def synthetic(sizes: dict[int, int], **changes: Any) -> dict[str, Any]:
    """A recording file's content."""
    classes = [8, *range(16, 129, 16), *(n << k for k in range(9) for n in (160, 192, 224, 256))]
    live = sum(size * count for size, count in sizes.items())
    pairs = [[size, count] for size, count in sorted(sizes.items())]
    return {
        "poolshim_recording": 2, "pid": 4711, "command": ["/usr/bin/app", "x"],
        "page_bytes": 4096, "size_classes": classes,
        "slab_bytes": [slab_plan(size)[0] for size in classes], "small_max_bytes": 65536,
        "allocations": sum(sizes.values()), "peak_live_bytes": live, "limit_bytes": 65536,
        "usual_max_bytes": 8192,
        "peaks": [{"live_bytes": live, "sizes": pairs}],
        "requests": pairs, "larger": {"count": 0, "bytes": 0}, **changes,
    }  # fmt: skip


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def left_behind(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- the whole way ----


@pytest.mark.preload
@pytest.mark.slow
def test_a_heap_of_one_size_gains_what_was_predicted(
    tune: Tune, objects: Path, tmp_path: Path
) -> None:
    """1056 bytes in blocks of 1280: 228 of each 1285 come back, a sixth of all."""
    words = ("--json", "--rounds", "5", "--held-out", f"{objects} 1024 20000")
    done = tune(*words, "--", str(objects), "1056", "100000", POOLSHIM_HUGE="off")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["size_classes"]) ^ set(found["size_classes_before"]) == {1056}
    own, held_out = found["verified"]
    saved = own["before_rss_bytes"] * (1 - own["rss"]["ratio"])
    predicted = found["predicted_saving_bytes"]
    assert predicted == pytest.approx(100_000 * (65536 / 51 - 65536 / 62), rel=0.001)
    assert saved == pytest.approx(predicted, rel=0.03)
    assert own["rss"]["high"] < 0.85
    assert held_out["is_held_out"] and 0.95 < held_out["rss"]["ratio"] < 1.05
    # Whether the time's interval leaves 1 out is chance on a busy machine; memory is not.
    if found["is_worthwhile"]:
        kept = profile.read(tmp_path / "poolshim-profile.toml")
        assert kept.table == tuple(found["size_classes"])
        assert kept.verified["rss_ratio"] == pytest.approx(own["rss"]["ratio"], abs=1e-4)
    else:
        assert "slower" in found["reason"] and left_behind(tmp_path) == set()


@pytest.mark.preload
def test_the_predicted_cost_is_the_resident_memory(
    run_shim: RunShim, objects: Path, build_dir: Path, tmp_path: Path
) -> None:
    """Six sizes under four tables: VmHWM minus that of a bare process, within 2 %."""
    sizes = {152: 60_000, 328: 30_000, 600: 20_000, 1040: 20_000, 2064: 9_000, 3000: 6_000}
    sizes = {(size + 15) // 16 * 16: count for size, count in sizes.items()}
    given = recording.parse(synthetic(sizes))
    workload = Workload([given], grid_points(65536))
    words = [str(word) for pair in sizes.items() for word in pair]

    def peak_kib(table: tuple[int, ...], arguments: list[str]) -> int:
        result = tmp_path / "report.json"
        launcher = build_dir / "scripts" / "launcher"
        env = {"POOLSHIM_HUGE": "off", "POOLSHIM_SIZE_CLASSES": profile.setting(table)}
        options = [w for name, value in env.items() for w in ("--env", f"{name}={value}")]
        options += ["--env", f"LD_PRELOAD={build_dir / 'libpoolshim.so'}"]
        done = run_captured([launcher, "-o", result, *options, "--", objects, *arguments])
        assert done.returncode == 0, done.stderr
        return int(json.loads(result.read_text())["peak_rss_kib"])

    powers = tuple(1 << k for k in range(4, 17))
    exact = tuple(sorted({*powers, *sizes}))
    tables = (given.size_classes, powers, exact, tuple(range(256, 4097, 256)) + (8192, 65536))
    predicted, measured = [], []
    for table in tables:
        predicted.append(workload.account(table).footprint)
        measured.append(1024 * (peak_kib(table, words) - peak_kib(table, [])))
    for expected, found in zip(predicted, measured):
        assert found == pytest.approx(expected, rel=0.02), (predicted, measured)
    assert max(predicted) > 1.3 * min(predicted), "the tables must differ for this to say anything"


@pytest.mark.preload
@pytest.mark.parametrize("program", ["python3", "sqlite3"])
def test_a_real_program_is_recorded_and_tuned(tune: Tune, tmp_path: Path, program: str) -> None:
    path = "/usr/bin/python3" if program == "python3" else shutil.which("sqlite3")
    if path is None or not Path(path).exists():
        pytest.skip(f"{program} is not installed")
    script = {
        "python3": ["-c", "x = [bytes(700 + i % 64) for i in range(20000)]"],
        "sqlite3": [":memory:", "with recursive c(x) as (select 1 union all select x+1 from c "
                    "where x < 30000) select count(*) from (select x, hex(x) h from c order by h)"],
    }[program]  # fmt: skip
    done = tune("--no-verify", "--json", "--", path, *script)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["recordings"][0]["program"].startswith(program)
    before, tuned = found["predicted"]["before"], found["predicted"]["tuned"]
    assert before["live"] == tuned["live"] > 0
    total = [sum(a[term] for term in ("rounding", "tails", "part_filled")) for a in (before, tuned)]
    assert 0 <= total[1] < total[0]
    table = found["size_classes"]
    assert table[-1] == SMALL_MAX_BYTES, "where the library's own table ends"
    assert profile.read(tmp_path / "poolshim-profile.toml").table == tuple(table)
    if program == "python3":  # bytes(n) asks for n + 33: 733 to 796 bytes, one class at present
        assert {752, 768, 784, 800} & set(table)


@pytest.mark.preload
def test_processes_of_a_tree_are_recorded_largest_first(
    tune: Tune, objects: Path, tmp_path: Path
) -> None:
    script = f"import subprocess; subprocess.run(['{objects}', '1056', '30000'], check=True)"
    done = tune("--no-verify", "--json", "--runs", "2", "--", "/usr/bin/python3", "-c", script)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    programs = [one["program"] for one in found["recordings"]]
    assert programs == ["objects"] * 2, "python3 has less than a sixteenth of it"
    assert "recorded 4 processes in 2 runs" in done.stderr and "python3" in done.stderr
    assert found["predicted"]["before"]["live"] == pytest.approx(30_000 * 1056, rel=0.001)
    assert 1056 in found["size_classes"]


@pytest.mark.preload
@pytest.mark.slow
def test_a_server_is_recorded_under_its_load(tune: Tune, tmp_path: Path) -> None:
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        pytest.skip("redis is not installed")
    server = 'redis-server --port {port} --save "" --dir {dir}'
    load = "redis-benchmark -p {port} -q -t set -d 300 -r 100000 -n 20000"
    done = tune("--server", server, "--load", load, "--no-verify", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["recordings"][0]["program"] == "redis-server"
    assert found["predicted"]["before"]["live"] > 15_000 * 300, "the load's values are in it"
    assert found["command"] == server


@pytest.mark.preload
def test_nothing_to_gain_is_said_plainly(tune: Tune, tmp_path: Path) -> None:
    for words in (["true"], ["sort", "/dev/null"]):
        done = tune("--check", "--rounds", "5", "--", *words)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert re.match("no worthwhile change: |nothing to gain: ", done.stderr.splitlines()[-1])
        assert left_behind(tmp_path) == set()
    assert "peak RSS" in done.stderr, "it was measured"


@pytest.mark.preload
def test_the_setting_on_stdout_is_what_the_library_takes(
    tune: Tune, run_shim: RunShim, tmp_path: Path
) -> None:
    write(tmp_path / "a.json", synthetic({200: 5000, 1040: 5000}))
    done = tune("--recording", "a.json", "-q")
    assert done.returncode == 0 and done.stderr == ""
    name, _, value = done.stdout.rstrip("\n").partition("=")
    assert name == "POOLSHIM_SIZE_CLASSES" and {"208", "1040"} <= set(value.split(","))
    assert value.endswith(",8192"), "larger requests take pages, as without the table"
    assert run_shim(["true"], env={name: value, "POOLSHIM_STRICT": "1"}).stderr == ""


@pytest.mark.preload
@pytest.mark.slow
def test_a_profile_is_measured_again(tune: Tune, objects: Path, tmp_path: Path) -> None:
    table = (16, 1056, 65536)
    kept = profile.Profile(("x",), {profile.VARIABLE: profile.setting(table)}, {}, {})
    files.write_whole(tmp_path / "old.toml", profile.to_toml(kept).encode())
    done = tune("--tuned", "old.toml", "--rounds", "5", "--json", "--", objects, "1056", "30000",
                POOLSHIM_HUGE="off")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["size_classes"] == list(table) and found["predicted"] is None
    assert found["verified"][0]["rss"]["high"] < 0.88
    assert left_behind(tmp_path) == {"old.toml"}


@pytest.mark.preload
def test_recorded_spans_are_as_the_cost_has_them(run_shim: RunShim, tmp_path: Path) -> None:
    """slab_plan is the library's: 5 tables of 63 sizes, from 16 bytes to 64 KiB."""
    for step in range(5):
        table = sorted({16 + 16 * ((i * 66 + step * 13) % 4095) for i in range(62)} | {65536})
        settings = {"POOLSHIM_SIZE_CLASSES": profile.setting(table),
                    "POOLSHIM_RECORD": str(tmp_path / f"{step}.json")}  # fmt: skip
        assert run_shim(["true"], env=settings).returncode == 0
        found = recording.load(tmp_path / f"{step}.json")
        assert found.size_classes == tuple(table)
        assert found.slab_bytes == tuple(slab_plan(size)[0] for size in table)


# ---- the output ----


def test_golden_explanation(tune: Tune, tmp_path: Path) -> None:
    write(tmp_path / "a.json", synthetic({72: 90_000, 200: 5000, 1040: 50_000, 5008: 300}))
    write(tmp_path / "b.json", synthetic({320: 20_000}, pid=4712, command=["helper"]))
    write(tmp_path / "c.json", synthetic({320: 20}, pid=4713, command=["sh"]))
    done = tune("--recording", "a.json", "--recording", "b.json", "--recording", "c.json")
    assert done.returncode == 0
    golden = GOLDEN / "tune.txt"
    shown = done.stderr + done.stdout + (tmp_path / "poolshim-profile.toml").read_text()
    if os.environ.get("WRITE_GOLDEN"):
        golden.write_text(shown)
    assert shown == golden.read_text()


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture_shows_both_tables(tune: Tune, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: run scripts/setup")
    write(tmp_path / "a.json", synthetic({72: 90_000, 1040: 50_000}))
    done = tune("--recording", "a.json", "--picture", f"p.{kind}", "-q")
    assert done.returncode == 0, done.stderr
    content = (tmp_path / f"p.{kind}").read_bytes()
    if kind == "svg":
        text = content.decode()
        assert text.lstrip().startswith("<?xml") and "33 classes before" in text
    else:
        assert content.startswith(b"\x89PNG\r\n")


def test_a_missing_extra_is_named(tmp_path: Path, tune: Tune) -> None:
    write(tmp_path / "a.json", synthetic({72: 10}))
    (tmp_path / "matplotlib.py").write_text(
        "raise ModuleNotFoundError('no', name='matplotlib')\n"
    )
    done = tune("--recording", "a.json", "--picture", "p.svg", PYTHONPATH=str(tmp_path))
    assert done.returncode == 125 and done.stdout == ""
    assert "matplotlib" in done.stderr and "plot" in done.stderr and done.stderr.count("\n") == 1
    assert left_behind(tmp_path) <= {"a.json", "matplotlib.py", "__pycache__"}


# ---- no ----


BAD = (
    ([], "no command given", 2),
    (["--check", "--no-verify", "--", "true"], "--check needs a command", 2),
    (["--recording", "no.json"], "no.json: No such file", 2),
    (["--recording", "text"], "text: not a recording of poolshim", 2),
    (["--recording", "array.json"], "array.json: not a recording of poolshim", 2),
    (["--recording", "foreign.json"], "foreign.json: not a recording of poolshim", 2),
    (["--recording", "newer.json"], "newer.json: format 3; this poolshim reads 2", 2),
    (["--recording", "negative.json"], "negative.json: live_bytes is -1", 2),
    (["--recording", "lacking.json"], "'peaks' is missing", 2),
    (["--recording", "tables.json"], "size_classes are not ascending", 2),
    (["--recording", "good.json", "--recording", "other.json"], "different size classes", 2),
    (["--recording", "good.json", "--max-classes", "20"], "--max-classes: 32 is the least", 2),
    (["--recording", "wide.json", "--max-classes", "32"], "--max-classes: 44 is the least", 2),
    (["--recording", "good.json", "-o", "none/p.toml"], "none/p.toml: No such file", 2),
    (["--recording", "good.json", "-o", "folder"], "folder: is a directory", 2),
    (["--recording", "good.json", "-o", "/proc/p.toml"], "/proc/p.toml: ", 2),
    (["--recording", "good.json", "--picture", "p.gif"], "p.gif: .svg or .png", 2),
    (["--recording", "good.json", "--held-out", "true"], "they need the command itself", 2),
    (["--tuned", "no.toml", "--", "true"], "no.toml: No such file", 2),
    (["--tuned", "text", "--", "true"], "text: not a profile of poolshim", 2),
    (["--tuned", "foreign.toml", "--", "true"], "foreign.toml: not a profile of poolshim", 2),
    (["--tuned", "newer.toml", "--", "true"], "newer.toml: format 2", 2),
    (["--tuned", "wrong.toml", "--", "true"], "wrong.toml: not a profile of poolshim", 2),
    (["--server", "redis-server"], "--server and --load go together", 2),
    (["--runs", "0", "--", "true"], "'--runs'", 2),
    (["--cwd", "none", "--", "true"], "--cwd: none: no such folder", 2),
    (["--stdin", "none", "--", "true"], "--stdin: none: No such file", 2),
    (["--stdin", "text", "--cwd", "folder", "--", "false"], "exit status 1", 1),
    (["--", "/no/such/program"], "/no/such/program: not found", 127),
    (["--", "/etc/passwd"], "/etc/passwd: cannot be executed", 126),
    (["--", "sh", "-c", "echo bad luck >&2; exit 3"], "exit status 3: bad luck", 1),
    (["--", "sh", "-c", "kill -9 $$"], "ended by signal 9", 1),
)


def test_bad_input_is_one_line(tune: Tune, tmp_path: Path) -> None:
    good = synthetic({1040: 1000})
    write(tmp_path / "good.json", good)
    write(tmp_path / "array.json", [1])
    write(tmp_path / "foreign.json", {"size_classes": []})
    write(tmp_path / "newer.json", {**good, "poolshim_recording": 3})
    write(tmp_path / "negative.json", {**good, "peaks": [{"live_bytes": -1, "sizes": []}]})
    write(tmp_path / "lacking.json", {k: v for k, v in good.items() if k != "peaks"})
    write(tmp_path / "tables.json", {**good, "size_classes": [32, 16]})
    write(tmp_path / "other.json", {**good, "size_classes": [16, 32]})
    write(tmp_path / "wide.json", {**good, "usual_max_bytes": 65536})
    (tmp_path / "text").write_text("\x00 no such thing")
    (tmp_path / "folder").mkdir()
    (tmp_path / "foreign.toml").write_text("[tool]\nname = 1\n")
    (tmp_path / "newer.toml").write_text("poolshim_profile = 2\n")
    (tmp_path / "wrong.toml").write_text(
        'poolshim_profile = 1\ncommand = []\n[environment]\nPOOLSHIM_SIZE_CLASSES = "16,24"\n'
    )
    before = left_behind(tmp_path)
    wrong = []
    for words, message, status in BAD:
        done = tune(*words)
        is_named = done.stderr.startswith("poolshim tune: ") and message in done.stderr
        ended = (done.returncode, done.stdout, done.stderr.count("\n"))
        if ended != (status, "", 1) or not is_named or left_behind(tmp_path) != before:
            wrong.append((words, done.returncode, done.stdout, done.stderr))
    assert wrong == []


def replaced(value: Any, generator: random.Random) -> Any:
    """The value with one of its parts, at any depth, replaced by what does not belong there."""
    if isinstance(value, (dict, list)) and value and generator.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = generator.choice(list(keys))
        copy = value.copy()
        copy[key] = replaced(value[key], generator)
        return copy
    return generator.choice((None, -1, 0, 7, 1.5, True, "x", [], {}, [[]], [[1]], [-5, 2], 1 << 70))


def test_whatever_a_recording_holds_it_is_read_or_refused(tmp_path: Path) -> None:
    generator = random.Random(20261121)
    good = synthetic({72: 90, 1040: 50, 5008: 3})
    outcomes = {"read": 0, "refused": 0}
    for _ in range(400):
        path = write(tmp_path / "a.json", replaced(good, generator))
        try:
            found = recording.load(path)
            Workload([found], grid_points(65536)).account(found.size_classes)
            outcomes["read"] += 1
        except recording.BadRequest as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 40, outcomes


def test_a_missing_library_is_an_own_failure(tune: Tune, tmp_path: Path) -> None:
    done = tune("--", "true", POOLSHIM_BUILD_DIR=str(tmp_path / "none"))
    assert done.returncode == 125
    assert "libpoolshim.so is missing: build first" in done.stderr


@pytest.mark.preload
def test_a_process_that_records_nothing_is_named(tune: Tune) -> None:
    """It dropped LD_PRELOAD by itself: its first process is ours, but ends in exec."""
    done = tune("--", "sh", "-c", "exec env -u LD_PRELOAD true")
    assert done.returncode == 1
    assert "no process left a recording" in done.stderr or "is not mapped" in done.stderr
