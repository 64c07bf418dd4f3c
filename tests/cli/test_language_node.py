# SPDX-License-Identifier: MIT
"""Call sites of node programs: the planted line is the first row, and stacks are those of V8.

    scripts/test tests/cli/test_language_node.py
    TEST_NODES=/opt/node22:/opt/node24 scripts/test tests/cli/test_language_node.py
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import run_captured
from generated_js import BLOCK_BYTES, generate
from planted import LANGUAGE, NODE_PROGRAMS, nodes, planted_in
from running import POOLSHIM, Start, spawn
from sampling import Sample, end, sample, work
from test_language_lines import BYTES_LEAST, INTERVAL, first_row, profile_at_peak, profile_of

from poolshim_cli import pprof

__all__ = ["sample", "spawn"]

pytestmark = [pytest.mark.preload,
              pytest.mark.skipif(not nodes(), reason="no node whose lines are read")]  # fmt: skip
NODES = [pytest.param(path, id=f"node{version}") for version, path in nodes().items()]
# The kind of code of each function: the interpreter's, baseline, and what V8 finds best.
TIERS = {"interpreted": ("--jitless", 20), "baseline": ("--always-sparkplug", 2),
         "optimized": ("--stack-size=900", 400)}  # fmt: skip


@pytest.mark.parametrize("when", ["once", "hot"])
@pytest.mark.parametrize("program", NODE_PROGRAMS, ids=lambda path: path.name)
@pytest.mark.parametrize("node", NODES)
def test_the_planted_line_is_the_first_row(
    shim: Path, tmp_path: Path, node: str, program: Path, when: str
) -> None:
    wanted = planted_in(program, (0, 0))
    file, _, rest = wanted.partition(":")
    found = first_row(profile_at_peak(shim, tmp_path, [node, program, when]))
    assert found == (wanted, str(LANGUAGE / file), int(rest.split()[0]))


@pytest.mark.parametrize("node", NODES)
def test_planted_lines_of_a_process_that_runs(spawn: Start, sample: Sample, node: str) -> None:
    process = spawn([node, LANGUAGE / "every.js", "live"])
    command = sample(process, "--json", "--alloc", interval=INTERVAL)
    work(process)
    sites = {one["name"]: one for one in json.loads(end(command).stdout)["sites"]}
    programs = [one for one in NODE_PROGRAMS if one.suffix == ".js"]
    assert len(programs) > 10
    for program in programs:
        site = sites[planted_in(program, (0, 0))]
        error = site["error_bytes"]
        assert BYTES_LEAST - error <= site["nbytes"] <= 1.3 * BYTES_LEAST + error, site


def own_stacks(profile: pprof.Profile, program: Path) -> Counter[str]:
    """How often each stack allocated in take, by the functions of the program that are in it."""
    count, size = (profile.index_of(f"alloc_{what}") for what in ("objects", "space"))
    found = Counter[str]()
    for one in profile.samples:
        lines = [site.line for site in one.locations if site.line is not None]
        names = [line.function for line in lines if line.file == str(program)]
        if "take" in names[:1] and one.values[size] >= BLOCK_BYTES * one.values[count]:
            own = [line for line in lines if line.file == str(program)]
            found[" ".join(f"{line.function}:{line.number}" for line in own[1:])] += (
                one.values[count])  # fmt: skip
    return found


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("node", NODES)
def test_stacks_are_those_of_v8(shim: Path, tmp_path: Path, node: str, tier: str) -> None:
    flag, turns = TIERS[tier]
    for seed in range(3):
        program, output = tmp_path / f"random{seed}.js", tmp_path / "told.json"
        program.write_text(generate(random.Random(seed)))
        command: list[str | Path] = [node, flag, program, str(turns), output]
        found = own_stacks(profile_of(shim, tmp_path, command, 1024), program)
        told = Counter({stack: count for stack, count in json.loads(output.read_text())})
        assert told.total() > 300, seed
        assert found == told, seed


@pytest.mark.parametrize("node", NODES)
def test_collections_do_not_make_wrong_stacks(shim: Path, tmp_path: Path, node: str) -> None:
    program, output = tmp_path / "random.js", tmp_path / "told.json"
    program.write_text(generate(random.Random(9)))
    stress = ["--stress-compaction", "--gc-interval=1000"]
    command: list[str | Path] = [node, *stress, program, "60", output]
    found = own_stacks(profile_of(shim, tmp_path, command, 1024), program)
    assert found == Counter(dict(json.loads(output.read_text())))


NAMED = """{comment}
const kept = [];
function {name}() {{

    kept.push(Buffer.alloc(1000000));
}}
{padding}
{name}();
eval("function inEval() {{\\n\\n kept.push(Buffer.alloc(2000000)); }}\\ninEval();");
const cache = {{}};
cache.added = function () {{ kept.push(Buffer.alloc(3000000)); }};
cache.added();
function {long}() {{ kept.push(Buffer.alloc(4000000)); }}
{long}();
"""


@pytest.mark.parametrize("kind", ["one.js", "two bytes.mjs", "two bytes.js", "50 %25.mjs"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("node", NODES)
def test_sources_and_names(
    shim: Path, tmp_path: Path, node: str, ending: str, kind: str
) -> None:
    is_wide = kind.startswith("two")
    name, padding = "größe" if is_wide else "size", 60_000 if kind == "one.js" else 9000
    text = NAMED.format(comment="// 尺寸" if is_wide else "// size", name=name, long="f" * 300,
                        padding="\n".join(["// " + "x" * 70] * padding))  # fmt: skip
    program = tmp_path / ("größe " + kind)
    program.write_bytes(text.replace("\n", ending).encode())
    profile = profile_of(shim, tmp_path, [node, program], 1024)
    size = profile.index_of("alloc_space")
    found = set()
    for one in profile.samples:
        lines = [site.line for site in one.locations if site.line is not None]
        own = [line for line in lines if not line.file.startswith("node:")]
        if own and one.values[size] >= 1_000_000:
            found.add((own[0].file, own[0].function, own[0].number))
    lines = {function: number for file, function, number in found if file == str(program)}
    long = max(lines, key=len)
    assert lines == {name: 5, "<anonymous>": padding + 8, "cache.added": padding + 10,
                     long: padding + 12}  # fmt: skip
    assert long == "f" * 252 + "…"
    assert len(found) == len(lines), found


def test_a_report_shows_file_line_and_callers(shim: Path) -> None:
    program = LANGUAGE / "in_method.js"
    done = run_captured([POOLSHIM, "profile", "--alloc", "--interval", "16KiB", "--",
                         next(iter(nodes().values())), program])  # fmt: skip
    lines = done.stderr.splitlines()
    at = next(at for at, one in enumerate(lines) if one.endswith("call site")) + 1
    assert lines[at].endswith(planted_in(program, (0, 0))), done.stderr
    callers = [one.strip() for one in lines[at + 1].split("< ")[1:]]
    assert callers == ["in_method.js:21 step", "turns.js:22 run", "in_method.js:27 <anonymous>"]


def test_the_line_at_the_mark_is_of_the_program(shim: Path, tmp_path: Path) -> None:
    script = tmp_path / "leak.js"
    script.write_text(
        "const kept = [];\nfunction leakHere() { kept.push(Buffer.alloc(1000000, 1)); }\n"
        "for (let i = 0; i < 250; i++)\n    leakHere();\n"
    )
    records = tmp_path / "records"
    records.mkdir()
    env = {**os.environ, "LD_PRELOAD": str(shim), "POOLSHIM_FLIGHT": str(records),
           "POOLSHIM_LIMIT": "180MiB"}  # fmt: skip
    done = run_captured([next(iter(nodes().values())), script], env=env)
    assert "most from leak.js:2 leakHere < leak.js:4 <anonymous> " in done.stderr


def test_a_version_that_is_not_known_has_native_stacks(shim: Path, tmp_path: Path) -> None:
    """A library that exports what node does, of another version: no frame is taken for one."""
    source = tmp_path / "other.c"
    source.write_text(
        "int _ZN2v88internal7Version6major_E = 99, _ZN2v88internal7Version6minor_E = 0;\n"
        "int v8dbg_off_fp_function = -16, v8dbg_TaggedSize = 8, v8dbg_SmiShiftSize = 31;\n"
        "#include <stdlib.h>\nint main(void) { void *volatile block = malloc(1 << 20);"
        " return block == 0; }\n"
    )
    program = tmp_path / "other"
    subprocess.run(["cc", "-rdynamic", "-O1", "-o", program, source], check=True)
    profile = profile_of(shim, tmp_path, [program], 1024)
    assert profile.samples
    assert all(site.line is None for one in profile.samples for site in one.locations)
