# SPDX-License-Identifier: MIT
"""Call sites of Python and Ruby programs: the planted line is the first row.

    scripts/test tests/cli/test_language_lines.py
    TEST_PYTHONS=/opt/python3.13/bin/python3 scripts/test tests/cli/test_language_lines.py
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from planted import (
    LANGUAGE,
    PROGRAMS,
    RUBY_PROGRAMS,
    Python,
    interpreters,
    planted_in,
    ruby,
)
from running import POOLSHIM, Start, spawn
from sampling import Sample, end, sample, work

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof, pprof_write, symbols  # noqa: E402
from poolshim_cli.folds import Folds  # noqa: E402
from poolshim_cli.profile.sites import rows_of  # noqa: E402

__all__ = ["sample", "spawn"]

pytestmark = pytest.mark.preload

BYTES_LEAST = 150 * 100_000  # of a planted line
INTERVAL = 16 << 10
PYTHONS = [pytest.param(one, id="python{}.{}".format(*one.version)) for one in interpreters()]


def profile_of(
    shim: Path, folder: Path, command: list[str | Path], interval: int, **more: str
) -> pprof.Profile:
    """The profile that a command leaves."""
    path = folder / "profile.pb.gz"
    env = {**os.environ, "LD_PRELOAD": str(shim), "PYTHONDONTWRITEBYTECODE": "1", **more}
    env |= {"POOLSHIM_PROFILE": str(path), "POOLSHIM_PROFILE_INTERVAL": str(interval)}
    done = run_captured(command, env=env)
    assert done.returncode == 0, done.stderr
    return pprof.read(path)


def profile_at_peak(shim: Path, folder: Path, command: list[str | Path]) -> pprof.Profile:
    """The profile of the moment with most live memory: what the program keeps, not what it has
    allocated to compile and import its modules."""
    return profile_of(shim, folder, command, INTERVAL, POOLSHIM_PROFILE_PEAK="1")


def first_row(profile: pprof.Profile) -> tuple[str, str, int]:
    """Name, file and line; without names of native functions, which it does not need."""
    row = rows_of(profile, symbols.Symbols(), "inuse", Folds())[0]
    return row.name, row.file, row.line


def wrong_rows(
    shim: Path, folder: Path, interpreter: str, programs: list[Path], version: tuple[int, int]
) -> dict[str, tuple[str, str, int]]:
    """First rows that are not of the planted line, by program."""
    wrong = {}
    for program in programs:
        found = first_row(profile_at_peak(shim, folder, [interpreter, program]))
        wanted = planted_in(program, version)
        file, _, rest = wanted.partition(":")
        if found != (wanted, str(LANGUAGE / file), int(rest.split()[0])):
            wrong[program.name] = found
    return wrong


@pytest.mark.parametrize("python", PYTHONS)
def test_the_planted_line_is_the_first_row(shim: Path, tmp_path: Path, python: Python) -> None:
    assert not wrong_rows(shim, tmp_path, python.path, PROGRAMS, python.version)


def test_the_planted_line_of_ruby_is_the_first_row(shim: Path, tmp_path: Path) -> None:
    assert len(RUBY_PROGRAMS) > 5
    assert not wrong_rows(shim, tmp_path, ruby(), RUBY_PROGRAMS, (0, 0))


def test_the_planted_line_of_a_ruby_that_runs(spawn: Start, sample: Sample) -> None:
    program = LANGUAGE / "in_thread.rb"
    process = spawn([ruby(), program, "live"])
    command = sample(process, "--json", interval=INTERVAL)
    work(process)
    site = json.loads(end(command).stdout)["sites"][0]
    assert site["name"] == planted_in(program, (0, 0))
    assert site["nbytes"] >= BYTES_LEAST - site["error_bytes"]


@pytest.mark.parametrize("python", PYTHONS)
def test_planted_lines_of_a_process_that_runs(
    spawn: Start, sample: Sample, python: Python
) -> None:
    process = spawn([python.path, LANGUAGE / "every.py", "live"], PYTHONMALLOC="")
    command = sample(process, "--json", "--alloc", interval=INTERVAL)
    work(process)
    sites = {one["name"]: one for one in json.loads(end(command).stdout)["sites"]}
    for program in PROGRAMS:
        site = sites[planted_in(program, python.version)]
        error = site["error_bytes"]
        assert BYTES_LEAST - error <= site["nbytes"] <= 1.3 * BYTES_LEAST + error, site


def test_a_report_shows_file_line_and_callers(shim: Path) -> None:
    program = LANGUAGE / "in_method.py"
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_captured([POOLSHIM, "profile", "--alloc", "--interval", "16KiB", "--",
                         interpreters()[0].path, program], env=env)  # fmt: skip
    lines = done.stderr.splitlines()
    at = next(at for at, one in enumerate(lines) if one.endswith("call site")) + 1
    name = planted_in(program, interpreters()[0].version)
    assert lines[at].endswith(name), done.stderr
    assert lines[at + 1].split("< ")[1:] == [
        "in_method.py:21 step ", "turns.py:30 run ", "in_method.py:25 <module>"]  # fmt: skip


def test_explain_names_the_line(spawn: Start) -> None:
    process = spawn([interpreters()[0].path, LANGUAGE / "in_function.py", "live"])
    command = subprocess.Popen(
        [POOLSHIM, "explain", "--json", "--pid", str(process.pid),
         "--seconds", str(min(3 * SLOWNESS, 30))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while command.poll() is None:
        work(process)
        time.sleep(0.1)  # what it allocates lives
    output, errors = command.communicate()
    assert command.returncode == 0, errors
    names = [one["name"] for one in json.loads(output)["sites"]]
    assert names[0] == planted_in(LANGUAGE / "in_function.py", interpreters()[0].version)


# Each block is allocated while __index__ of the same instruction has told its caller's line.
LINES = """
import sys
from collections import Counter
told = Counter()
kept = []
class Size:
    def __index__(self):
        told[sys._getframe(1).f_lineno] += 1
        return 65536
size = Size()
def keep(*blocks):
    kept.extend(blocks)
    return len(blocks)
def work():
"""
FORMS = (
    "keep(bytearray(size))",
    "keep(\n        bytearray(size),\n\n        bytearray(size))",
    "for at in range(2):\n        keep(bytearray(size), at)",
    "keep(*[\n        bytearray(\n            size) for one in range(3)\n        if one])",
    "if keep(1) == 1:\n\n        keep(bytearray(size))\n    else:\n        keep(2)",
    "try:\n        keep(bytearray(size), 1 / 0)\n    except ArithmeticError:\n        "
    "keep(bytearray(size))",
    "at = 0\n    while at < 2:\n        at += 1\n\n\n        keep(bytearray(size))",
    "keep(" + "\n" * 200 + "        bytearray(size))",
    "(keep(bytearray(size)),\n     keep(bytearray(size)),\n     keep)[0]",
)


@pytest.mark.parametrize("python", PYTHONS)
def test_lines_are_those_of_the_interpreter(shim: Path, tmp_path: Path, python: Python) -> None:
    chance = random.Random(python.version[1])
    body = "".join("\n" * chance.randrange(3) + f"    {chance.choice(FORMS)}\n" for _ in range(300))
    program = tmp_path / "lines.py"
    program.write_text(f"{LINES}{body}work()\nfor one in told.items():\n    print(*one)\n")
    output = tmp_path / "output"
    profile = profile_of(shim, tmp_path, ["sh", "-c", f"{python.path} {program} > {output}"], 1024)
    told = Counter(dict(tuple(map(int, one.split())) for one in output.read_text().splitlines()))
    index, found = profile.index_of("alloc_objects"), Counter[int]()
    blocks = profile.index_of("alloc_space")
    for one in profile.samples:
        line = next((site.line for site in one.locations if site.line is not None), None)
        if line is not None and line.file == str(program) and one.values[blocks] >= 65536:
            found[line.number] += one.values[index]
    assert told.total() > 400
    assert {line: found[line] for line in told} == dict(told)


def test_names_that_are_not_ascii_or_long(shim: Path, tmp_path: Path) -> None:
    long_name, folder = "f" * 300, tmp_path / ("d" * 200) / ("e" * 200)
    folder.mkdir(parents=True)
    names = ["größe", "мера", "ölmaß_𝕏".replace("𝕏", "X"), "尺寸", long_name]
    program = folder / "größe_尺寸.py"
    program.write_text("kept = []\n" + "".join(
        f"def {name}():\n    kept.append(bytearray(1000000))\n{name}()\n" for name in names
    ))  # fmt: skip
    profile = profile_of(shim, tmp_path, [interpreters()[0].path, program], INTERVAL)
    found = {site.line.function: site.line for one in profile.samples for site in one.locations[:9]
             if site.line is not None and site.line.file.endswith("/größe_尺寸.py")}  # fmt: skip
    shown = [*names[:-1], found and max(found, key=len)]
    assert all(name in found and found[name].number == 3 * at + 3
               for at, name in enumerate(shown)), found  # fmt: skip
    assert shown[-1].startswith("f" * 200) and shown[-1].endswith("…")
    assert all(one.file.startswith("…") for one in found.values())


def test_lines_survive_a_file_of_the_command(shim: Path, tmp_path: Path) -> None:
    program = LANGUAGE / "in_generator.py"
    before = profile_at_peak(shim, tmp_path, [interpreters()[0].path, program])
    after = pprof.parse(pprof_write.encode(before, symbols.Symbols()))
    assert first_row(after) == first_row(before)
    assert [one.locations for one in after.samples] == [one.locations for one in before.samples]
