# SPDX-License-Identifier: MIT
"""Runs every program of tests/scenarios/ under the shim and checks it by its first line.

    // expect: exit 0                                 or SIGABRT, and any number of "quoted" parts
    // expect: SIGABRT "poolshim: double free"        that stderr must contain
    // env: POOLSHIM_X=1 NAME=value                   optional, as are the following
    // timeout: 60
    // marks: slow
    // flags: -O2      // lib: name.c      // libc: glibc      (see tests/CMakeLists.txt)

Exit status 77 means that the program cannot say anything on this machine: skipped.
"""

from __future__ import annotations

import re
import shlex
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from buildable import skip_left_out
from conftest import ROOT, RunShim
from table import each_row

SOURCES = sorted(
    path for path in (ROOT / "tests" / "scenarios").iterdir() if path.suffix in (".c", ".cpp")
)
KEYS = {"expect", "env", "timeout", "marks", "flags", "lib", "libc"}


@dataclass
class Scenario:
    """What the leading comment lines of a scenario say."""

    returncode: int
    stderr_parts: list[str]
    env: dict[str, str] = field(default_factory=dict)
    timeout: float = 60
    marks: list[str] = field(default_factory=list)


def parse_expect(line: str) -> Scenario:
    match = re.fullmatch(r'// expect: (?:exit (\d+)|(SIG[A-Z]+))((?: "[^"]*")*)', line)
    if not match:
        raise ValueError(f"line 1 is no expectation: {line}")
    status, signal_name, quoted = match.groups()
    returncode = int(status) if status else -getattr(signal, signal_name).value
    return Scenario(returncode, re.findall(r'"([^"]*)"', quoted))


def parse_scenario(text: str) -> Scenario:
    lines = text.splitlines()
    scenario = parse_expect(lines[0])
    for line in lines[1:]:
        match = re.fullmatch(r"// ([a-z]+): (.*)", line)
        if not match:
            break
        key, value = match.groups()
        if key not in KEYS or key == "expect":
            raise ValueError(f"unknown key: {line}")
        if key == "env":
            scenario.env.update(word.split("=", 1) for word in shlex.split(value))
        elif key == "timeout":
            scenario.timeout = float(value)
        elif key == "marks":
            scenario.marks += value.split()
    return scenario


def parameter(source: Path) -> object:
    """A scenario whose lines cannot be read still becomes a test, which then fails saying why."""
    try:
        marks = parse_scenario(source.read_text()).marks
    except ValueError:
        marks = []
    return pytest.param(source, id=source.stem, marks=[getattr(pytest.mark, m) for m in marks])


@pytest.mark.preload
@pytest.mark.parametrize("source", [parameter(source) for source in SOURCES])
def test_scenario(source: Path, run_shim: RunShim, build_dir: Path) -> None:
    scenario = parse_scenario(source.read_text())
    skip_left_out(build_dir, source)
    program = build_dir / "tests" / "scenarios" / source.stem
    assert program.exists(), f"{program} is not built"
    result = run_shim([program], env=scenario.env, timeout=scenario.timeout)
    output = f"{result.stdout[-4000:]}{result.stderr[-4000:]}"
    if result.returncode == 77:
        pytest.skip(output.strip()[-200:] or "the program says so")
    assert result.returncode == scenario.returncode, output
    for part in scenario.stderr_parts:
        assert part in result.stderr
    if scenario.returncode == 0 and not scenario.stderr_parts:
        assert "poolshim:" not in result.stderr


def test_expectations_are_parsed() -> None:
    scenario = parse_scenario(
        '// expect: SIGABRT "poolshim: double free" "0x"\n// env: A=1 B="x y"\n// marks: slow\n{}'
    )
    assert scenario.returncode == -signal.SIGABRT
    assert scenario.stderr_parts == ["poolshim: double free", "0x"]
    assert scenario.env == {"A": "1", "B": "x y"}
    assert scenario.marks == ["slow"]


@each_row("text", ["int x;", "// expect: exit", "// expect: exit 0\n// evn: A=1"])
def test_unreadable_expectations_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_scenario(text)
