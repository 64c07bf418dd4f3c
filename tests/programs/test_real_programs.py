# SPDX-License-Identifier: MIT
"""Real programs print and write the same under the shim as without it, and the shim served them.

    scripts/test tests/programs/test_real_programs.py
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, RunShim
from under_shim import RealProgram, need

pytestmark = pytest.mark.preload

PROGRAMS = ROOT / "tests" / "programs" / "inputs"


@pytest.fixture
def program(run_shim: RunShim, tmp_path: Path) -> RealProgram:
    return RealProgram(run_shim, tmp_path)


def source(name: str) -> dict[str, str]:
    """One of the inputs in tests/programs/inputs/, as a file of the work folder."""
    return {name: (PROGRAMS / name).read_text()}


def words(count: int) -> str:
    """Lines in no order, some of them equal, some long."""
    value, lines = 1, []
    for _ in range(count):
        value = value * 6364136223846793005 % 2**64 + 1442695040888963407
        lines.append(f"{value >> 40:x} " + "word " * (value >> 60) + str(value >> 52 & 255))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("own_allocator", ["pymalloc", "malloc"])
def test_python(program: RealProgram, own_allocator: str) -> None:
    need("python3")
    output = program.compare(
        ["/usr/bin/env", "python3", "work.py"], ["python3"], source("work.py"),
        env={"PYTHONMALLOC": own_allocator},
    )  # fmt: skip
    assert "processes: " in output and "threads: " in output


def test_perl(program: RealProgram) -> None:
    need("perl")
    output = program.compare(["perl", "work.pl"], ["perl"], source("work.pl"))
    assert "children: 4" in output


def test_git(program: RealProgram) -> None:
    need("git", "bash")
    output = program.compare(["bash", "git.sh"], ["git", "bash"], source("git.sh"))
    assert output.count("commit ") >= 20


def test_gcc(program: RealProgram) -> None:
    need("gcc")
    files = source("fold.c")
    program.compare(
        ["gcc", "-O2", "-g", "-c", "fold.c", "-o", "fold.o"], ["cc1", "as"], files, ["fold.o"]
    )


def test_gcc_builds_a_program_that_runs(program: RealProgram) -> None:
    need("bash", "gcc")
    command = ["bash", "-c", "gcc -O2 fold.c -o fold && ./fold"]
    output = program.compare(command, ["cc1", "ld", "collect2", "fold"], source("fold.c"), ["fold"])
    assert "sum: " in output


@pytest.mark.nightly
@pytest.mark.parametrize("compiler", ["g++", "clang++-16"])
def test_cxx_compiler_on_heavy_templates(program: RealProgram, compiler: str) -> None:
    need("bash", compiler)
    command = ["bash", "-c", f"{compiler} -std=c++17 -O2 heavy.cpp -o heavy -pthread && ./heavy"]
    served = ["cc1plus" if compiler == "g++" else "clang", "ld", "heavy"]
    output = program.compare(command, served, source("heavy.cpp"), ["heavy"], timeout=300)
    assert "strings: " in output


def test_sort_in_parallel(program: RealProgram) -> None:
    need("sort")
    command = ["sort", "--parallel=4", "-S", "8M", "-k2", "words", "-o", "sorted"]
    program.compare(command, ["sort"], {"words": words(200_000)}, ["sorted"])


def test_tar(program: RealProgram) -> None:
    need("tar", "bash")
    files = {f"tree/{i % 40}/{i}.txt": words(i % 50) for i in range(800)}
    script = """
        tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf a.tar tree
        mkdir out && tar -xf a.tar -C out && diff -r tree out/tree && tar -tvf a.tar
    """
    output = program.compare(["bash", "-ec", script], ["tar", "diff"], files, ["a.tar"])
    assert output.count(".txt") == 800


def test_xz_with_threads(program: RealProgram) -> None:
    need("xz", "bash")
    script = "xz -T2 --block-size=256KiB -k data; xz -dc -T2 data.xz | cmp - data; xz -l data.xz"
    program.compare(
        ["bash", "-ec", script], ["xz", "cmp"], {"data": words(100_000)}, ["data.xz"]
    )


def test_sqlite3(program: RealProgram) -> None:
    need("sqlite3", "bash")
    files = source("work.sql")
    output = program.compare(["bash", "-c", "sqlite3 a.db < work.sql"], ["sqlite3"], files)
    assert output.splitlines()[-1] == "ok"


def test_node(program: RealProgram) -> None:
    need("node")
    output = program.compare(["node", "work.js"], ["node"], source("work.js"))
    assert "workers: 4" in output


def has_java_compiler() -> bool:
    listed = subprocess.run(["java", "--list-modules"], capture_output=True, text=True)
    return "jdk.compiler" in listed.stdout


@pytest.mark.slow
def test_java_source(program: RealProgram) -> None:
    need("java")
    if not has_java_compiler():
        pytest.skip("java is a runtime without the compiler module")
    output = program.compare(["java", "-Xmx512m", "Work.java"], ["java"], source("Work.java"))
    assert "threads: " in output


def test_java_keytool(program: RealProgram) -> None:
    need("keytool", "bash")
    store = "-keystore store.p12 -storetype PKCS12 -storepass secret99"
    script = f"""
        for name in one two; do
            keytool -genseckey -alias $name -keyalg AES -keysize 128 {store}
        done
        keytool -list {store} | grep -c SecretKeyEntry
    """
    output = program.compare(["bash", "-c", script], ["keytool", "grep"])
    assert output.strip() == "2"


def test_bash(program: RealProgram) -> None:
    need("bash")
    output = program.compare(["bash", "work.sh"], ["bash"], source("work.sh"))
    assert "substitution: 5000" in output


def test_text_tools(program: RealProgram) -> None:
    need("find", "grep", "awk", "sed", "xargs", "bash")
    files = {f"tree/{i % 20}/{i}.txt": words(200) for i in range(120)}
    script = """
        find tree -name '*.txt' -size +1k | sort | xargs grep -cE '(word ){3}[0-9]+' | sort -t: -k2n
        cat tree/*/*.txt | awk '{ n[$NF]++ } END { for (k in n) print k, n[k] }' | sort
        sed -E 's/word ([0-9]+)/<\\1>/g; y/abc/ABC/' tree/7/*.txt | sort | uniq -c | head -500
        ls -lR --time-style=+%Y tree | wc -l
    """
    served = ["find", "xargs", "grep", "sort", "sed", "uniq", "ls"]
    assert program.compare(["bash", "-ec", script], served, files)


def test_make(program: RealProgram) -> None:
    need("make", "gcc")
    names = [f"part{i}" for i in range(12)]
    rules = "".join(f"{n}.o: {n}.c\n\tgcc -O1 -c {n}.c -o {n}.o\n" for n in names)
    makefile = f"all: {' '.join(n + '.o' for n in names)}\n\tcat *.o > all\n{rules}"
    files = {f"{n}.c": f"int {n}(int x) {{ return x * {len(n) + i}; }}\n"
             for i, n in enumerate(names)}  # fmt: skip
    command = ["make", "-s", "-j2"]
    program.compare(command, ["make", "cc1"], {"Makefile": makefile, **files}, ["all"])


@pytest.mark.slow
def test_cmake(program: RealProgram) -> None:
    need("cmake", "ninja", "gcc", "bash")
    listing = "cmake_minimum_required(VERSION 3.13)\nproject(demo C)\nadd_executable(fold fold.c)\n"
    files = {"CMakeLists.txt": listing, **source("fold.c")}
    script = "cmake -G Ninja -B b . > log && cmake --build b >> log && ./b/fold"
    program.compare(["bash", "-ec", script], ["cmake", "ninja", "fold"], files)
