# SPDX-License-Identifier: MIT
"""POOLSHIM_LIMIT: a program whose live memory is below the limit never exceeds it.

    scripts/test tests/shim/test_limit.py

Each load frees memory that its next blocks cannot use (tests/faults/load_limit.c). Without the
option it comes beyond the limit, or the tests would show nothing; where the limit is that of a
control group, it is killed then.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from conftest import RunShim
from memory_cgroup import entering, limited_group

pytestmark = pytest.mark.preload

# Free memory is retained, whatever time the program takes.
KEPT = {"POOLSHIM_PURGE_DELAY_MS": "60000"}
LIMIT_MIB = 100
GARBAGE_MIB = 60
LIVE_MIB = 60
ROUND_MIB = 80
LOADS = ["mapping", "holes", "fork"]


@pytest.fixture
def load(build_dir: Path) -> Path:
    return build_dir / "tests" / "faults" / "load_limit"


def limit_in(report: Path) -> dict[str, object]:
    """The object of a JSON report."""
    found = json.loads(report.read_text())["limit"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("kind", LOADS)
def test_garbage_goes_before_the_limit_is_reached(
    kind: str, run_shim: RunShim, load: Path
) -> None:
    words = [load, kind, str(GARBAGE_MIB), str(LIVE_MIB)]
    without = run_shim(words, env=KEPT)
    assert int(without.stdout) > LIMIT_MIB, without.stdout
    within = run_shim(words, env={**KEPT, "POOLSHIM_LIMIT": f"{LIMIT_MIB}MiB"})
    assert (within.returncode, within.stderr) == (0, "")
    assert int(within.stdout) <= LIMIT_MIB, within.stdout


def test_rss_over_time_is_below_the_limit(run_shim: RunShim, load: Path) -> None:
    words = [load, "rounds", str(ROUND_MIB), "21"]
    limit = {**KEPT, "POOLSHIM_LIMIT": f"{LIMIT_MIB}MiB"}
    without = [int(line) for line in run_shim(words, env=KEPT).stdout.split()]
    within = [int(line) for line in run_shim(words, env=limit).stdout.split()]
    assert len(without) == len(within) == 21
    assert sum(mib > LIMIT_MIB for mib in without) > len(without) // 2, without
    assert max(within) <= LIMIT_MIB, within


@pytest.mark.parametrize("kind", LOADS)
def test_a_limit_that_cannot_be_kept_fails_nothing(
    kind: str, run_shim: RunShim, load: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    env = {"POOLSHIM_LIMIT": "8MiB", "POOLSHIM_STATS": str(report)}
    result = run_shim([load, kind, str(GARBAGE_MIB), str(LIVE_MIB)], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout) >= LIVE_MIB
    found = limit_in(report)
    assert found["bytes"] == 8 << 20 and found["source"] == "setting"
    assert isinstance(found["near_count"], int) and found["near_count"] > 0


@pytest.mark.root
@pytest.mark.parametrize("kind", ["mapping", "holes"])
def test_a_program_that_a_cgroup_would_kill_survives(
    kind: str, run_shim: RunShim, load: Path, tmp_path: Path
) -> None:
    words = [load, kind, str(GARBAGE_MIB), str(LIVE_MIB)]
    report = tmp_path / "report.json"
    with limited_group(LIMIT_MIB << 20) as group:
        without = run_shim(words, env=KEPT, preexec_fn=entering(group))
        assert without.returncode in (-signal.SIGKILL, 1), without.stdout
        env = {**KEPT, "POOLSHIM_LIMIT": "90%", "POOLSHIM_STATS": str(report)}
        within = run_shim(words, env=env, preexec_fn=entering(group))
    assert within.returncode == 0, within.stderr
    found = limit_in(report)
    assert found["bytes"] == (LIMIT_MIB << 20) * 9 // 10
    assert found["source"] in ("memory.max", "limit_in_bytes")
    assert isinstance(found["near_count"], int) and found["near_count"] > 0
    assert isinstance(found["purged_bytes"], int) and found["purged_bytes"] > 0


@pytest.mark.root
def test_a_child_in_another_group_has_the_limit_of_that(
    run_shim: RunShim, load: Path, tmp_path: Path
) -> None:
    with limited_group(LIMIT_MIB << 20) as group, limited_group(200 << 20, "-other") as other:
        env = {
            "POOLSHIM_LIMIT": "50%",
            "POOLSHIM_STATS": str(tmp_path / "%p.json"),
            "LOAD_LIMIT_GROUP": str(other / "cgroup.procs"),
        }
        result = run_shim([load, "fork", "20", "40"], env=env, preexec_fn=entering(group))
    assert result.returncode == 0, result.stderr
    limits = [limit_in(report)["bytes"] for report in tmp_path.glob("*.json")]
    assert sorted(map(str, limits)) == sorted([str(LIMIT_MIB << 19), str(100 << 20)])
