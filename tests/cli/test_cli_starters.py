# SPDX-License-Identifier: MIT
"""`poolshim doctor` of commands whose business is to start another program.

    scripts/test tests/cli/test_cli_starters.py
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from programs import codes, compile_library, compile_program, examine, folder, mapper, poolshim
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.doctor import starters  # noqa: E402

pytestmark = pytest.mark.preload


@pytest.fixture(scope="module", autouse=True)
def built(shim: Path) -> None:
    """The tests need the library of the build under test."""


@pytest.fixture
def commands(tmp_path: Path, mapper: Path) -> dict[str, str]:
    """An environment whose PATH has commands of these names; they are ordinary programs here."""
    for name in ("systemctl", "service", "sudo", "docker", "ssh", "runuser", "mise", "server"):
        shutil.copy(mapper, tmp_path / name)
    for link, target in (("tool", "mise"), ("snapped", "snap")):
        shutil.copy(mapper, tmp_path / target)
        (tmp_path / link).symlink_to(target)
    shim = tmp_path / "shims" / "python"
    shim.parent.mkdir()
    shim.write_text('#!/usr/bin/env bash\nset -e\nexec "/opt/pyenv/bin/pyenv" exec "$0" "$@"\n')
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\n# exec nothing\nexec /opt/server/bin/server --home "$HOME"\n')
    for path in (shim, wrapper):
        path.chmod(0o755)
    return {"PATH": f"{tmp_path}:{shim.parent}:{os.environ['PATH']}"}


@each_row(
    ("line", "code", "parts"),
    [
        ("systemctl start redis", "started-elsewhere",
         ["systemctl starts redis through another process", "systemctl edit redis",
          "Environment=LD_PRELOAD=/"]),
        ("systemctl --user restart a.service", "started-elsewhere", ["start a.service"]),
        ("service redis start", "started-elsewhere", ["start redis", "systemctl edit redis"]),
        ("docker run -it image", "started-elsewhere", ["docker starts", "-e LD_PRELOAD="]),
        ("ssh host server", "started-elsewhere", ["ssh starts", "env LD_PRELOAD=/"]),
        ("snapped", "started-elsewhere", ["snap starts"]),
        ("env A=1 sudo -u www server", "cleared", ["sudo starts the program without LD_PRELOAD"]),
        ("timeout 5 runuser -l www -c server", "cleared", ["runuser starts"]),
    ],
)  # fmt: skip
def test_program_that_something_else_starts(
    line: str, code: str, parts: list[str], commands: dict[str, str]
) -> None:
    found = examine("--", *line.split(), env=commands)
    assert codes(found, "fatal") == [code] and codes(found, "fine") == []
    finding = next(one for one in found["findings"] if one["code"] == code)
    for part in parts:
        assert part in finding["message"] + "\n" + finding["advice"]
    first = poolshim("doctor", "--", *line.split(), env=commands).stdout.splitlines()[0]
    name = finding["message"].split()[0]
    assert first == f"the preload has no effect in what {name} starts" or name == "snap"


@each_row("line", ["systemctl status redis", "docker ps", "sudo -l", "mise list"])
def test_what_starts_nothing_is_looked_at_itself(line: str, commands: dict[str, str]) -> None:
    found = examine("--", *line.split(), env=commands)
    assert found["takes_effect"] and codes(found, "warning") == []


@each_row(
    ("words", "parts"),
    [
        (["python"], ["is a shim of pyenv, which starts another python", "$(pyenv which python)"]),
        (["tool", "x"], ["is a shim of mise", "$(mise which tool)"]),
        (["wrapper"], ["sh, which runs ", "it becomes /opt/server/bin/server"]),
        (["sh", "-c", "server | server"], ["only sh was checked", "--run"]),
        (["bash", "-ec", "server $X"], ["only bash was checked"]),
        (["sh", "script"], ["the programs that the script starts"]),
    ],
)
def test_verdict_says_that_only_the_starter_was_seen(
    words: list[str], parts: list[str], commands: dict[str, str]
) -> None:
    found = examine("--", *words, env=commands)
    assert codes(found, "warning") == ["only-starts"] and found["takes_effect"]
    finding = next(one for one in found["findings"] if one["code"] == "only-starts")
    for part in parts:
        assert part in finding["message"] + "\n" + finding["advice"]
    first = poolshim("doctor", "--", *words, env=commands).stdout.splitlines()[0]
    assert first.endswith(", which only starts other programs")


@each_row(
    "words",
    [
        ["nice", "-n", "5", "server"], ["timeout", "-k", "1s", "5", "server", "-x"],
        ["nohup", "setsid", "-w", "server"], ["stdbuf", "-o", "L", "server"],
        ["env", "A=1", "nice", "server"], ["taskset", "-c", "0", "server"],
        ["sh", "-c", "exec server -p 1"], ["bash", "-lc", "server 'a b'"],
        ["env", "-S", "A=1", "timeout", "--", "5", "server"],
    ],
)  # fmt: skip
def test_program_behind_wrappers_is_looked_at(words: list[str], commands: dict[str, str]) -> None:
    for word in words:
        if word in ("nice", "timeout", "nohup", "setsid", "stdbuf", "taskset", "bash"):
            if shutil.which(word) is None:
                pytest.skip(f"{word} is not installed")
    found = examine("--", *words, env=commands)
    assert found["takes_effect"] and Path(found["program"]).name == "server"
    assert codes(found, "warning") == []


@pytest.mark.root
def test_the_environment_that_root_keeps_with_su(commands: dict[str, str]) -> None:
    found = examine("--", "runuser", "-u", "www", "server", env=commands)
    if os.getuid() != 0:
        pytest.skip("of others the loader takes it away")
    assert codes(found, "warning") == ["only-starts"] and found["takes_effect"]


@each_row(
    ("line", "part"),
    [
        ("sudo server", "sudo poolshim run -- PROGRAM"),
        ("env A=1 nice -n 5 sudo -u www server", "sudo starts programs without LD_PRELOAD"),
        ("runuser - www -c server", "runuser starts programs without LD_PRELOAD"),
        ("docker run image", "poolshim doctor -- docker ... says what to do"),
        ("systemctl restart server", "systemctl has another process start the program"),
        ("sudo --preserve-env=LD_PRELOAD server", ""), ("sudo -l", ""), ("docker ps", ""),
        ("runuser -u www server", ""), ("server sudo x", ""), ("timeout 5 server sudo", ""),
    ],
)  # fmt: skip
def test_run_says_what_does_not_get_the_library(
    line: str, part: str, commands: dict[str, str]
) -> None:
    done = poolshim("run", "--", *line.split(), env=commands)
    assert done.returncode == 0 and "libpoolshim" in done.stdout, "it is started all the same"
    assert done.stderr.count("\n") == bool(part) and part in done.stderr
    assert poolshim("run", "--allocator", "system", *line.split(), env=commands).stderr == ""


def test_run_and_doctor_know_the_same_starters() -> None:
    text = (ROOT / "scripts" / "native" / "run_notice.c").read_text()
    rows = dict(re.findall(r'\{"([\w-]+)", "([^"]*)"\}', text))
    ours = {name: " ".join(verbs) for name, (verbs, _) in starters.ELSEWHERE.items()}
    assert {name: rows[name] for name in rows if name not in starters.CLEARING} == ours
    clearing = {name for name in rows if name in starters.CLEARING}
    assert starters.CLEARING - clearing == {"bwrap", "firejail"}, "they preserve it, or are refused"
    for name in clearing:
        is_login = name in starters.LOGIN_ONLY
        assert set(rows[name].split()) == (starters.LOGIN if is_login else set())


def test_questions_to_another_allocator_are_a_warning(folder: Path) -> None:
    """The answers are of a heap that serves nothing, unless poolshim answers, as redis' mallctl."""
    source = ("int je_mallctl(void) { return 0; } int mallctl(void) { return 0; }"
              "void *malloc(unsigned long n) { return n ? 0 : 0; }")  # fmt: skip
    library = compile_library(folder, "libanother.so", source, "-fno-builtin")
    asking = compile_program(
        folder, "asking", "int je_mallctl(void); int main(void) { return je_mallctl(); }",
        str(library), f"-Wl,-rpath,{folder}",
    )  # fmt: skip
    answered = compile_program(
        folder, "answered", "int mallctl(void); int main(void) { return mallctl(); }",
        str(library), f"-Wl,-rpath,{folder}",
    )  # fmt: skip
    assert codes(examine("--", answered), "warning") == []
    found = examine("--", asking)
    assert codes(found, "warning") == ["own-figures"] and found["takes_effect"]
    assert "queries jemalloc about its memory (je_mallctl)" in str(found["findings"])
    weak = compile_program(
        folder, "weak", "__attribute__((weak)) int mallctl(void);"
        "int main(void) { return mallctl ? mallctl() : 0; }",
    )  # fmt: skip
    assert codes(examine("--", weak), "warning") == []
