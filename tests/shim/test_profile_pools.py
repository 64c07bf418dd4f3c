# SPDX-License-Identifier: MIT
"""Profiles of pools: the family and the name of a pool are in its samples.

    scripts/test tests/shim/test_profile_pools.py

tests/faults/load_named_pools.c has a pool of each family and prints the bytes of their chunks;
load_own_pools is the same program with the pools linked in.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured
from poolshim_cli import pprof, pprof_write, symbols

pytestmark = pytest.mark.preload

INTERVAL = 64 << 10
PROGRAMS = ("load_named_pools", "load_own_pools")
FAMILIES = {"bounded": "bounded pool", "intrusive": "intrusive pool"}  # of the registry: in samples
HELD = 8 << 20
CUT = "a name of more than forty bytes, which "
UTF8 = "cut within a character of two bytes .é"
PLAIN = "quoted ?name???[31m"


def program(build_dir: Path, name: str) -> Path:
    return build_dir / "tests" / "faults" / name


def truth_of(stdout: str) -> dict[tuple[str, str], int]:
    """Family and name -> bytes of the chunks, as the program tells."""
    found = {}
    for line in stdout.splitlines():
        nbytes, family, name = line.split(" ", 2)
        found[FAMILIES.get(family, family), name] = int(nbytes)
    return found


def pools_of(profile: pprof.Profile) -> Counter[tuple[str, str]]:
    """Family and name -> live bytes; "" of pools without a name."""
    found: Counter[tuple[str, str]] = Counter()
    index = profile.index_of("inuse_space")
    for sample in profile.samples:
        line = sample.locations[0].line if sample.locations else None
        if line is not None and line.pool is not None:
            found[line.pool.family, line.pool.name] += sample.values[index]
    return found


def profiled(run_shim: RunShim, command: Path, path: Path) -> tuple[pprof.Profile, str]:
    result = run_shim([command], env={"POOLSHIM_PROFILE": str(path),
                                      "POOLSHIM_PROFILE_INTERVAL": str(INTERVAL),
                                      "POOLSHIM_PROFILE_SEED": "5"})
    assert (result.returncode, result.stderr) == (0, "")
    return pprof.read(path), result.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_samples_have_the_pool_of_each_family(
    name: str, run_shim: RunShim, build_dir: Path, tmp_path: Path
) -> None:
    profile, stdout = profiled(run_shim, program(build_dir, name), tmp_path / "h.pb.gz")
    truth, found = truth_of(stdout), pools_of(profile)
    assert {family for family, _ in truth} == {
        "bounded pool", "fifo", "intrusive pool", "pool", "pools", "region", "ring", "slots",
        "stack", "tlsf"}
    for pool, nbytes in truth.items():
        # Of chunks below the interval, as those of fifos and slots, 17 % at two sigma.
        assert found[pool] == pytest.approx(nbytes, rel=0.35), pool
    assert found["slices", ""] == pytest.approx(HELD, rel=0.35)


@pytest.mark.parametrize("name", PROGRAMS)
def test_names_live_as_long_as_the_profile(
    name: str, run_shim: RunShim, build_dir: Path, tmp_path: Path
) -> None:
    """Of a pool that is gone, of one that was renamed, and of texts that are none."""
    profile, _ = profiled(run_shim, program(build_dir, name), tmp_path / "h.pb.gz")
    found = pools_of(profile)
    made = profile.index_of("alloc_space")
    gone = [one.values[made] for one in profile.samples
            if one.locations[0].line and one.locations[0].line.function == 'region "gone"']
    assert sum(gone) > HELD * 0.9 and found["region", "gone"] == 0
    for text in ("first", "other", CUT, UTF8, PLAIN, "malloc"):
        assert found["region", text] > HELD * 0.8, text
    # Without a name: of "", of "region", and of the region that lost its name.
    assert found["region", ""] > 2.5 * HELD
    assert not any("#" in text for _, text in found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_pools_of_one_call_site_are_two_rows(name: str, build_dir: Path) -> None:
    command = [str(ROOT / "scripts" / "poolshim"), "profile", "--json",
               f"--interval={INTERVAL}", "--", str(program(build_dir, name))]
    done = run_captured(command, timeout=120)
    assert done.returncode == 0, done.stderr
    *lines, found = done.stdout.splitlines()
    truth = truth_of("\n".join(lines))
    rows = {row["name"]: row for row in json.loads(found)["sites"]}
    for text in ("left", "right"):
        row = rows[f'region "{text}"']
        assert (row["pool_family"], row["pool"], row["file"], row["line"]) == (
            "region", text, "", 0)
        assert row["callers"][:3] == ["fill", "hold_two", "main"]
        assert row["nbytes"] == pytest.approx(truth["region", text], rel=0.1)
    for family in ("pool", "ring", "slots", "tlsf"):
        assert rows[f'{family} "of {family}"']["callers"][0] == f"hold_{family}"
    slices = rows["hold_slices (slices)"]
    assert (slices["pool_family"], slices["pool"]) == ("slices", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_flight_record_names_them_too(
    name: str, run_shim: RunShim, build_dir: Path, tmp_path: Path
) -> None:
    """In the record of a program that is killed, and in the line at the mark."""
    result = run_shim([program(build_dir, name), "kill"],
                      env={"POOLSHIM_FLIGHT": str(tmp_path), "POOLSHIM_LIMIT": "30MiB",
                           "POOLSHIM_PROFILE_INTERVAL": str(INTERVAL),
                           "POOLSHIM_PROFILE_SEED": "5"})
    assert result.returncode == -signal.SIGKILL
    assert re.search(r'MiB live, most from [a-z ]+ "of [a-z]+" \d+\.\d MiB, ',
                     result.stderr.splitlines()[0]), result.stderr  # fmt: skip
    (record,) = tmp_path.iterdir()
    truth, found = truth_of(result.stdout), pools_of(pprof.read(record))
    for pool, nbytes in truth.items():
        assert found[pool] == pytest.approx(nbytes, rel=0.35), pool


def test_pprof_itself_shows_the_tags(run_shim: RunShim, build_dir: Path, tmp_path: Path) -> None:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if go is None:
        pytest.skip("go is not installed")
    path, record = tmp_path / "h.pb.gz", tmp_path / "flight"
    record.mkdir()
    environment = {"POOLSHIM_PROFILE": str(path), "POOLSHIM_FLIGHT": str(record)}
    assert run_shim([program(build_dir, PROGRAMS[0])], env=environment).returncode == 0
    env = {**os.environ, "PPROF_TMPDIR": str(tmp_path)}
    for file in (path, next(record.iterdir())):
        command = [go, "tool", "pprof", "-symbolize=none", "-tags", str(file)]
        try:  # the first call of a new installation compiles it
            done = run_captured(command, timeout=500, env=env)
        except subprocess.TimeoutExpired:
            pytest.skip("go tool pprof does not start")
        assert done.returncode == 0, done.stderr
        name, _, family = done.stdout.partition(" pool family:")
        assert "): left\n" in name and "): of stack\n" in name, done.stdout
        assert "): region\n" in family and "): slices\n" in family, done.stdout


def test_a_written_profile_has_the_pools(
    build_dir: Path, run_shim: RunShim, tmp_path: Path
) -> None:
    """One that the command writes from its own reading is read as it was."""
    profile, _ = profiled(run_shim, program(build_dir, PROGRAMS[0]), tmp_path / "h.pb.gz")
    again = pprof.parse(pprof_write.encode(profile, symbols.Symbols()))
    assert pools_of(again) == pools_of(profile)


def test_without_a_profile_nothing_is_taken_down(run_shim: RunShim, build_dir: Path) -> None:
    for name in PROGRAMS:
        result = run_shim([program(build_dir, name)])
        assert (result.returncode, result.stderr) == (0, "")
        alone = subprocess.run([program(build_dir, name)], capture_output=True, text=True,
                               check=False)
        assert (alone.returncode, alone.stdout) == (0, result.stdout)
