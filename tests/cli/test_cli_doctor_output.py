# SPDX-License-Identifier: MIT
"""What `poolshim doctor` prints.

    scripts/test tests/cli/test_cli_doctor_output.py
    POOLSHIM_WRITE_GOLDEN=1 scripts/test tests/cli/test_cli_doctor_output.py  # after a change
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from programs import (
    POOLSHIM,
    PRINT_MAPS,
    bare_environment,
    codes,
    compile_program,
    examine,
    folder,
    mapper,
    poolshim,
)
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")

pytestmark = pytest.mark.preload

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module", autouse=True)
def built(shim: Path) -> None:
    """The tests need the library of the build under test."""


def check_golden(name: str, text: str, **places: str | Path) -> None:
    if "the control group may have" in text:
        pytest.skip("these tests run in a container with a limit, which is noted")
    for key, value in places.items():
        text = text.replace(str(value), f"<{key}>")
    text = re.sub(r"(libpoolshim\.so)\.\d+\.\d+\.\d+", r"\1.0.0.0", text)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("POOLSHIM_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_answer_is_not_buried_and_defaults_are_shown_when_asked_for(mapper: Path) -> None:
    done = poolshim("doctor", mapper, env={"POOLSHIM_HUGE": "off"})
    lines = done.stdout.splitlines()
    assert lines[0] == "the preload takes effect in mapper"
    assert [line for line in lines if line.startswith("setting: ")] == [
        "setting: HUGE off (environment)"
    ]
    every = poolshim("doctor", "--settings", mapper).stdout
    assert every.count("(default)\n") > 10 and "setting: HARDEN 0 (default)\n" in every


def test_plain_output(folder: Path, mapper: Path, shim: Path) -> None:
    env = {"POOLSHIM_HARDNE": "1", "POOLSHIM_HUGE": "off", "MALLOC_ARENA_MAX": "1"}
    done = poolshim("doctor", mapper, env=env)
    check_golden("doctor-effect", done.stdout, folder=folder)
    program = compile_program(folder, "static", PRINT_MAPS, "-static")
    done = poolshim("doctor", program)
    check_golden("doctor-no-effect", done.stdout, folder=folder)
    quiet = poolshim("doctor", "-q", program)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (1, "", "")


@each_row("kind", ["colour", "no-colour"])
def test_output_on_a_terminal(kind: str, folder: Path) -> None:
    shutil.copy(shutil.which("true") or "/bin/true", "/tmp/poolshim-doctor-golden")
    master, slave = pty.openpty()
    env = bare_environment(COLUMNS="80", TERM="xterm", POOLSHIM_HUGE="off", POOLSHIM_HARDNE="1")
    env.pop("NO_COLOR", None)
    if kind == "no-colour":
        env["NO_COLOR"] = "1"
    try:
        words = [POOLSHIM, "doctor", "/tmp/poolshim-doctor-golden"]
        with subprocess.Popen(words, stdout=slave, stderr=slave, env=env) as process:
            os.close(slave)
            text = b""
            while process.poll() is None or text[-1:] != b"\n":
                try:
                    text += os.read(master, 4096)
                except OSError:  # the other end is closed
                    break
    finally:
        os.close(master)
        Path("/tmp/poolshim-doctor-golden").unlink()
    check_golden(f"doctor-terminal-{kind}", text.decode().replace("\r\n", "\n"))


def test_probes_that_a_mode_never_hits_are_noted(mapper: Path) -> None:
    found = examine("--", mapper, env={"POOLSHIM_HARDEN": "1"})
    assert codes(found, "note") == ["probes"] and codes(found, "fine") == ["first"]
    assert "with POOLSHIM_HARDEN" in str(found["findings"])
