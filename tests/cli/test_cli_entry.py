# SPDX-License-Identifier: MIT
"""The entry `poolshim`: how it starts, and how every mistake ends.

    scripts/test tests/cli/test_cli_entry.py
"""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

sys.path.insert(0, str(ROOT / "scripts"))
click = pytest.importorskip("click", reason="click is not installed: run scripts/setup")

from poolshim_cli import __main__ as entry  # noqa: E402
from poolshim_cli import errors  # noqa: E402

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

POOLSHIM = ROOT / "scripts" / "poolshim"


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_version_is_that_of_the_build() -> None:
    found = re.search(r"project\(poolshim VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert found
    assert run_captured([POOLSHIM, "--version"]).stdout == f"poolshim {found[1]}\n"
    assert project()["version"] == found[1]


def test_setup_installs_what_the_package_names() -> None:
    """Written twice, since pip reads a requirements file without building anything."""
    needed, extras = project()["dependencies"], project()["optional-dependencies"]
    assert isinstance(needed, list) and isinstance(extras, dict)
    base = (ROOT / "requirements.txt").read_text().splitlines()
    more = (ROOT / "requirements-extras.txt").read_text().splitlines()
    assert set(needed) <= set(base)
    assert {line for group in extras.values() for line in group} == set(more[1:])


def test_help_names_every_subcommand() -> None:
    done = run_captured([POOLSHIM, "--help"])
    assert done.returncode == 0 and done.stderr == ""
    for path in (ROOT / "scripts" / "poolshim_cli").glob("*/command.py"):
        assert f"\n  {path.parent.name} " in done.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["comparison"], "poolshim: No such command 'comparison'."),
        (["../tests"], "poolshim: No such command '../tests'."),
        (["--colour"], "poolshim: No such option"),
        ([], "poolshim: Missing command."),
    ],
)
def test_a_mistake_is_one_line(words: list[str], complaint: str) -> None:
    done = run_captured([POOLSHIM, *words])
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(complaint) and done.stderr.count("\n") == 1


def test_works_through_a_link_and_from_elsewhere(tmp_path: Path) -> None:
    """Nor does it load what lies in the folder where it is started."""
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong click')")
    (tmp_path / "poolshim").symlink_to(POOLSHIM)
    done = run_captured([tmp_path / "poolshim", "--version"], cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("poolshim ")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert run_captured(["poolshim", "--version"], cwd="/", env=env).stdout == done.stdout


def test_python_without_click_is_told() -> None:
    done = run_captured([sys.executable, "-S", "-E", entry.__file__, "--help"])
    assert done.returncode == 125
    assert done.stderr == "poolshim: this needs the Python packages click and rich\n"


def test_reader_that_has_seen_enough_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [POOLSHIM, "--help"], stdout=pipe, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (KeyboardInterrupt(), 130, ""),
        (errors.BadRequest("no such thing"), 2, "poolshim fake: no such thing\n"),
        (errors.Failed("it is not so"), 1, "poolshim fake: it is not so\n"),
        (errors.OwnFailure("no launcher"), 125, "poolshim fake: no launcher\n"),
        (errors.OwnFailure("x: not found", errors.NOT_FOUND), 127, "poolshim fake: x: not found\n"),
        (click.UsageError("two\nlines"), 2, "poolshim fake: two lines\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_end_has_its_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    error: BaseException, status: int, line: str,
) -> None:  # fmt: skip
    @click.command("fake")
    def fake() -> None:
        raise error

    monkeypatch.setattr(entry.Subcommands, "get_command", lambda self, context, name: fake)
    monkeypatch.setattr(entry.Subcommands, "list_commands", lambda self, context: ["fake"])
    assert entry.attempt(["fake"]) == status
    assert capsys.readouterr().err == line


def test_missing_extra_is_named() -> None:
    with pytest.raises(errors.OwnFailure, match=r"no_such_package.*\(the extra plot\)") as caught:
        errors.need("no_such_package.inner", "plot")
    assert caught.value.status == 125
    assert errors.need("json", "plot").__name__ == "json"


def imports_of(path: Path) -> set[str]:
    """The first words of what a module imports from outside its package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def test_package_needs_nothing_of_the_checkout() -> None:
    """bench/ and tests/ are above it, and are not installed with it."""
    for path in (ROOT / "scripts" / "poolshim_cli").rglob("*.py"):
        outside = imports_of(path) - set(sys.stdlib_module_names) - {"poolshim_cli"}
        assert outside <= {"click", "rich", "tomli", "jinja2", "matplotlib", "numpy"}, path


def test_extras_are_loaded_where_they_are_used() -> None:
    """The base installation has click and rich: every subcommand starts with these."""
    names = [path.parent.name for path in (ROOT / "scripts/poolshim_cli").glob("*/command.py")]
    lines = [f"import poolshim_cli.{name}.command" for name in sorted(names)]
    lines += ["import sys", "print(*{'numpy', 'matplotlib', 'jinja2'}.intersection(sys.modules))"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = run_captured([sys.executable, "-c", "\n".join(lines)], env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
