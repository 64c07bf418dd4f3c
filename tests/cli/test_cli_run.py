# SPDX-License-Identifier: MIT
"""`poolshim run` becomes the command, preloaded, or says in one line why it does not.

    scripts/test tests/cli/test_cli_run.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from programs import (
    AARCH64,
    MACHINE_OFFSET,
    OWN_MALLOC,
    POOLSHIM,
    PRINT_MAPS,
    bare_environment,
    compile_library,
    compile_program,
    folder,
    mapper,
    patched,
    poolshim,
)
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))
from poolshim_cli import allocators  # noqa: E402
from poolshim_cli.tune import profile  # noqa: E402

pytestmark = pytest.mark.preload

ROW = re.compile(r'^PS_OPTION\(\s*(\w+),\s*(\w+),\s*"[^"]*",\s*"([^"]*)"', re.M)
OPTIONS = ROW.findall((ROOT / "shim" / "config.def").read_text())
SAMPLES = {"SIZE": "64KiB", "LIMIT": "2GiB", "HUGE": "off", "COUNT": "1", "SWITCH": "on",
           "LIST": "16,48", "REPORT": "1", "PATH": "off", "PACKED": "huge:off"}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def built(shim: Path) -> None:
    """The tests need the library of the build under test."""


def flag_of(name: str) -> str:
    return "--" + name.lower().replace("_", "-")


def check_refusal(*words: str | Path, status: int = 125, **options: object) -> str:
    """The one line on stderr, of a command that would have written a line."""
    done = poolshim("run", *words, **options)
    assert done.returncode == status, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("poolshim run: ")
    return done.stderr.removeprefix("poolshim run: ").strip()


# ---- the command ----


@each_row("status", [0, 1, 78, 125, 126, 127, 255])
def test_exit_status_is_the_commands(status: int) -> None:
    done = poolshim("run", "--", "sh", "-c", f"exit {status}")
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


@each_row("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE])
def test_parent_sees_the_signal_itself(number: signal.Signals) -> None:
    """There is no process in between: a shell would end with 128 + n."""
    assert poolshim("run", "--", "sh", "-c", f"kill -{number} $$").returncode == -number


def test_it_is_the_same_process_with_the_same_words() -> None:
    words = ["", "two words", "--stats", "$HOME", "'"]
    script = "import os, sys, json; print(json.dumps([os.getppid(), sys.argv[1:]]))"
    done = poolshim("run", sys.executable, "-c", script, *words)
    assert json.loads(done.stdout) == [os.getpid(), words]


def test_library_is_mapped_by_its_full_path(mapper: Path, shim: Path) -> None:
    assert str(shim.resolve()) in poolshim("run", "--", mapper).stdout.splitlines()


def test_library_comes_first_and_once(shim: Path) -> None:
    other = allocators.find_library(["libm.so.6"], shim.parent)
    words = ["run", "--", POOLSHIM, "run", "--", "printenv", "LD_PRELOAD"]
    assert poolshim(*words).stdout == f"{shim.resolve()}\n"
    done = poolshim(*words, env={"LD_PRELOAD": str(other)})
    assert (done.stdout, done.stderr) == (f"{shim.resolve()}:{other}\n", "")
    blank = poolshim("run", "printenv", "LD_PRELOAD", env={"LD_PRELOAD": ""})
    assert blank.stdout == f"{shim.resolve()}\n"
    behind = poolshim("run", "printenv", "LD_PRELOAD", env={"LD_PRELOAD": f"{other} {shim}"})
    assert behind.stdout == f"{shim.resolve()}:{other}\n"


def test_missing_commands_end_as_with_env(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("echo hello\n")
    assert check_refusal("no-such-command", status=127) == "no-such-command: no such command"
    line = check_refusal(tmp_path / "absent", status=127)
    assert line == f"{tmp_path / 'absent'}: No such file or directory"
    assert "Permission denied" in check_refusal(tmp_path / "text", status=126)
    assert "Permission denied" in check_refusal(tmp_path, status=126)
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert "No such file or directory" in check_refusal(script, status=127)
    assert check_refusal() == "no command given; see --help"


def test_script_without_first_line_runs_in_the_shell(tmp_path: Path, shim: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo $LD_PRELOAD\n")
    script.chmod(0o755)
    assert poolshim("run", script).stdout == f"{shim.resolve()}\n"


# ---- settings ----


@each_row(("name", "kind", "range_text"), [o for o in OPTIONS if o[0] != "HELP"])
def test_every_option_has_its_flag(name: str, kind: str, range_text: str) -> None:
    value = SAMPLES.get(kind) or range_text.split("|")[-1]
    value = {"MMAP_MIN": "1MiB", "HARDEN": "2"}.get(name, value)  # mte: not on all processors
    words = [f"{flag_of(name)}={value}"]
    assert f"POOLSHIM_{name}={value}" in poolshim("run", *words, "env").stdout.splitlines()
    if kind not in ("SWITCH", "REPORT"):
        words = [flag_of(name), value]
    else:
        words, value = [flag_of(name)], "1"
    assert f"POOLSHIM_{name}={value}" in poolshim("run", *words, "env").stdout.splitlines()
    text = poolshim("run", "--help").stdout
    (line,) = re.findall(rf"^  {flag_of(name)}\b(?!-).*", text, re.MULTILINE)
    assert all(part in line for part in re.split(r"\||\.\.", range_text)), line


def test_the_library_takes_what_the_flags_say() -> None:
    done = poolshim("run", "--verbose", "--harden", "2", "--huge=off", "true")
    assert re.search(r"HARDEN +2 +\(environment\)", done.stderr)
    assert re.search(r"HUGE +off +\(environment\)", done.stderr)


@each_row(
    ("words", "line"),
    [
        (["--harden", "9"], '--harden: "9" is not one of 0, 1, 2, 3, mte'),
        (["--harden=-1"], '--harden: "-1" is not one of 0, 1, 2, 3, mte'),
        (["--huge", "yes"], '--huge: "yes" is not one of auto, thp, off, hugetlb'),
        (["--verbose=perhaps"], '--verbose: "perhaps" is not one of 0, 1, true, false, on, off'),
        (["--size-classes", "16,40"],
         '--size-classes: "16,40" has an entry "40" that is not a multiple of 16'),
        (["--size-classes", "4096", "--small-max", "1K"],
         "POOLSHIM_SMALL_MAX: 1KiB is below 4KiB, the last entry of POOLSHIM_SIZE_CLASSES"),
        (["--conf", "huge:no"],
         'POOLSHIM_CONF: huge: "no" is not one of auto, thp, off, hugetlb'),
        (["--cache-max="], "--cache-max needs a value"),
        (["--hardne", "2"], "no option --hardne; the nearest is --harden"),
        (["--size-class=16"], "no option --size-class=16; the nearest is --size-classes"),
        (["--allocater", "x"], "no option --allocater; the nearest is --allocator"),
        (["--dryrun"], "no option --dryrun; the nearest is --dry-run"),
        (["--env", "A"], '--env needs NAME=VALUE, not "A"'),
        (["--allocator", "jemaloc"],
         "--allocator: no jemaloc here (known: glibc, jemalloc, tcmalloc, mimalloc, poolshim, "
         "system; or a path with a slash)"),
        (["--allocator", "system", "--huge", "off"],
         "--huge is a setting of poolshim, not of system"),
        (["--allocator", "/no/such.so"], "/no/such.so: No such file or directory"),
        (["--allocator", str(POOLSHIM)],
         f"--allocator {POOLSHIM}: no shared library for this machine"),
        (["--tuned", "/no/such.toml"], "/no/such.toml: No such file or directory"),
    ],
)  # fmt: skip
def test_a_mistake_stops_the_command(words: list[str], line: str) -> None:
    assert check_refusal(*words, "echo", "started") == line


def test_library_without_malloc_is_no_allocator(folder: Path) -> None:
    """It would be loaded, and libc would serve; one that uses malloc does not define it."""
    source = "#include <stdlib.h>\nvoid *use(void) { return malloc(1); }"
    for name, text in (("libempty.so", "int nothing;"), ("libuser.so", source)):
        library = compile_library(folder, name, text)
        said = check_refusal("--allocator", library, "true")
        assert said == f"--allocator {library}: defines no malloc: it is no allocator"
    own = compile_library(folder, "libown.so", OWN_MALLOC)
    assert poolshim("run", "--dry-run", "--allocator", own, "true").returncode == 0


def test_flag_at_the_end_lacks_its_value() -> None:
    assert check_refusal("--harden") == "--harden needs a value"
    assert check_refusal("--tuned") == "--tuned needs a value"


PROFILE = """# made by hand
poolshim_profile = 1
command = ["redis-server"]
size_classes = "16,48,1024"   # those it likes
harden = 1
verbose = true
[measured]
thp = "nothing that run reads"
"""


def test_profile_sets_what_no_flag_says(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(PROFILE)
    done = poolshim("run", "--harden=2", "--tuned", path, "env", env={"POOLSHIM_HARDEN": "3"})
    lines = [line for line in done.stdout.splitlines() if line.startswith("POOLSHIM_")]
    assert set(lines) - {f"POOLSHIM_BUILD_DIR={os.environ.get('POOLSHIM_BUILD_DIR')}"} == {
        "POOLSHIM_SIZE_CLASSES=16,48,1024", "POOLSHIM_HARDEN=2", "POOLSHIM_VERBOSE=true"
    }  # fmt: skip


def test_profile_of_tune_is_understood(tmp_path: Path) -> None:
    found = profile.Profile(
        ("server", "[environment]\n"), {"POOLSHIM_SIZE_CLASSES": "16,48"}, {"waste": 1}, {}
    )
    path = tmp_path / "p.toml"
    path.write_text(profile.to_toml(found))
    assert "POOLSHIM_SIZE_CLASSES=16,48" in poolshim("run", "--tuned", path, "env").stdout


@each_row(
    ("text", "line"),
    [
        ('[environment]\nPOOLSHIM_SIZES = "16"\n', ", line 2: POOLSHIM_SIZES: no such option"),
        ('size_classes = "16,17"\n',
         ', line 1: size_classes: "16,17" has an entry "17" that is not a multiple of 16'),
        ('\nsize_classes = "16,\n', ", line 2: size_classes: the value does not end"),
        ('class_sizes = "16"\n', ': no setting in it, such as size_classes = "16,32"'),
        ("", ': no setting in it, such as size_classes = "16,32"'),
    ],
)  # fmt: skip
def test_unusable_profile_stops_the_command(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    assert check_refusal("--tuned", path, "echo", "started") == f"{path}{line}"


def test_profile_with_an_array() -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as path:
        path.write("size_classes = [16, 48]\n")
        path.flush()
        done = poolshim("run", "--tuned", path.name, "--verbose", "true")
    assert re.search(r"SIZE_CLASSES +16,48 +\(environment\)", done.stderr)


def test_dry_run_prints_what_a_shell_can_run() -> None:
    words = ["--harden=1", "--env", "A=it's two", "--", "printenv", "A", "POOLSHIM_HARDEN"]
    done = poolshim("run", "--dry-run", *words)
    assert done.returncode == 0 and done.stdout.count("\n") == 1
    again = run_captured(["sh", "-c", done.stdout], env=bare_environment())
    assert again.stdout == poolshim("run", *words).stdout == "it's two\n1\n"


def test_settings_are_listed_as_the_library_lists_them() -> None:
    env = {"POOLSHIM_CONF": "huge:thp", "POOLSHIM_HARDE": "1", "POOLSHIM_HARDEN": "9"}
    listed = poolshim("run", "--settings", "--verbose", "--foreign=warn", env=env)
    said = poolshim("run", "--verbose", "--foreign=warn", "true", env=env)
    assert listed.returncode == 0 and listed.stderr == ""
    same = [re.sub(r"process \d+", "process", text) for text in (listed.stdout, said.stderr)]
    assert same[0] == same[1]
    assert "HUGE              thp                      (POOLSHIM_CONF)" in same[0]
    assert "POOLSHIM_HARDE: no such option, ignored; the nearest is POOLSHIM_HARDEN" in same[0]
    quiet = poolshim("run", "--settings", env=env).stdout
    assert "VERBOSE           off                      (default)" in quiet


# ---- allocators ----


def test_allocators_are_those_of_the_table(build_dir: Path) -> None:
    """One table, read by the build and by Python: same names, same files found."""
    for entry in allocators.read_table(allocators.DEFAULT_TABLE):
        if entry["name"] == "floor":  # no allocator to run on
            continue
        found = allocators.resolve(entry, build_dir)
        done = poolshim("run", "--dry-run", "--allocator", entry["name"], "true")
        if isinstance(found, allocators.Missing):
            assert done.returncode == 125 and found.reason in done.stderr
        else:
            preload = f"LD_PRELOAD={found.library} " if found.library else ""
            assert done.stdout == f"env {preload}true\n"


def test_other_allocator_is_the_one_that_serves(mapper: Path, build_dir: Path) -> None:
    library = allocators.find_library(["libjemalloc.so.2"], build_dir)
    if library is None:
        pytest.skip("libjemalloc.so.2 is not installed")
    for name in ("jemalloc", library):
        mapped = poolshim("run", "--allocator", name, mapper).stdout
        assert str(library) in mapped.splitlines() and "libpoolshim" not in mapped
    assert ".so" in poolshim("run", "--allocator", "system", mapper).stdout
    assert "LD_PRELOAD" not in poolshim("run", "--allocator", "system", "env").stdout


@each_row("name", ["two words", "a:b"])
def test_path_that_ld_preload_cannot_hold_is_refused(
    tmp_path: Path, shim: Path, name: str
) -> None:
    copy = tmp_path / name / "lib.so"
    copy.parent.mkdir()
    shutil.copy(shim.resolve(), copy)
    line = check_refusal("--allocator", copy, "echo", "started")
    assert line == f"{copy}: LD_PRELOAD takes no path with a blank or a colon"


# ---- where a preload has no effect ----


def check_without_effect(program: Path, reason: str, **options: object) -> None:
    """It is refused, and with --force the library is indeed not there."""
    line = check_refusal(program, **options)
    assert line == f"{program} {reason}; --force starts it all the same"
    assert "libpoolshim" not in poolshim("run", "--force", program, **options).stdout


def test_static_program(folder: Path) -> None:
    for name, flag in (("static", "-static"), ("static-pie", "-static-pie")):
        program = compile_program(folder, name, PRINT_MAPS, flag)
        check_without_effect(
            program, "is statically linked, nothing can be preloaded into it"
        )


def test_program_of_another_processor(mapper: Path) -> None:
    program = patched(mapper, "foreign", MACHINE_OFFSET, AARCH64.to_bytes(2, "little"))
    reason = "is a program for AArch64 (64 bits), the library is for x86-64"
    if os.uname().machine != "x86_64":
        pytest.skip("made for x86-64")
    check_without_effect(program, reason)
    program = patched(mapper, "short", 4, b"\1")
    assert "(32 bits), the library is for x86-64" in check_refusal(program)


def test_program_of_another_libc(folder: Path) -> None:
    flag = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"
    program = compile_program(folder, "musl", PRINT_MAPS, flag)
    check_without_effect(program, "is linked to musl, the library to glibc")


def test_script_is_judged_by_its_interpreter(folder: Path) -> None:
    interpreter = compile_program(folder, "interpreter", PRINT_MAPS, "-static")
    script = folder / "script"
    script.write_text(f"#! {interpreter} -x\n")
    script.chmod(0o755)
    reason = "statically linked, nothing can be preloaded into it; --force starts it all the same"
    assert check_refusal(script) == f"{interpreter}, which runs {script}, is {reason}"
    outer = folder / "outer"
    outer.write_text(f"#!{script}\n")
    outer.chmod(0o755)
    begin = f"{interpreter}, which runs {script}, which runs {outer}"
    assert check_refusal(outer).startswith(begin)


def test_loader_as_a_program_is_no_static_program(mapper: Path, shim: Path) -> None:
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip("no x86-64 loader here")
    assert str(shim.resolve()) in poolshim("run", loader, mapper).stdout


@pytest.mark.root
@each_row(
    ("mode", "kind"), [(0o4755, "set-user-ID"), (0o2755, "set-group-ID")]
)
def test_privileged_program(mapper: Path, mode: int, kind: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    program = mapper.with_name(kind)
    shutil.copy(mapper, program)
    os.chown(program, 65534, 65534)
    program.chmod(mode)
    check_without_effect(program, f"is {kind}, and the loader ignores LD_PRELOAD there")


@pytest.mark.root
def test_program_with_capabilities(mapper: Path, build_dir: Path) -> None:
    """For root these are nothing special; for others they are privileges."""
    if os.geteuid() != 0 or not shutil.which("setcap"):
        pytest.skip("needs root and setcap")
    program = mapper.with_name("capable")
    shutil.copy(mapper, program)
    if run_captured(["setcap", "cap_net_raw+ep", program]).returncode != 0:
        pytest.skip("this file system has no capabilities")
    assert "libpoolshim" in poolshim("run", program).stdout
    other = {"user": 65534, "group": 65534, "extra_groups": []}
    run = build_dir / "scripts" / "poolshim-run"
    if run_captured([run, "--version"], **other, env={}).returncode != 0:
        pytest.skip("another user may not enter the build folder")
    refused = run_captured([run, program], **other, env=bare_environment())
    assert refused.returncode == 125
    assert "is a program with file capabilities, and the loader ignores" in refused.stderr
    forced = run_captured([run, "--force", program], **other, env=bare_environment())
    assert forced.returncode == 0 and "libpoolshim" not in forced.stdout
