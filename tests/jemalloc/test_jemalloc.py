# SPDX-License-Identifier: MIT
"""jemalloc's functions, names and errors: each program and each answer is compared with jemalloc's.

    scripts/test tests/jemalloc

The programs are linked with the installed libjemalloc.so.2. They run with it, and with
libpoolshim.so preloaded, which then serves its functions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured

pytestmark = pytest.mark.preload

HERE = ROOT / "tests" / "jemalloc"
PROGRAMS = {"calls": [[]], "counts": [[], ["frees"]], "names": [[]], "threads": [[]]}
MODES = {
    # At level 3 one block in a thousand would be a guarded sample, as long as it was requested.
    "calls": ["HARDEN=1", "HARDEN=3 GUARD_SAMPLE=0", "GUARD_SAMPLE=9", "RECORD={}/r",
              "TRACE={}/t", "PROFILE={}/p"],
    "counts": ["HARDEN=1", "PROFILE={}/p"],
    "threads": [],
    "names": ["HARDEN=1", "GUARD_SAMPLE=9", "RECORD={}/r", "BACKGROUND=0"],
}


def jemalloc() -> Path:
    found = sorted(Path("/usr/lib").glob("*/libjemalloc.so.2"))
    if not found:
        pytest.skip("libjemalloc.so.2 is not installed")
    return found[0]


def has_profiles() -> bool:
    """Whether jemalloc is built with them; Debian's of 64-bit ARM is not."""
    return bool(ask(ANSWERS + "print(json.dumps(answers('opt.prof')[0][0] == 0))", jemalloc()))


def built(name: str, tmp_path: Path) -> Path:
    program = tmp_path / name
    flags = ["-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror", "-pthread"]
    done = run_captured(["gcc", *flags, HERE / f"{name}.c", "-o", program, jemalloc()], timeout=60)
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.compare
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_passes_with_jemalloc_and_here(
    run_shim: RunShim, tmp_path: Path, name: str
) -> None:
    if name == "names" and not has_profiles():
        pytest.skip("jemalloc is built without profiles here")
    program = built(name, tmp_path)
    for arguments in PROGRAMS[name]:
        for preload in (False, True):
            result = run_shim([program, *arguments], preload=preload)
            assert (result.returncode, result.stderr) == (0, ""), (arguments, preload)
    for setting in MODES[name]:
        options = dict(one.split("=") for one in setting.format(tmp_path).split())
        env = {f"POOLSHIM_{option}": value for option, value in options.items()}
        result = run_shim([program], env=env)
        assert result.returncode == 0, (setting, result.stderr)


# ---- names ----

# Finds all names of the library that serves: a component is one of the words in its file.
WALK = """
import ctypes, json, os, re
libc, size_t = ctypes.CDLL(None), ctypes.c_size_t

def mib_of(name):
    mib, length = (size_t * 10)(), size_t(10)
    error = libc.mallctlnametomib(name.encode(), mib, ctypes.byref(length))
    return list(mib[:length.value]) if error == 0 else None

def words(path):
    found = re.findall(rb"[a-z][a-z0-9_]*(?=\\0)", open(path, "rb").read())
    texts = {word.decode() for word in found}
    return sorted({t[i:] for t in texts for i in range(len(t)) if t[i].isalpha()})

def walk(prefix, candidates):
    names = [prefix + word for word in candidates]
    names = [name for name in names if mib_of(name) is not None]
    if not names:
        return [prefix[:-1]]
    return [leaf for name in names for leaf in walk(name + ".", candidates)]
"""

# What a name answers: reads of three lengths, and a write of a wrong one.
ANSWERS = WALK + """
def answers(name):
    found = []
    for length in (1, 4, 8):
        value, room = ctypes.create_string_buffer(16), size_t(length)
        error = libc.mallctl(name.encode(), value, ctypes.byref(room), None, size_t(0))
        found.append([error, room.value])
    value = ctypes.create_string_buffer(16)
    found.append(libc.mallctl(name.encode(), None, None, value, size_t(3)))
    return found
"""

# Names whose MIB is another one's, or does not begin with those of the names that they begin with.
MIBS = WALK + """
mibs = {name: mib_of(name) for name in NAMES}
def is_right(name):
    parts = [mib_of(name.rsplit(".", n)[0]) for n in range(name.count(".") + 1)]
    same = [other for other, mib in mibs.items() if mib == mibs[name]]
    return same == [name] and all(mibs[name][:len(part)] == part for part in parts)
print(json.dumps([name for name in mibs if not is_right(name)]))
"""

# Where jemalloc crashes on such a call, or the document gives the reason of another answer.
OTHERWISE = {
    "arena.0.extent_hooks",
    "arena.0.oversize_threshold",
    "arena.0.retain_grow_limit",
    "arenas.create",
    "arenas.lookup",
    "opt.utrace",  # jemalloc's packages are built without them
    "opt.xmalloc",
    "stats.mutexes.reset",
}


def ask(script: str, preload: Path, *arguments: str) -> object:
    done = run_captured(
        [sys.executable, "-S", "-c", script, *arguments], timeout=60,
        env={"LD_PRELOAD": str(preload)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.compare
def test_every_name_of_jemallocs_answers_as_there(shim: Path) -> None:
    script = f"print(json.dumps(walk('', words({str(jemalloc())!r}) + ['0'])))"
    names = ask(WALK + script, jemalloc())
    assert isinstance(names, list) and len(names) > 380
    unknown = ask(WALK + f"print(json.dumps([n for n in {names!r} if mib_of(n) is None]))", shim)
    assert unknown == []
    assert ask(MIBS.replace("NAMES", repr(names)), shim) == []
    is_whole = has_profiles()
    alike = [n for n in names if not n.startswith("experimental.") and n not in OTHERWISE
             and (is_whole or "prof" not in n)]  # fmt: skip
    script = f"print(json.dumps([answers(name) for name in {alike!r}]))"
    theirs, ours = ask(ANSWERS + script, jemalloc()), ask(ANSWERS + script, shim)
    assert isinstance(theirs, list) and isinstance(ours, list)
    different = {n: (a, b) for n, a, b in zip(alike, theirs, ours, strict=True) if a != b}
    assert different == {}


def test_a_program_without_jemalloc_finds_the_functions(shim: Path) -> None:
    """As libraries look for them: by weak symbols."""
    script = """
import ctypes
libc = ctypes.CDLL(None)
names = "mallocx rallocx xallocx sallocx dallocx sdallocx nallocx mallctl mallctlnametomib"
print(all(hasattr(libc, name) for name in [*names.split(), "mallctlbymib"]))
"""
    done = subprocess.run([sys.executable, "-S", "-c", script], env={"LD_PRELOAD": str(shim)},
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "True\n")
