# SPDX-License-Identifier: MIT
"""`poolshim doctor` says whether a preload takes effect; a run of the same program agrees.

    scripts/test tests/cli/test_cli_doctor.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from programs import (
    AARCH64,
    LEVELS,
    MACHINE_OFFSET,
    OWN_MALLOC,
    OWN_NEW,
    PRINT_MAPS,
    bare_environment,
    codes,
    compile_library,
    compile_program,
    examine,
    folder,
    mapper,
    patched,
    poolshim,
)
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")
from poolshim_cli.doctor.findings import Diagnosis, Setting  # noqa: E402
from poolshim_cli.doctor.set_aside import check_set_aside  # noqa: E402

from poolshim_cli import elf  # noqa: E402
from poolshim_cli.doctor import command  # noqa: E402
from poolshim_cli.doctor.program import libc_of  # noqa: E402

pytestmark = pytest.mark.preload

JEMALLOC = "libjemalloc.so.2"


@pytest.fixture(scope="module", autouse=True)
def built(shim: Path) -> None:
    """The tests need the library of the build under test."""


def check_fatal(code: str, *words: str | Path, env: dict[str, str] | None = None) -> str:
    """That and nothing else is fatal; returns its message."""
    found = examine("--", *words, env=env)
    assert codes(found, "fatal") == [code]
    return str(next(f["message"] for f in found["findings"] if f["code"] == code))


def maps_of(program: Path, *words: str) -> str:
    return poolshim("run", "--force", *words, program).stdout


# ---- programs that it reaches ----


def test_ordinary_program(mapper: Path, shim: Path) -> None:
    found = examine("--", mapper, "--json", "-q")
    assert found["takes_effect"] and codes(found, "fatal", "warning", "note") == []
    assert codes(found, "fine") == ["first", "probes"]
    assert found["command"] == [str(mapper), "--json", "-q"]
    assert found["library"] == str(shim.resolve()) and found["program"] == str(mapper)
    assert "libpoolshim" in maps_of(mapper)


@each_row("words", [["./mapper"], ["mapper"], ["env", "./mapper"], ["./named"]])
@each_row("path", [".", ""])
def test_program_in_the_folder_where_it_is_started(
    words: list[str], path: str, mapper: Path
) -> None:
    """Without its "./" the loader takes it for the name of a library."""
    named = mapper.with_name("named")
    named.write_text("#!./mapper\n")
    named.chmod(0o755)
    env = {"PATH": f"{path}:{os.environ['PATH']}"}
    done = poolshim("doctor", "--json", "--", *words, env=env, cwd=mapper.parent)
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert found["program"] == str(mapper) and codes(found, "fine") == ["first", "probes"]


def test_loader_itself_is_left_alone(mapper: Path) -> None:
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip("no x86-64 loader here")
    found = examine("--run", "--", loader, mapper)
    assert found["takes_effect"] and codes(found, "note") == ["loader"]


@each_row("name", ["sqlite3", "redis-server", "python3", "node", "perl", "nginx"])
def test_real_program(name: str) -> None:
    """A run agrees. redis-server is linked to jemalloc on Debian, which then is only mapped."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    word = {"perl": "-v", "nginx": "-v"}.get(name, "--version")
    found = examine("--run", "--", name, word)
    assert found["takes_effect"] and "ran-mapped" in codes(found, "fine")


def test_script_is_followed_through_env(folder: Path, mapper: Path) -> None:
    script = folder / "script"
    script.write_text("#!/usr/bin/env -S A=1 mapper\n")
    script.chmod(0o755)
    found = examine("--", script, env={"PATH": f"{folder}:{os.environ['PATH']}"})
    assert found["program"] == str(mapper) and codes(found, "note") == ["script"]


def test_own_operator_new_is_no_obstacle(folder: Path) -> None:
    program = compile_program(folder, "own-new.cpp", OWN_NEW, "-rdynamic")
    found = examine("--run", "--", program)
    assert found["takes_effect"] and "own-operator-new" in codes(found, "note")
    assert "ran-unused" not in codes(found, *LEVELS)


def test_library_with_malloc_comes_later(folder: Path, shim: Path) -> None:
    found = run_captured(["sh", "-c", f"ls /usr/lib/*/{JEMALLOC} | head -n 1"]).stdout.strip()
    if not found:
        pytest.skip(f"{JEMALLOC} is not installed")
    program = compile_program(folder, "linked", PRINT_MAPS, "-Wl,--no-as-needed", found)
    later = examine("--", program)
    assert later["takes_effect"] and codes(later, "note") == ["replaced"]
    assert codes(examine("--", program, env={"LD_PRELOAD": found}), "note") == ["replaced"]
    assert "jemalloc" in check_fatal("other-first", program, env={"LD_PRELOAD": f"{found}:{shim}"})


def test_calls_past_malloc_are_a_warning(folder: Path) -> None:
    """Of an allocator whose names the library does not have."""
    lacked = ("scalable_malloc", "mi_theap_malloc", "je_malloc")
    for name in (*lacked, "tc_malloc", "mallocx", "mi_new"):
        library = compile_library(folder, f"lib{name}.so", f"void *{name}(void) {{ return 0; }}")
        source = f"void *{name}(void); int main(void) {{ return {name}() != 0; }}"
        program = compile_program(folder, name, source, str(library), f"-Wl,-rpath,{folder}")
        assert codes(examine("--", program), "warning") == ["own-interface"] * (name in lacked)


@each_row(("version", "expected"), [("8.2.36", ["deepbind"]), ("8.5.0", [])])
def test_php_that_binds_extensions_to_libc_is_a_warning(
    version: str, expected: list[str], folder: Path
) -> None:
    source = f"""
    #include <stdlib.h>
    const char version[] = "X-Powered-By: PHP/{version}";
    void zend_load_extension(void) {{}}
    int main(void) {{ free(malloc(1)); }}
    """
    program = compile_program(folder, "php", source, "-rdynamic")
    assert codes(examine("--", program), "warning") == expected


def test_symbolic_library_keeps_its_own(folder: Path) -> None:
    source = "void free(void *p) { (void)p; } void use(void) { free(0); }"
    for name, flags in (("symbolic", ["-Wl,-Bsymbolic"]), ("plain", [])):
        library = compile_library(folder, f"lib{name}.so", source, *flags)
        program = compile_program(
            folder, name, "void use(void); int main(void) { use(); }",
            str(library), f"-Wl,-rpath,{folder}",
        )  # fmt: skip
        expected = ["symbolic"] if flags else []
        assert codes(examine("--", program), "warning") == expected


# ---- programs that it does not reach ----


def test_static_program(folder: Path) -> None:
    """Also one whose name begins like the loader's."""
    for name, flag in (("static", "-static"), ("ldap", "-static"), ("pie", "-static-pie")):
        program = compile_program(folder, name, PRINT_MAPS, flag)
        assert "statically linked" in check_fatal("static", program)
        assert "libpoolshim" not in maps_of(program)


def test_program_of_another_processor(mapper: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("made for x86-64")
    other = patched(mapper, "foreign", MACHINE_OFFSET, AARCH64.to_bytes(2, "little"))
    assert "AArch64 (64 bits), the library is for x86-64" in check_fatal("wrong-processor", other)
    check_fatal("wrong-processor", patched(mapper, "turned", 5, b"\2"))
    other = patched(mapper, "short", 4, b"\1")
    assert "x86-64 (32 bits)" in check_fatal("wrong-processor", other)


def test_cross_compiled_program(folder: Path) -> None:
    compiler = f"{'x86-64' if os.uname().machine == 'aarch64' else 'aarch64'}-linux-gnu-gcc"
    need(compiler)
    program = folder / "other"
    made = run_captured([compiler, "-x", "c", "-", "-o", program], input=PRINT_MAPS)
    assert made.returncode == 0, made.stderr
    check_fatal("wrong-processor", program)


def test_program_for_musl(folder: Path) -> None:
    need("musl-gcc")
    program = folder / "musl"
    made = run_captured(["musl-gcc", "-x", "c", "-", "-o", program], input=PRINT_MAPS)
    assert made.returncode == 0, made.stderr
    assert "linked to musl" in check_fatal("musl", program)
    assert "linked to musl, the library to glibc" in poolshim("run", program).stderr


def test_libraries_for_musl_are_known(folder: Path) -> None:
    """Tries the names that musl-gcc and Alpine's gcc link."""
    for needed in ("libc.so", "libc.musl-x86_64.so.1"):
        stub = compile_library(folder, needed, "int stub;", f"-Wl,-soname,{needed}")
        flags = ("-nostdlib", "-Wl,--no-as-needed", str(stub))
        assert libc_of(elf.read(compile_library(folder, "lib.so", "", *flags))) == "musl"


def test_program_without_its_loader(folder: Path) -> None:
    program = compile_program(folder, "lost", PRINT_MAPS, "-Wl,--dynamic-linker=/no/ld.so")
    assert "/no/ld.so" in check_fatal("no-loader", program)


def test_program_without_a_library(folder: Path) -> None:
    library = compile_library(folder, "libgone.so", "int gone;")
    program = compile_program(
        folder, "orphan", "extern int gone; int main(void) { return gone; }", str(library)
    )
    library.unlink()
    assert "libgone.so" in check_fatal("library-absent", program)


def test_program_whose_libraries_lie_beside_it_through_links(folder: Path) -> None:
    """$ORIGIN is the folder of the file, not of a link to it, as of java on Debian."""
    home = folder / "home"
    (home / "lib").mkdir(parents=True)
    (home / "bin").mkdir()
    library = compile_library(home / "lib", "libbeside.so", "int beside(void) { return 0; }")
    source = """
    #include <stdlib.h>
    int beside(void);
    int main(void) { void *volatile block = malloc(9); return block == NULL || beside(); }
    """
    program = compile_program(
        home / "bin", "linked-by-origin", source, str(library), "-Wl,-rpath,$ORIGIN/../lib"
    )
    (folder / "alternative").symlink_to(program)
    (folder / "command").symlink_to("alternative")
    for words in ([folder / "command"], ["env", folder / "command"]):
        found = examine("--run", "--", *words)
        assert found["takes_effect"] and codes(found, "warning", "fatal") == []


@pytest.mark.root
def test_privileged_program(mapper: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    for mode, kind in ((0o4755, "set-user-ID"), (0o2755, "set-group-ID")):
        program = mapper.with_name(kind)
        shutil.copy(mapper, program)
        os.chown(program, 65534, 65534)
        program.chmod(mode)
        assert kind in check_fatal("privileged", program)
        assert "libpoolshim" not in maps_of(program)
        os.chown(program, 0, 0)
        program.chmod(mode)
        found = examine("--", program)
        assert found["takes_effect"] and "privileged-elsewhere" in codes(found, "note")
        assert "libpoolshim" in maps_of(program)


@pytest.mark.root
def test_program_with_capabilities(
    mapper: Path, shim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For root these are nothing special; for others they are privileges."""
    program = mapper.with_name("capable")
    shutil.copy(mapper, program)
    if not shutil.which("setcap") or run_captured(["setcap", "cap_net_raw+ep", program]).returncode:
        pytest.skip("no setcap, or it may not set capabilities here")
    assert os.getuid() == 0 and examine("--", program)["takes_effect"]
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    found = command.diagnose((str(program),), shim.resolve(), bare_environment())
    assert [f.code for f in found.findings if f.level == "fatal"] == ["privileged"]
    plain = command.diagnose((str(mapper),), shim.resolve(), bare_environment())
    assert plain.takes_effect


def test_program_with_its_own_malloc(folder: Path) -> None:
    """Exported, hidden, or hidden and stripped with the texts of a known allocator."""
    exported = compile_program(folder, "exported", OWN_MALLOC, "-rdynamic")
    assert "defines malloc, free" in check_fatal("own-malloc", exported)
    hidden = compile_program(folder, "hidden", OWN_MALLOC, "-fvisibility=hidden")
    assert "malloc and free of its own" in check_fatal("hidden-malloc", hidden)
    ran = examine("--run", "--", hidden)
    assert "ran-unused" in codes(ran, "warning") and not ran["takes_effect"]
    text = 'const char *volatile text = "<jemalloc>: Error";\n' + OWN_MALLOC
    stripped = compile_program(folder, "stripped", text, "-fvisibility=hidden", "-s")
    assert "jemalloc" in check_fatal("bundled", stripped)


def test_program_with_the_address_sanitizer(folder: Path) -> None:
    program = compile_program(folder, "asan", PRINT_MAPS, "-fsanitize=address")
    assert "AddressSanitizer" in check_fatal("sanitizer", program)
    assert poolshim("run", program).returncode != 0


# ---- what surrounds the program ----


def test_variables(mapper: Path) -> None:
    env = {"POOLSHIM_HARDNE": "1", "MALLOC_CONF": "narenas:1", "MALLOC_ARENA_MAX": "1",
           "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "POOLSHIM_HUGE": "off"}  # fmt: skip
    found = examine("--", mapper, env=env)
    assert found["takes_effect"] and codes(found, "warning") == ["setting"]
    assert codes(found, "note") == ["idle-variable"] * 3
    settings = {row["name"]: (row["value"], row["origin"]) for row in found["settings"]}
    assert settings["HUGE"] == ("off", "environment")
    assert settings["HARDEN"] == ("0", "default")
    check_fatal("strict", mapper, env={**env, "POOLSHIM_STRICT": "1"})
    assert examine("--", mapper, env={"POOLSHIM_STRICT": "1"})["takes_effect"]


def test_huge_pages_that_are_set_aside(tmp_path: Path) -> None:
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal:  9 kB\nHugepagesize:       2048 kB\n")
    for kib, counts in {2048: (100, 62, 12, 0), 1 << 20: (0, 0, 0, 0), 32768: (4, 4, 4, 0),
                        65536: (0, 0, 0, 8)}.items():  # fmt: skip
        pool = tmp_path / "pools" / f"hugepages-{kib}kB"
        pool.mkdir(parents=True)
        names = ("nr_hugepages", "free_hugepages", "resv_hugepages", "nr_overcommit_hugepages")
        for name, count in zip(names, counts, strict=True):
            (pool / name).write_text(f"{count}\n")
    rows = {
        "auto": [],
        "hugetlb": [("fine", "huge pages of 2 MiB: 100 set aside, 50 free")],
        "hugetlb:2MiB": [("fine", "huge pages of 2 MiB: 100 set aside, 50 free")],
        "hugetlb:1GiB": [("warning", "no huge page of 1 GiB is set aside, so ordinary ones are "
                          "used")],
        "hugetlb:32MiB": [("note", "huge pages of 32 MiB: 4 set aside, 0 free: ordinary ones are "
                           "used until some are")],
        "hugetlb:64MiB": [("note", "huge pages of 64 MiB: 0 set aside, 0 free: ordinary ones are "
                           "used until some are")],
        "hugetlb:16MiB": [("warning", "this machine has no huge pages of 16 MiB")],
    }  # fmt: skip
    for value, wanted in rows.items():
        diagnosis = Diagnosis((), "")
        diagnosis.settings.append(Setting("HUGE", value, "environment"))
        check_set_aside(diagnosis, tmp_path / "pools", memory)
        assert [(one.level, one.message) for one in diagnosis.findings] == wanted, value
    diagnosis.findings.clear()
    diagnosis.settings[0] = Setting("HUGE", "hugetlb", "environment")
    check_set_aside(diagnosis, tmp_path / "none", tmp_path / "no file")
    assert [one.code for one in diagnosis.findings] == ["no-huge-pages"]


def test_every_setting_is_listed(mapper: Path) -> None:
    names = {row["name"] for row in examine("--", mapper)["settings"]}
    table = (ROOT / "shim" / "config.def").read_text()
    options = set(re.findall(r"^PS_OPTION\(\s*(\w+),", table, re.MULTILINE))
    assert names == options - {"CONF"}


def test_unusable_preload_of_the_user(mapper: Path) -> None:
    found = examine("--", mapper, env={"LD_PRELOAD": "/no/such.so"})
    assert found["takes_effect"] and codes(found, "warning") == ["preload-refused"]


def test_commands_that_drop_the_variable(folder: Path, mapper: Path) -> None:
    for words in (["env", "-i"], ["env", "-u", "LD_PRELOAD"], ["env", "A=1", "LD_PRELOAD="]):
        check_fatal("scrubbed-by-env", *words, mapper)
    assert examine("--", "env", "A=1", mapper)["takes_effect"]
    script = folder / "scrubbing"
    script.write_text(f"#!/bin/sh\n# unset LD_PRELOAD\nunset A LD_PRELOAD\nexec {mapper}\n")
    script.chmod(0o755)
    found = examine("--", script)
    assert codes(found, "warning") == ["scrubbed-by-script", "only-starts"]
    assert "line 3" in next(f["message"] for f in found["findings"] if f["level"] == "warning")
    assert codes(examine("--run", "--", script), "fatal") == ["ran-unmapped"]


# ---- with a run ----


def test_children_are_looked_at(mapper: Path) -> None:
    found = examine("--run", "--", "sh", "-c", f"{mapper}; {mapper} & wait")
    assert "ran: so it was in all 2 programs that it started" in str(found["findings"])
    lost = f"unset LD_PRELOAD; {mapper}; {mapper}; {shutil.which('true')}"
    found = examine("--run", "--", "sh", "-c", lost + "; exit 3")
    assert found["takes_effect"]
    text = str(found["findings"])
    assert "3 of 3 programs that it started were started without LD_PRELOAD" in text
    assert "the command ended with status 3" in text


def test_child_that_cannot_be_preloaded(folder: Path) -> None:
    static = compile_program(folder, "static-child", PRINT_MAPS, "-static")
    found = examine("--run", "--", "sh", "-c", f"{static}; :")
    assert "child-unmapped" in codes(found, "warning") and found["takes_effect"]


def test_output_of_the_command_stays_apart() -> None:
    done = poolshim("doctor", "--run", "--", "echo", "hello")
    assert "hello" not in done.stdout and "hello" in done.stderr


# ---- the command line ----


@each_row(
    ("words", "status", "line"),
    [
        ([], 2, "no command given; poolshim doctor -- COMMAND [ARGUMENT...]"),
        (["--color", "--", "true"], 2, "no option --color"),
        (["--jsno", "--", "true"], 2, "no option --jsno; did you mean --json?"),
        (["--", "no-such-command"], 127, "no-such-command: no such command"),
        (["--", "/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        (["--", "/etc/no-such"], 127, "/etc/no-such: No such file or directory"),
        (["--", "/etc"], 126, "/etc: Permission denied"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], status: int, line: str) -> None:
    done = poolshim("doctor", *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == f"poolshim doctor: {line}\n"


def test_missing_build_is_an_own_failure(tmp_path: Path) -> None:
    done = poolshim("doctor", "true", env={"POOLSHIM_BUILD_DIR": str(tmp_path)})
    assert done.returncode == 125
    assert done.stderr == f"poolshim doctor: {tmp_path}/libpoolshim.so is missing: build first\n"


def test_broken_files_are_findings(folder: Path, mapper: Path, shim: Path) -> None:
    """Cut or overwritten anywhere: a verdict, and no other exception."""
    data = mapper.read_bytes()
    broken = folder / "broken"
    cases = [data[:length] for length in (0, 4, 20, 63, 64, 200, len(data) // 2)]
    cases += [data[:at] + b"\xff" * 8 + data[at + 8 :] for at in range(16, 1200, 52)]
    for case in cases:
        broken.unlink(missing_ok=True)
        broken.write_bytes(case)
        broken.chmod(0o755)
        found = command.diagnose((str(broken),), shim.resolve(), bare_environment())
        assert found.program or not found.takes_effect
