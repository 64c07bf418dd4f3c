# SPDX-License-Identifier: MIT
"""Call sites of Java programs: the planted line is the first row, interpreted and compiled.

    scripts/test tests/cli/test_java_lines.py
    TEST_JAVAS=/opt/jdk-21/bin/java scripts/test tests/cli/test_java_lines.py
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import run_captured
from planted import JAVA_PROGRAMS, Java, compile_java, javas, planted_in
from running import POOLSHIM, Start, spawn
from sampling import Sample, end, sample, work
from test_language_lines import BYTES_LEAST, INTERVAL, first_row, profile_at_peak, profile_of

__all__ = ["sample", "spawn"]

pytestmark = pytest.mark.preload

MODES = {
    "mixed": (),
    "interpreted": ("-Xint",),
    "first_compiler": ("-Xcomp", "-XX:TieredStopAtLevel=1"),
    "second_compiler": ("-Xcomp", "-XX:-TieredCompilation"),
}
JAVAS = [pytest.param(one, id=f"java{one.version}") for one in javas()]
WAYS = [pytest.param(flags, id=name) for name, flags in MODES.items()]
NATIVE = ":-2 "  # in traces of Java, a method without lines
ROUNDS = "60000"
BLOCK_BYTES = 65536
# A stack has 64 frames; the innermost are native ones and those of ByteBuffer.
COMPARED = 40

Sites = dict[str, tuple[int, int]]  # bytes and their error, by name


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_java(tmp_path_factory.mktemp("classes"))


def check_planted(sites: Sites, rounds: int = 1) -> None:
    """Each planted line has the memory that it took, of one round at least."""
    for program in JAVA_PROGRAMS:
        nbytes, error = sites[planted_in(program, (0, 0))]
        assert BYTES_LEAST - error <= nbytes <= 1.3 * rounds * BYTES_LEAST + error, program


def sites_of(output: str) -> Sites:
    return {
        one["name"]: (one["nbytes"], one["error_bytes"]) for one in json.loads(output)["sites"]
    }


def test_the_planted_line_is_the_first_row(shim: Path, tmp_path: Path, classes: Path) -> None:
    assert len(JAVA_PROGRAMS) > 8
    for program in JAVA_PROGRAMS:
        command: list[str | Path] = [javas()[0].path, "-cp", classes, program.stem]
        wanted = planted_in(program, (0, 0))
        file, _, rest = wanted.partition(":")
        row = first_row(profile_at_peak(shim, tmp_path, command))
        assert row == (wanted, file, int(rest.split()[0]))


@pytest.mark.parametrize("flags", WAYS)
@pytest.mark.parametrize("java", JAVAS)
def test_planted_lines_of_each_way_to_run(
    classes: Path, java: Java, flags: tuple[str, ...]
) -> None:
    done = run_captured([POOLSHIM, "profile", "--json", "--alloc", "--interval", str(INTERVAL),
                         "--", java.path, *flags, "-cp", classes, "Every"])  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_planted(sites_of(done.stdout))


@pytest.mark.parametrize("java", JAVAS)
def test_planted_lines_of_a_process_that_runs(
    spawn: Start, sample: Sample, classes: Path, java: Java
) -> None:
    process = spawn([java.path, "-cp", classes, "Every", "live"])
    command = sample(process, "--json", "--alloc", interval=INTERVAL)
    for _ in range(2):  # a front that no thread has used yet passes 2 MiB before it samples
        work(process)
    check_planted(sites_of(end(command).stdout), 2)


def test_a_library_without_frames_of_the_machine(
    spawn: Start, sample: Sample, classes: Path
) -> None:
    """The machine is found by the thread, where nothing but a library of the program allocates."""
    process = spawn([javas()[0].path, *MODES["second_compiler"], "-Xbatch", "-cp", classes,
                     "InDeflater", "live"])  # fmt: skip
    for what in "xttx":
        work(process, what)  # compiles all that runs later
    command = sample(process, "--json", interval=INTERVAL)
    work(process)
    name = planted_in(JAVA_PROGRAMS[0].with_name("InDeflater.java"), (0, 0))
    nbytes, error = sites_of(end(command).stdout)[name]
    assert nbytes >= BYTES_LEAST - error


def test_names_that_are_not_ascii_or_long(shim: Path, tmp_path: Path, classes: Path) -> None:
    names = ["größe", "мера", "\U0001d54f尺寸", "f" * 300]
    program = tmp_path / "Names.java"
    program.write_text("public class Names {\n" + "".join(
        f"static void {name}() {{ Turns.keep(java.nio.ByteBuffer.allocateDirect(100_000)); }}\n"
        for name in names
    ) + "public static void main(String[] words) {\n"
        + "".join(f"{name}();\n" for name in names) + "}}\n")  # fmt: skip
    done = run_captured(["javac", "-encoding", "UTF-8", "--release", "11", "-cp", classes,
                         "-d", tmp_path, program])  # fmt: skip
    assert done.returncode == 0, done.stderr
    command: list[str | Path] = [javas()[0].path, "-cp", f"{tmp_path}:{classes}", "Names"]
    profile = profile_of(shim, tmp_path, command, 1024)
    found = {site.line.number: site.line.function for one in profile.samples
             for site in one.locations if site.line is not None
             and site.line.file == "Names.java"}  # fmt: skip
    assert [found[at] for at in (2, 3, 4)] == [f"Names.{name}" for name in names[:3]]
    assert found[5].startswith("…") and found[5].endswith("f" * 200)


def own_frames(frames: list[str]) -> tuple[str, ...]:
    """Frames of the program; of the others the machine leaves some out."""
    return tuple(one for one in frames[:COMPARED] if one.partition(" ")[2].startswith("Stacks"))


@pytest.mark.parametrize("flags", WAYS)
@pytest.mark.parametrize("java", JAVAS)
def test_stacks_are_those_of_the_machine(
    shim: Path, tmp_path: Path, classes: Path, java: Java, flags: tuple[str, ...]
) -> None:
    output = tmp_path / "output"
    words = " ".join((java.path, *flags, "-cp", str(classes), "Stacks", ROUNDS, ">", str(output)))
    profile = profile_of(shim, tmp_path, ["sh", "-c", f"exec {words}"], 1024)
    told, found = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for trace in output.read_text().splitlines():
        count, _, text = trace.partition(" ")
        told[own_frames([one for one in text.split("|") if NATIVE not in one])] += int(count)
    blocks, space = profile.index_of("alloc_objects"), profile.index_of("alloc_space")
    for one in profile.samples:
        lines = [site.line for site in one.locations if site.line is not None]
        named = [f"{line.file}:{line.number} {line.function}" for line in lines]
        at = next((at for at, name in enumerate(named) if name.endswith(" Stacks.take")), None)
        if at is not None and one.values[space] >= BLOCK_BYTES * one.values[blocks]:
            found[own_frames(named[at:])] += one.values[blocks]
    assert len(told) > 20
    assert found == told
