# SPDX-License-Identifier: MIT
"""Programs under the shim where the usual surroundings are missing, or must not be trusted.

    scripts/test tests/shim/test_confinement.py

No /proc and /sys, an empty root, no arguments, no environment, privileges. System calls that are
forbidden are in tests/scenarios/seccomp_basic_memory_calls.c, streams that are closed in
streams_closed_from_the_start.c and closed_standard_streams.c.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RunShim, run_captured
from under_shim import need

pytestmark = [pytest.mark.preload, pytest.mark.root]

SETTINGS = {"POOLSHIM_VERBOSE": "1", "POOLSHIM_HUGE": "off", "POOLSHIM_STATS": "1"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, as those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="poolshim-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def needed_libraries(program: Path) -> list[Path]:
    listed = run_captured(["ldd", program]).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", listed)]


def copy_into(root: Path, *files: Path) -> None:
    for file in files:
        target = root / file.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


def assert_works(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stderr
    assert "does not hold" not in result.stderr


@pytest.mark.parametrize(
    "name", ["heap_in_exit_handlers", "blocks_outlive_their_thread", "ifunc_in_executable"]
)
def test_in_an_empty_root(
    run_shim: RunShim, shim: Path, build_dir: Path, open_folder: Path, name: str
) -> None:
    """chroot to a folder with the program, its libraries and the shim: no /proc, /dev, /etc."""
    if os.geteuid() != 0:
        pytest.skip("only root may change the root folder")
    program = (build_dir / "tests" / "scenarios" / name).resolve()
    copy_into(open_folder, program, *needed_libraries(program))
    shutil.copy(shim, open_folder / "libpoolshim.so")
    result = run_shim(
        [program],
        env={"LD_PRELOAD": "/libpoolshim.so", **SETTINGS},
        preload=False,
        preexec_fn=lambda: (os.chroot(open_folder), os.chdir("/")),
    )
    assert_works(result)
    if name == "ifunc_in_executable":
        # Its first malloc comes before libc has the environment, which then only /proc has.
        assert result.stderr == ""
    else:
        assert re.search(r"^poolshim:   HUGE +off ", result.stderr, re.MULTILINE)
        assert "statistics of process" in result.stderr


def test_without_proc_and_sys(run_shim: RunShim, build_dir: Path) -> None:
    """The whole file system, but /proc and /sys are empty folders."""
    need("unshare", "mount")
    program = build_dir / "tests" / "scenarios" / "blocks_outlive_their_thread"
    script = 'mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec "$@"'
    probe = run_captured(["unshare", "-m", "sh", "-c", script, "sh", "true"])
    if probe.returncode != 0:
        pytest.skip(f"no mount namespaces here: {probe.stderr.strip()}")
    command = ["unshare", "-m", "sh", "-c", script, "sh", program]
    result = run_shim(command, env={"POOLSHIM_STATS": "1"})
    assert_works(result)
    assert "statistics of process" in result.stderr


BARE = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words) {
    if (count > 1) { /* start myself again without what one takes for granted */
        char *none[] = {NULL};
        execve("/proc/self/exe", words[1][0] == 'a' ? none : (char *[]){"x", NULL},
               words[1][1] == 'n' ? NULL : none);
        return 9;
    }
    void *block = malloc(1000);
    block = realloc(block, 1000000);
    free(block);
    environ = NULL;
    if (setenv("POOLSHIM_HUGE", "perhaps", 1) != 0 || clearenv() != 0) { return 8; }
    free(malloc(100));
    return block == NULL ? 7 : 0;
}
"""


@pytest.fixture
def linked_program(shim: Path, open_folder: Path) -> Path:
    """A program linked with the library, so that it needs no LD_PRELOAD."""
    need("gcc")
    library = open_folder / "libpoolshim.so.0"
    shutil.copy(shim, library)
    library.chmod(0o755)
    source, program = open_folder / "program.c", open_folder / "program"
    source.write_text(BARE)
    command = ["gcc", source, "-o", program, library, f"-Wl,-rpath,{open_folder}", "-fno-builtin"]
    subprocess.run(command, check=True, timeout=60)
    return program


@pytest.mark.parametrize("what", ["ae", "an", "xe", "xn"])
def test_without_arguments_and_environment(
    run_shim: RunShim, linked_program: Path, what: str
) -> None:
    """An empty vector of arguments, an environment that is empty or no pointer at all."""
    result = run_shim([linked_program, what], preload=False)
    assert (result.returncode, result.stderr) == (0, "")


def drop_to_nobody() -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


SECURE_LINE = "poolshim: privileged program, POOLSHIM_* is ignored\n"


def test_file_capabilities_make_the_environment_untrusted(
    run_shim: RunShim, linked_program: Path
) -> None:
    """The kernel says AT_SECURE, as for set-user-ID programs (tests/shim/test_environment.py)."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a program capabilities")
    need("setcap")
    env = {"POOLSHIM_STRICT": "1", "POOLSHIM_HUGE": "yes", "POOLSHIM_STATS": "/tmp/x.json"}
    plain = run_shim([linked_program], env=env, preload=False, preexec_fn=drop_to_nobody)
    assert plain.returncode == 78, "without capabilities the settings count"
    given = run_captured(["setcap", "cap_net_raw+ep", linked_program])
    if given.returncode != 0:
        pytest.skip(f"no file capabilities here: {given.stderr.strip()}")
    result = run_shim([linked_program], env=env, preload=False, preexec_fn=drop_to_nobody)
    assert (result.returncode, result.stderr) == (0, SECURE_LINE)


def test_privileged_programs_are_not_preloaded_into(
    run_shim: RunShim, linked_program: Path, shim: Path
) -> None:
    """ld.so passes over LD_PRELOAD with a path there: the program runs on libc's heap."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a program to another user")
    program = linked_program.with_name("su")
    shutil.copy("/bin/true", program)
    os.chown(program, 65533, 65533)
    program.chmod(0o4755)
    env = {"POOLSHIM_VERBOSE": "1"}
    result = run_shim([program], env=env, preexec_fn=drop_to_nobody)
    assert result.returncode == 0
    assert "poolshim:" not in result.stderr
    program.chmod(0o755)
    shown = linked_program.parent / "libpoolshim.so.0"
    env["LD_PRELOAD"] = str(shown)
    plain = run_shim([program], env=env, preload=False, preexec_fn=drop_to_nobody)
    assert "poolshim:" in plain.stderr, "without privileges it is preloaded"
