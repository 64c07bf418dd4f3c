# SPDX-License-Identifier: MIT
"""bench/machine/numa.c and the virtual machine of several nodes in which scripts/dev/numa runs it.

    scripts/test tests/bench/test_bench_numa.py        (the machine: once scripts/dev/numa has run)
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT, load_script, run_captured
from emulation import ARCHITECTURES, Console, Machine, find_allocators
from emulation.console import BEGIN, END
from poolshim_cli.errors import BadRequest
from table import each_row
from under_shim import need

pytestmark = pytest.mark.bench

SCRIPT = ROOT / "scripts" / "dev" / "numa"
numa = load_script("numa")

ROUND = {f"{kind}_local_percent": 50.0 + i for i, kind in enumerate(numa.KINDS)}


def console_of(name: str, nodes: int) -> str:
    report = json.dumps({"rounds": [ROUND, {**ROUND, "nodes": nodes}]})
    return f"booted\r\n{BEGIN.format(name)}\r\n{report}\r\n{END.format(name, 0)}\r\n"


def test_every_page_is_local_on_the_only_node(build_dir: Path) -> None:
    command = [build_dir / "bench" / "numa", "--mib", "16", "--turns", "2", "--exchanges", "2"]
    result = run_captured([*command, "--json"])
    assert result.returncode == 0, result.stderr
    rounds = json.loads(result.stdout)["rounds"]
    if rounds[-1]["nodes"] != 1:
        pytest.skip("this machine has several nodes")
    assert len(rounds) == 2
    for round_ in rounds:
        assert [round_[f"{kind}_local_percent"] for kind in numa.KINDS] == [100, 100, 100]


def test_shares_are_read_from_between_the_lines_of_an_allocator() -> None:
    console = Console(console_of("a.b", 2) + console_of("c", 2))
    assert numa.figures_of(console, "a.b", 2) == [50, 51, 52, 50, 51, 52]


@each_row("console", [console_of("c", 2), console_of("a", 2)[:-20], ""])
def test_a_machine_that_stopped_early_is_an_error(console: str) -> None:
    with pytest.raises(BadRequest, match="the machine stopped before a"):
        numa.figures_of(Console(console), "a", 2)


def test_a_program_that_failed_has_no_shares() -> None:
    console = f"{BEGIN.format('a')}\r\nKilled\r\n{END.format('a', 137)}\r\n"
    assert numa.figures_of(Console(console), "a", 2) == []


def test_a_machine_of_fewer_nodes_is_an_error() -> None:
    with pytest.raises(BadRequest, match="the machine has 1 nodes, not 2"):
        numa.figures_of(Console(console_of("a", 1)), "a", 2)


def test_unknown_allocators_are_an_error() -> None:
    here = next(one for one in ARCHITECTURES.values() if one.is_native)
    with pytest.raises(BadRequest, match="no allocator nothing here"):
        find_allocators("glibc,nothing", [], here)
    with pytest.raises(BadRequest, match="--add other: not found: /no/lib.so"):
        find_allocators(None, ["other=/no/lib.so"], here)


def test_what_a_node_has_freed_serves_it_again() -> None:
    here = ARCHITECTURES["x86_64"]
    need(*Machine(here, 2, 1024).needs())
    if not here.has_kernel():
        pytest.skip("scripts/dev/numa has not run here")
    result = run_captured([SCRIPT, "--only", "poolshim", "--mib", "16"], timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
