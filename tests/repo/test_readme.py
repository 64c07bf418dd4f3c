# SPDX-License-Identifier: MIT
"""The README and the page of figures: pictures are of stored results, commands exist.

    scripts/test tests/repo/test_readme.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from conftest import ROOT, load_script, run_captured
from table import each_row

TEXT = (ROOT / "README.md").read_text()
FIGURES = " ".join((ROOT / "docs" / "numbers.md").read_text().split())
LIMITS = " ".join((ROOT / "docs" / "limits.md").read_text().split())
OVERVIEW = ROOT / "scripts" / "dev" / "gen-overview"
COMMAND = ROOT / "scripts" / "poolshim"


def test_first_commands_work_wherever_the_library_is(build_dir: Path, tmp_path: Path) -> None:
    """No system folder has it here."""
    for name in ("app.py", "batch.py"):
        (tmp_path / name).write_text("print('libpoolshim' in open('/proc/self/maps').read())")
    block = re.search(r"## Quick start\n\n```sh\n(.*?)```", TEXT, re.DOTALL)
    assert block
    lines = [line.partition("#")[0].strip() for line in block[1].splitlines()]
    why, run, compare = lines
    env = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    env.pop("LD_PRELOAD", None)
    done = run_captured(["sh", "-c", run], env=env, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("True\n", "")
    few = compare.replace(" -- ", " --runs 1 --allocators glibc,poolshim -- ")
    done = run_captured(["sh", "-c", few], env=env, cwd=tmp_path)
    assert done.returncode == 0 and "glibc" in done.stdout, done.stderr
    why = why.replace("app.py", "--seconds 0.2 $!")
    shell = f"python3 -c 'import time; time.sleep(60)' & {why}"
    done = run_captured(["sh", "-c", f"{shell}; kill $!"], env=env, cwd=tmp_path)
    assert done.returncode == 0 and "verdict:" in done.stdout, done.stderr


def test_figures_are_those_of_the_measurements() -> None:
    """Rounded, without marks that a reader would see."""
    known = load_script("gen-docs").read_figures()[0]
    rows = {"poolshim": "poolshim", "Google's tcmalloc": "tcmalloc_percpu", "jemalloc": "jemalloc",
            "mimalloc": "mimalloc"}  # fmt: skip
    for title, name in rows.items():
        cells = [f"{float(known[f'threaded.means.{name}.{column}']):.2f}"
                 for column in ("mean", "at_rest", "cpu")]  # fmt: skip
        assert f"| {title} | {' | '.join(cells)} |" in TEXT
    assert f"{known['attacks.count']} kinds" in TEXT
    assert "<!--" not in TEXT


def test_the_demo_is_what_was_recorded() -> None:
    demo = ROOT / "scripts" / "dev" / "gen-demo"
    result = run_captured([sys.executable, demo, "--check"])
    assert result.returncode == 0, result.stderr
    shown = [text for _, text in load_script("gen-demo").lines_of(
        (ROOT / "docs" / "pictures" / "demo.cast").read_text())]  # fmt: skip
    resident = [float(found[1]) for line in shown
                if (found := re.search(r"([\d.]+) MiB resident, \d+ thread", line))]  # fmt: skip
    alternative = re.search(
        r"!\[.*? (\d+) of the (\d+) MiB .*?=2 it takes (\d+) MiB, on poolshim (\d+) MiB\.\]", TEXT
    )
    free = re.search(r"^ +([\d.]+) .* free memory retained by malloc", "\n".join(shown), re.M)
    assert alternative and free
    assert list(map(int, alternative.groups())) == [round(float(free[1])), *map(round, resident)]
    caption = re.search(
        r"^(\d+) MiB remain resident on glibc, (\d+) with .*, (\d+) on poolshim", TEXT, re.M
    )
    assert caption and list(map(int, caption.groups())) == list(map(round, resident))


def picture_of_compare_is_what_the_named_command_prints(build_dir: Path) -> None:
    """In a terminal that a narrow screen can show."""
    answers = load_script("gen-answers")
    manual = (ROOT / "docs" / "command.md").read_text()
    (block,) = (text for name, text in answers.MARKED.findall(manual) if name == "compare")
    command, *lines = block.splitlines()
    assert f"`{command.removeprefix('$ ')}`" in FIGURES
    env = {**os.environ, "COLUMNS": "56", "NO_COLOR": "1"}
    printed = run_captured([COMMAND, *command.split()[2:]], env=env, cwd=ROOT)
    assert printed.returncode == 0, printed.stderr
    assert len(lines) > 10
    assert lines == [line.rstrip() for line in printed.stdout.splitlines()][: len(lines)]
    about = json.loads((ROOT / command.split()[-1]).read_text())["about"]
    assert f"measurement of version {about['versions']['poolshim']}:" in FIGURES


def subcommands_and_options_exist(build_dir: Path) -> None:
    used = re.findall(r"(?:`poolshim |\[`)([a-z]+)((?: --[\w-]+)*)", TEXT)
    helps = {name: run_captured([COMMAND, name, "--help"]).stdout for name, _ in used}
    assert {name for name, _ in used} >= {"why", "run", "profile", "gate", "doctor", "advise"}
    for name, options in used:
        assert helps[name], name
        missing = [word for word in options.split() if word not in helps[name]]
        assert name == "run" or not missing, (name, missing)


@each_row(
    "check",
    [
        picture_of_compare_is_what_the_named_command_prints,
        subcommands_and_options_exist,
    ],
)
def test_commands(build_dir: Path, check: Callable[[Path], None]) -> None:
    check(build_dir)


def picture_is_that_of_the_results() -> None:
    result = run_captured([sys.executable, OVERVIEW, "--check"])
    assert result.returncode == 0, result.stderr


def what_is_said_of_the_picture_holds() -> None:
    overview = load_script("gen-overview")
    found = overview.read_real()
    means = {name: overview.mean(points) for name, points in found.items()}
    said = "There poolshim takes the least CPU time on average, {:.2f} of glibc's, and only glibc"
    assert said.format(means["poolshim"][1]) + " less memory." in FIGURES
    assert min(means, key=lambda name: means[name][1]) == "poolshim"
    assert [n for n in means if means[n][0] < means["poolshim"][0]] == ["glibc"]
    saved = {one: 1 - found["glibc"][one][0] / found["poolshim"][one][0] for one in found["glibc"]}
    more = {one: round(100 * share) for one, share in saved.items() if round(100 * share) > 0}
    assert "On seven of the [nine programs]" in LIMITS and len(more) == 7
    assert f"by {min(more.values())} to {max(more.values())} % (perl)" in LIMITS
    assert f"take {min(more.values())} to {max(more.values())} % more memory than" in TEXT
    assert max(more, key=more.__getitem__) == "perl"
    assert all(len(points) == 9 for points in found.values()) and "[Nine programs]" in FIGURES


def what_is_said_of_threaded_programs_holds() -> None:
    overview = load_script("gen-overview")
    found = overview.read_threaded()
    means = {name: overview.mean(points) for name, points in found.items()}
    assert "poolshim takes the least memory on average" in FIGURES
    assert min(means, key=lambda name: means[name][0]) == "poolshim"
    assert all(len(points) == 7 for points in found.values()) and "Seven [threaded" in FIGURES
    ours, best = found["poolshim"]["pool"], found["tcmalloc-percpu"]["pool"]
    assert f"it takes {ours[1] / best[1]:.1f} times the CPU time of Google's" in LIMITS
    assert "and about as much memory" in LIMITS and 0.9 < ours[0] / best[0] < 1.1


@each_row(
    "check",
    [
        picture_is_that_of_the_results,
        what_is_said_of_the_picture_holds,
        what_is_said_of_threaded_programs_holds,
    ],
)
def test_pictures(check: Callable[[], None]) -> None:
    check()


def test_an_outdated_picture_is_found(tmp_path: Path) -> None:
    """In a copy in which one result has changed."""
    tree = tmp_path / "tree"
    for name in ("bench/results", "docs/pictures", "bench/harness", "scripts/poolshim_cli"):
        shutil.copytree(ROOT / name, tree / name)
    (tree / "scripts" / "dev").mkdir(parents=True)
    script = Path(shutil.copy(OVERVIEW, tree / "scripts" / "dev"))
    shutil.copy(OVERVIEW.with_name("made_files.py"), script.parent)
    shutil.copy(ROOT / "bench" / "servers.toml", tree / "bench")
    assert run_captured([sys.executable, script, "--check"]).returncode == 0
    result = tree / "bench" / "results" / "real" / "jq.json"
    result.write_text(re.sub(r'"peak_rss_kib": (\d)', r'"peak_rss_kib": 9\1', result.read_text()))
    changed = run_captured([sys.executable, script, "--check"])
    assert changed.returncode == 1 and "run scripts/dev/gen-overview" in changed.stderr
