# SPDX-License-Identifier: MIT
"""The programs of docs/guides/ show with and without poolshim what the guides say of them.

    scripts/test tests/programs/test_guide_programs.py

Resident memory after the load, as scripts/bench --servers measures it, in one run of half the work
each; bounds are wider than the measurements. A program that is not installed is skipped.
"""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest
from conftest import ROOT, RunShim
from under_shim import need

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")

from harness.server_cases import Server, read_servers  # noqa: E402
from harness.server_figures import ServerRun  # noqa: E402
from harness.server_runs import ServerRunner  # noqa: E402
from poolshim_cli.allocators import Allocator  # noqa: E402

pytestmark = [pytest.mark.preload, pytest.mark.slow]

SERVERS = {server.name: server for server in read_servers().servers}
SCALE, REST_MS, TIMEOUT_S = 0.5, 2000.0, 120.0
# Resident memory after the load, at most, as a share of that on glibc.
LESS = {"ruby": 0.75, "python": 0.75, "python-malloc": 0.7, "node": 0.75, "java": 0.75}
BY_DAY = ("python",)  # with redis; the others take a minute
# As large as on glibc, within this.
SAME = {"mariadb": 1.15, "postgresql": 1.4}
TABLE = re.compile(r"<!-- begin: memory of ([\w-]+) -->\n\n(.*?)\n\n", re.DOTALL)


@pytest.fixture
def runner(build_dir: Path, shim: Path, tmp_path: Path) -> ServerRunner:
    return ServerRunner(build_dir, [shim.resolve()], TIMEOUT_S, SCALE, tmp_path, REST_MS)


def measure(runner: ServerRunner, name: str, library: Path | None) -> ServerRun:
    server: Server = SERVERS[name]
    lack = server.lacks()
    if lack is not None:
        pytest.skip(f"{lack} is not installed: apt-get install {server.package}")
    label = "glibc" if library is None else "poolshim"
    run, _ = runner.run(server, Allocator(label, library and library.resolve()), 0)
    return run


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly]) for name in LESS
])  # fmt: skip
def test_less_stays_after_the_load(name: str, runner: ServerRunner, shim: Path) -> None:
    without, within = measure(runner, name, None), measure(runner, name, shim)
    assert within.rest <= LESS[name] * without.rest, (without, within)


@pytest.mark.nightly
@pytest.mark.parametrize("name", SAME)
def test_a_program_that_gains_little_is_no_larger(
    name: str, runner: ServerRunner, shim: Path
) -> None:
    without, within = measure(runner, name, None), measure(runner, name, shim)
    assert within.peak <= SAME[name] * without.peak, (without, within)


def test_redis_returns_what_it_flushed(runner: ServerRunner, shim: Path) -> None:
    run = measure(runner, "redis-flushall", shim)
    assert run.rest <= 0.3 * run.peak, run


def test_requests_of_php_do_not_use_malloc(runner: ServerRunner, shim: Path) -> None:
    """So the guide says that nothing is gained: as much memory is resident as with glibc."""
    without, within = measure(runner, "php", None), measure(runner, "php", shim)
    assert 0.85 * without.rest <= within.rest <= 1.15 * without.rest


def test_old_php_ends_where_an_extension_comes_from_a_file(run_shim: RunShim) -> None:
    """The warning of the guide. If this fails, it has to change."""
    need("php")
    script = 'echo PHP_VERSION_ID, " ", extension_loaded("pdo") ? "pdo" : "";'
    plain = run_shim(["php", "-r", script], preload=False)
    assert plain.returncode == 0, plain.stderr
    version, _, extension = plain.stdout.partition(" ")
    if int(version) >= 80500 or not extension:
        pytest.skip(f"PHP {version}, {extension or 'without the extension pdo'}")
    assert run_shim(["php", "-r", script]).returncode in (-signal.SIGSEGV, -signal.SIGABRT)
    assert run_shim(["php", "-n", "-r", "echo 1;"]).stdout == "1"


# ---- the guides themselves ----


def tables() -> dict[str, dict[str, list[float]]]:
    """Program -> row -> MiB of each column, of all guides."""
    found: dict[str, dict[str, list[float]]] = {}
    for path in sorted((ROOT / "docs" / "guides").glob("*.md")):
        for name, text in TABLE.findall(path.read_text()):
            lines = [line.strip("|").split(" | ") for line in text.splitlines()]
            assert lines[0][1:3] == ["glibc", "jemalloc"], name
            found[name] = {row[0].strip(): [float(cell) for cell in row[1:]] for row in lines[2:]}
    return found


def test_every_program_of_a_guide_is_run_here() -> None:
    named = set(tables())
    assert named == {*LESS, *SAME, "php", "php-malloc", "redis-flushall"}
    assert {server.name for server in SERVERS.values() if server.group == "guide"} <= named


def test_what_is_measured_here_is_what_the_guides_say() -> None:
    """The bounds above, by the stored figures: glibc is the first column, poolshim the fourth."""
    for name, rows in tables().items():
        rest, peak = rows["3 s after the load"], rows["peak"]
        if name in LESS:
            assert rest[3] <= LESS[name] * rest[0], name
        elif name in SAME:
            assert peak[3] <= SAME[name] * peak[0], name
    assert "**As much as on glibc**" in (ROOT / "docs/guides/databases.md").read_text()
    mean = tables()["postgresql"]["mean under load"]
    assert 0.95 < mean[3] / mean[0] < 1.05 and mean[3] < min(mean[1:3])
    stays = tables()["php-malloc"]["3 s after the load"]
    assert stays[4] < stays[0] < stays[3]  # with the background thread, glibc, without
