# SPDX-License-Identifier: MIT
"""The entry `poolshim`: how it starts, and how every mistake ends.

    scripts/test tests/cli/test_cli_entry.py
"""

from __future__ import annotations

import ast
import importlib.util
import os
import platform
import re
import signal
import sys
import types
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))
click = pytest.importorskip("click", reason="click is not installed: run scripts/setup")

from poolshim_cli import __main__ as entry  # noqa: E402
from poolshim_cli import command_line, errors  # noqa: E402

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

POOLSHIM = ROOT / "scripts" / "poolshim"
RESULTS = str(ROOT / "tests" / "cli" / "golden" / "compare.json")


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_version_is_that_of_the_build(shim: Path) -> None:
    found = re.search(r"project\(poolshim VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert found
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(shim.parent)}
    first, command, library = run_captured([POOLSHIM, "--version"], env=env).stdout.splitlines()
    assert first == f"poolshim {found[1]}"
    assert re.fullmatch(r"command: Python 3[\d.]+\S*, /\S+/poolshim_cli", command)
    notes = run_captured(["readelf", "-n", shim]).stdout
    [build] = re.findall(r"Build ID: (\w+)", notes)
    machine = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(platform.machine())
    assert library == f"library: {found[1]}, {machine}, build {build}, {shim}"
    assert project()["version"] == found[1]


def test_version_says_what_is_wrong_with_the_library(tmp_path: Path) -> None:
    """A build that was removed, or is none."""
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(tmp_path)}
    done = run_captured([POOLSHIM, "--version"], env=env)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.endswith(f"library: {tmp_path}/libpoolshim.so: No such file or directory\n")
    (tmp_path / "libpoolshim.so").write_bytes(b"nothing of the kind")
    done = run_captured([POOLSHIM, "--version"], env=env)
    assert done.returncode == 0 and f"{tmp_path}/libpoolshim.so" in done.stdout


def test_setup_installs_what_the_package_names() -> None:
    """Written twice, since pip reads a requirements file without building anything."""
    needed, extras = project()["dependencies"], project()["optional-dependencies"]
    assert isinstance(needed, list) and isinstance(extras, dict)
    base = (ROOT / "requirements.txt").read_text().splitlines()
    more = (ROOT / "requirements-extras.txt").read_text().splitlines()
    assert set(needed) <= set(base)
    own = more[1 : more.index("# By these, tests read what the exporter writes.")]
    assert {line for group in extras.values() for line in group} == set(own)


def test_help_names_every_subcommand() -> None:
    done = run_captured([POOLSHIM, "--help"])
    assert done.returncode == 0 and done.stderr == ""
    for path in (ROOT / "scripts" / "poolshim_cli").glob("*/command.py"):
        assert f"\n  {path.parent.name} " in done.stdout


@each_row(
    ("words", "complaint"),
    [
        (["comparison"], "poolshim: no command comparison; did you mean compare?"),
        (["docter", "true"], "poolshim: no command docter; did you mean doctor?"),
        (["ls", "-l"], "poolshim: no command ls; to run that program: poolshim run -- ls"),
        (["../tests"], "poolshim: no command ../tests; to run that program: "),
        (["qqqq"], "poolshim: no command qqqq; there are advise, compare, "),
        (["--colour"], "poolshim: no option --colour; there are --help and --version"),
        (["compare", "--run", "5"], "poolshim compare: no option --run; did you mean "
         "--runs? (the command's own options come after --: poolshim compare [OPTIONS] -- "),
        (["compare", "-r", "jq"], "poolshim compare: no option -r (the command's own options "
         "come after --: "),
        (["tune", "--round", "3"], "poolshim tune: no option --round; did you mean --rounds?"),
        (["compare", "jq", "-r", ".", "--runs", "3"], "poolshim compare: --runs comes after jq: "
         "put it before the command, or, if it is the command's own, put -- there: poolshim "
         "compare -- jq"),
        (["compare", "grep", "-q", "x"], "poolshim compare: -q comes after grep: "),
        (["tune", "grep", "--rounds=7"], "poolshim tune: --rounds=7 comes after grep: "),
    ],
)  # fmt: skip
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


def test_usage_without_a_command() -> None:
    done = run_captured([POOLSHIM])
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("usage: poolshim COMMAND ") and done.stderr.count("\n") < 24
    for name in ("run", "doctor", "compare", "profile", "trim", "tune"):
        assert f"\n  {name} " in done.stderr


def without(folder: Path, *packages: str) -> list[str | Path]:
    """The command by an interpreter that finds click and rich, but these."""
    for name in ("click", "rich", "pygments", "markdown_it", "mdurl"):
        found = importlib.util.find_spec(name)
        if name not in packages and found is not None and found.origin is not None:
            (folder / name).symlink_to(Path(found.origin).parent)
    script = (
        f"import runpy, sys; sys.path[:0] = ['', {str(folder)!r}]; sys.argv[0] = 'x'; "
        f"runpy.run_path({entry.__file__!r}, run_name='__main__')"
    )
    return [sys.executable, "-S", "-E", "-c", script]


@each_row("packages", [("click",), ("rich",), ("click", "rich")])
@each_row("name", ["compare", "tune"])
def test_missing_packages_are_named_in_one_line(
    tmp_path: Path, packages: tuple[str, ...], name: str
) -> None:
    words = without(tmp_path, *packages)
    done = run_captured([*words, name, "--", "true"])
    assert (done.returncode, done.stdout) == (125, "")
    what = " and ".join(packages)
    assert done.stderr.startswith(f"poolshim {name}: this needs the Python package")
    assert f" {what}: scripts/setup installs" in done.stderr and done.stderr.count("\n") == 1
    debian = " ".join(f"python3-{one}" for one in packages)
    assert f"pip install {' '.join(packages)}, or apt install {debian}\n" in done.stderr


@each_row(
    ("words", "shown"),
    [
        (["--help"], "\n  doctor "),
        (["--version"], "poolshim "),
        (["doctor", "--help"], "usage: poolshim doctor"),
        (["doctor", "--", "true"], "the preload takes effect in true\n"),
        (["run", "--dry-run", "--", "true"], "env LD_PRELOAD="),
    ],
)
def test_neither_package_is_needed_for(
    words: list[str], shown: str, tmp_path: Path, shim: Path
) -> None:
    """Help, run and doctor, the first commands of a user, work with the system's python3."""
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(shim.parent)}
    done = run_captured([*without(tmp_path, "click", "rich"), *words], env=env)
    assert (done.returncode, done.stderr) == (0, "") and shown in done.stdout


PRINTING = (
    ["--help"], ["--version"], ["run", "--help"], ["run", "--version"], ["run", "--settings"],
    ["run", "--dry-run", "true"], ["doctor", "--help"], ["doctor", "true"],
    ["doctor", "--json", "true"], ["doctor", "/etc/ld.so.conf.d/../../bin/true"],
    ["compare", "--help"], ["compare", "--from", RESULTS],
    ["compare", "--from", RESULTS, "--json", "-"], ["tune", "--help"],
)  # fmt: skip


@each_row("words", PRINTING)
@each_row("kind", ["full", "closed", "unread"])
def test_output_that_cannot_be_written(words: list[str], kind: str, shim: Path) -> None:
    """One line and 125, which is no answer of doctor's; silence where the reader has gone."""
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(shim.parent)}
    redirection = {"full": ">/dev/full", "closed": ">&-", "unread": ">&7"}[kind]
    reader, writer = os.pipe()
    os.close(reader)
    script = f'trap - PIPE; exec 7>&{writer}; "$@" {redirection}'
    done = run_captured(
        ["bash", "-c", script, "sh", POOLSHIM, *words], env=env, pass_fds=(writer,),
        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    )  # fmt: skip
    os.close(writer)
    if kind == "unread":
        assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
        return
    reason = "No space left on device" if kind == "full" else "Bad file descriptor"
    name = f"poolshim {words[0]}" if not words[0].startswith("-") else "poolshim"
    assert done.returncode == 125 and done.stderr == f"{name}: standard output: {reason}\n"


def test_marks_are_told_apart_where_the_encoding_has_none_of_them(shim: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "POOLSHIM_BUILD_DIR": str(shim.parent)}
    done = run_captured([POOLSHIM, "compare", "--from", RESULTS], env=env)
    assert done.returncode == 1 and done.stderr == "", "1: a column of these results failed"
    assert "0.913 +- 1.7 % v" in done.stdout and "1.060 +- 1.3 % ^" in done.stdout


def test_closed_error_stream_takes_nothing_of_the_answer(shim: Path) -> None:
    """Nor does anything that is opened later get its number."""
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(shim.parent)}
    for redirection in ("2>&-", "2>/dev/full", "<&- 2>&-"):
        done = run_captured(["sh", "-c", f'"$0" doctor true {redirection}', POOLSHIM], env=env)
        assert done.returncode == 0 and done.stdout.startswith("the preload takes effect")
        done = run_captured(["sh", "-c", f'"$0" doctor qqq {redirection}', POOLSHIM], env=env)
        assert (done.returncode, done.stdout) == (127, "")


@each_row(
    ("text", "seconds"),
    [("10s", 10), ("500ms", 0.5), ("2m", 120), ("1.5 min", 90), ("1h", 3600), ("7", 7),
     (".5", 0.5)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert command_line.Duration().convert(text, None, None) == pytest.approx(seconds)
    if text == "7":
        assert command_line.Duration("ms").convert(text, None, None) == pytest.approx(0.007)


@each_row("text", ["", "0", "10x", "-1s", "s", "1e3", "nan", "999999h", "1 2s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no time|not above zero"):
        command_line.Duration().convert(text, None, None)


@each_row(
    ("error", "status", "line"),
    [
        (KeyboardInterrupt(), 130, ""),
        (errors.BadRequest("no such thing"), 2, "poolshim fake: no such thing\n"),
        (errors.Failed("it is not so"), 1, "poolshim fake: it is not so\n"),
        (errors.OwnFailure("no launcher"), 125, "poolshim fake: no launcher\n"),
        (errors.OwnFailure("x: not found", errors.NOT_FOUND), 127, "poolshim fake: x: not found\n"),
        (click.UsageError("two\nlines"), 2, "poolshim fake: two lines\n"),
    ],
)
def test_every_end_has_its_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    error: BaseException, status: int, line: str,
) -> None:  # fmt: skip
    @click.command("fake")
    def fake() -> None:
        raise error

    monkeypatch.setattr(entry, "load", lambda name: types.SimpleNamespace(command=fake))
    monkeypatch.setattr(entry, "names", lambda: ["fake"])
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
        assert outside <= {"click", "rich", "tomli", "jinja2", "matplotlib", "numpy",
                           "pytest"}, path  # fmt: skip


def test_extras_are_loaded_where_they_are_used() -> None:
    """The base installation has click and rich: every subcommand starts with these."""
    names = [path.parent.name for path in (ROOT / "scripts/poolshim_cli").glob("*/command.py")]
    lines = [f"import poolshim_cli.{name}.command" for name in sorted(names)]
    lines += ["import sys", "print(*{'numpy', 'matplotlib', 'jinja2'}.intersection(sys.modules))"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = run_captured([sys.executable, "-c", "\n".join(lines)], env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
