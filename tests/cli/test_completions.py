# SPDX-License-Identifier: MIT
"""The completions of bash, zsh and fish offer what the command takes.

    scripts/test tests/cli/test_completions.py
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from table import each_row

TIMEOUT_S = 60 * SLOWNESS
CASES = [  # words before the cursor, what must be among the offers
    ("run --hard", "--harden"),
    ("tune --held", "--held-out"),
    ("doc", "doctor"),
    ("run --huge hug", "hugetlb"),
    ("compare --html {folder}/rep", "report.html"),
    ("compare --cwd {folder}/fol", "folder"),
    ("run --harden 2 -- poolshim-test-pro", "poolshim-test-program"),
    ("doctor poolshim-test-pro", "poolshim-test-program"),
]
BASH = """
source "$1"
compopt() { :; }
shift
COMP_WORDS=(poolshim "$@") COMP_CWORD=$#
_poolshim
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The completions, as the build makes them."""
    folder = tmp_path_factory.mktemp("made")
    made = run_captured([sys.executable, ROOT / "scripts" / "manuals" / "make_manuals.py", folder])
    assert made.returncode == 0, made.stderr
    return folder / "completions"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file, a folder and a program that is on the path."""
    (tmp_path / "report.html").touch()
    (tmp_path / "folder").mkdir()
    program = tmp_path / "poolshim-test-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "poolshim").symlink_to(ROOT / "scripts" / "poolshim")
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{tmp_path}:{before}"
    yield tmp_path
    os.environ["PATH"] = before


def need(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return path


def bash_offers(scripts: Path, *words: str) -> list[str]:
    command = [need("bash"), "-c", BASH, "bash", scripts / "poolshim.bash", *words]
    result = run_captured(command)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


@each_row(("words", "wanted"), CASES)
def test_bash(scripts: Path, place: Path, words: str, wanted: str) -> None:
    offers = bash_offers(scripts, *words.format(folder=place).split())
    assert wanted in [Path(offer).name for offer in offers]


def test_bash_offers_nothing_where_nothing_is_known(scripts: Path) -> None:
    for words in (["run", "--guard-slots", ""], ["no-such-command", "-"], ["trim", "1"]):
        assert bash_offers(scripts, *words) == [""]


@each_row(("words", "wanted"), CASES)
def test_fish(scripts: Path, place: Path, words: str, wanted: str) -> None:
    line = f"poolshim {words.format(folder=place)}"
    script = f"source {scripts}/poolshim.fish; complete -C '{line}'"
    result = run_captured([need("fish"), "--no-config", "-c", script], cwd=place)
    assert result.stderr == ""
    offers = [offer.partition("\t")[0].rstrip("/") for offer in result.stdout.splitlines()]
    assert wanted in [Path(offer).name for offer in offers]


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, *command: str) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(command[0], command)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Reads until the shell has printed the text, since the last time."""
        while text not in self.seen:
            if not select.select([self.master], [], [], TIMEOUT_S)[0]:
                raise AssertionError(f"no {text!r} in {self.seen!r}")
            self.seen += os.read(self.master, 4096).decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def send(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> None:
        os.close(self.master)
        os.waitpid(self.pid, 0)


@each_row(("words", "wanted"), CASES)
def test_zsh(scripts: Path, place: Path, words: str, wanted: str) -> None:
    terminal = Terminal(need("zsh"), "-f", "-i")
    terminal.send(f"PS1= COLUMNS=1000 fpath=({scripts} $fpath); autoload -Uz compinit\n")
    terminal.send("compinit -D -u; print 're''ady'\n")
    terminal.wait_for("ready")
    # Completes, then goes to the start of the line and has it printed, word by word.
    terminal.send(f"poolshim {words.format(folder=place)}\t\x01print -rl -- offers: \n")
    terminal.wait_for("offers:\r\npoolshim\r\n")
    terminal.wait_for(wanted)
    terminal.send("exit\n")
    terminal.close()
