# SPDX-License-Identifier: MIT
"""An allocator that the environment preloads already: the library is put before it, and nothing is
said of a process that made no call of the library.

    scripts/test tests/cli/test_cli_preload.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from programs import OTHER_ALLOCATOR, compile_library, folder, poolshim
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import preload  # noqa: E402

pytestmark = pytest.mark.preload

SAID = "LD_PRELOAD names another allocator (other.so): libpoolshim.so"
KEEP = "kept = [bytes(3000) for _ in range(5000)]"
NO_CALL = "the command made no call of poolshim: it allocates nothing, or another allocator"


@pytest.fixture(scope="module", autouse=True)
def built(shim: Path) -> None:
    """The tests need the library of the build under test."""


@pytest.fixture(scope="module")
def other(folder: Path) -> str:
    """An allocator to preload."""
    return str(compile_library(folder, "other.so", OTHER_ALLOCATOR, "-fno-builtin"))


def test_run_says_that_it_takes_the_first_place(other: str, shim: Path) -> None:
    done = poolshim("run", "--", "printenv", "LD_PRELOAD", env={"LD_PRELOAD": other})
    assert done.stdout == f"{shim.resolve()}:{other}\n"
    assert done.stderr.startswith(f"poolshim run: {SAID}") and done.stderr.count("\n") == 1
    ordered = poolshim("run", "--", "true", env={"LD_PRELOAD": f"{shim.resolve()}:{other}"})
    assert ordered.stderr == ""
    words = ["run", "--stats=1", "--", sys.executable, "-S", "-c", KEEP]
    counted = poolshim(*words, env={"LD_PRELOAD": other})
    found = re.search(r"of malloc +([0-9]+)", counted.stderr)
    assert found is not None and int(found.group(1)) > 5000


@each_row("command", ["profile", "advise"])
def test_the_library_serves_in_spite_of_another(command: str, other: str) -> None:
    words = [command, "--json", "--", sys.executable, "-S", "-c", KEEP]
    done = poolshim(*words, env={"LD_PRELOAD": other})
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"poolshim {command}: {SAID}")
    assert "no call" not in done.stderr


@each_row("command", ["profile", "advise"])
@each_row("status", [0, 7])
def test_a_process_without_a_call_gets_no_verdict(
    command: str, status: int, other: str, shim: Path
) -> None:
    program = ["env", f"LD_PRELOAD={other}:{shim}", sys.executable, "-S", "-c"]
    program += [f"{KEEP}; import sys; sys.exit({status})"]
    done = poolshim(command, "--", *program)
    assert done.returncode == (status or 1)
    assert f"poolshim {command}: {NO_CALL}" in done.stderr


def test_entries_of_the_variable(other: str, shim: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.so"
    link.symlink_to(shim)
    for text, ordered, names in (
        ("", f"{shim}", []),
        (f"{other} {link}", f"{shim}:{other}", ["other.so"]),
        (f"{link}:{other}", f"{shim}:{other}", []),
        ("/absent.so::libm.so.6", f"{shim}:/absent.so:libm.so.6", []),
        ("$LIB/any.so", f"{shim}:$LIB/any.so", ["any.so"]),
    ):
        env = {"LD_PRELOAD": text}
        assert preload.with_first(shim, env) == ordered
        assert preload.overtaken(shim, env) == names
        done = poolshim("run", "--dry-run", "--", "true", env=env)
        for name in names:
            assert f"another allocator ({name}): " in done.stderr
