# SPDX-License-Identifier: MIT
"""jemalloc's mallctl and malloc_stats_print: names, types, errors, figures; and redis, which asks.

    scripts/test tests/shim/test_mallctl.py
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RunShim, run_captured
from poolshim_cli import pprof

pytestmark = pytest.mark.preload

sys.path.insert(0, str(ROOT / "scripts" / "dev"))
import mallctl_table  # noqa: E402

KINDS = {kind: word for word, kind in mallctl_table.TYPES.items()}
ROWS = {row.name: KINDS[row.type] for row in mallctl_table.read_rows()
        if row.access in ("r", "rw") and "<count" not in row.name}  # fmt: skip
ALL = 4096  # MALLCTL_ARENAS_ALL

PRELUDE = """
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
libc.malloc.restype = pointer
libc.malloc.argtypes = [size_t]
libc.free.argtypes = [pointer]
TYPES = {"BOOL": ctypes.c_bool, "UINT32": ctypes.c_uint32, "UINT64": ctypes.c_uint64,
         "SIZE": size_t, "INT64": ctypes.c_int64, "TEXT": ctypes.c_char_p,
         "POINTER": ctypes.c_size_t}

def ask(name, kind="UINT64", new=None, call=libc.mallctl):
    value = TYPES[kind]()
    length = size_t(ctypes.sizeof(value))
    new_length = size_t(0 if new is None else ctypes.sizeof(new))
    key = (name.encode(),) if call is libc.mallctl else name
    error = call(*key, ctypes.byref(value), ctypes.byref(length),
                 None if new is None else ctypes.byref(new), new_length)
    found = value.value.decode() if isinstance(value.value, bytes) else value.value
    return found if error == 0 else errno.errorcode[error]

def act(name):
    return libc.mallctl(name.encode(), None, None, None, size_t(0))

def refresh():
    return ask("epoch", new=ctypes.c_uint64(1))

def mib_of(name, room=8):
    mib = (size_t * room)()
    length = size_t(room)
    error = libc.mallctlnametomib(name.encode(), mib, ctypes.byref(length))
    return error, mib, length.value
"""


def run_script(run_shim: RunShim, script: str, **env: str) -> Any:
    result = run_shim([sys.executable, "-S", "-c", PRELUDE + script], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_every_name_is_answered_in_its_type(run_shim: RunShim) -> None:
    names = {re.sub("<[ij]>", "0", name): kind for name, kind in ROWS.items()}
    assert len(names) > 180
    script = f"""
names = {names!r}
print(json.dumps({{n: ask(n, k) for n, k in names.items()}}))
"""
    answers = run_script(run_shim, script)
    refused = {name for name, value in answers.items() if value in ("ENOENT", "EINVAL", "EPERM")}
    assert refused == {"thread.prof.name", "arenas.lookup"}
    assert answers["version"].startswith("poolshim ")
    assert answers["opt.dirty_decay_ms"] == answers["arena.0.dirty_decay_ms"] == 250
    assert answers["arenas.page"] % 4096 == 0
    live = ["allocated", "active", "metadata", "resident", "mapped", "retained"]
    live += ["arenas.0." + name for name in ["nthreads", "pactive", "base", "small.allocated",
             "large.allocated", "small.nmalloc", "small.ndalloc", "large.nmalloc", "uptime"]]
    assert [name for name in live[:-1] if answers["stats." + name] <= 0] == []


def test_settings_are_those_in_force(run_shim: RunShim, tmp_path: Path) -> None:
    script = """
names = {"opt.dirty_decay_ms": "INT64", "opt.background_thread": "BOOL",
         "background_thread": "BOOL", "prof.active": "BOOL", "opt.stats_print": "BOOL"}
print(json.dumps([ask(name, kind) for name, kind in names.items()]))
"""
    env = {"PURGE_DELAY_MS": "7", "BACKGROUND": "0", "PROFILE": str(tmp_path / "a.pb.gz")}
    settings = {f"POOLSHIM_{name}": value for name, value in env.items()}
    assert run_script(run_shim, script, **settings) == [7, False, False, True, False]
    running = {"POOLSHIM_BACKGROUND": "1", "POOLSHIM_STATS": str(tmp_path / "stats")}
    assert run_script(run_shim, script, **running) == [250, True, True, False, True]


def test_the_purge_delay_may_be_changed(run_shim: RunShim) -> None:
    script = """
names = ["arenas.dirty_decay_ms", "arena.0.dirty_decay_ms", "opt.dirty_decay_ms"]
def change(name, value):
    return [ask(name, "INT64", new=ctypes.c_int64(value)), *(ask(n, "INT64") for n in names)]
print(json.dumps([change(names[0], 9), change("arena.4096.dirty_decay_ms", 77),
                  change(names[0], -1)[:2], change(names[0], -2)[0],
                  change("arena.9.dirty_decay_ms", 1)[0], change(names[2], 5)[0]]))
"""
    assert run_script(run_shim, script) == [
        [250, 9, 9, 250], [9, 77, 77, 250], [77, -1], "EFAULT", "ENOENT", "EPERM"
    ]  # fmt: skip


def test_wrong_calls_get_jemallocs_errors(run_shim: RunShim) -> None:
    script = """
value, length = ctypes.c_uint64(0x1122334455667788), size_t(4)
short = [libc.mallctl(b"arenas.page", ctypes.byref(value), ctypes.byref(length), None, size_t(0)),
         hex(value.value), length.value]
wide, length = (ctypes.c_uint64 * 2)(), size_t(16)
long = [libc.mallctl(b"arenas.page", wide, ctypes.byref(length), None, size_t(0)),
        wide[0] == ask("arenas.page"), length.value]
length = size_t(8)
print(json.dumps({
    "short": short, "long": long,
    "unknown": [ask(n) for n in ["", "stats", "stats.", "stats.allocatedx", "opt.tcachex",
                                 "arenas.bin.63.size", "arenas.bin..size", "arenas.bin.x.size",
                                 "arena.5.dirty_decay_ms", "arena.99999999999999999999.initialized",
                                 "stats.arenas.0.small.", ".version", "version."]],
    "read-only": [ask("stats.allocated", new=ctypes.c_uint64(1)), ask("opt.zero", "BOOL",
                  new=ctypes.c_bool(1)), ask("version", "TEXT", new=ctypes.c_char_p(b"x"))],
    "background_thread": ask("background_thread", "BOOL", new=ctypes.c_bool(True)),
    "now it runs": ask("background_thread", "BOOL", new=ctypes.c_bool(False)),
    "and is ended": ask("background_thread", "BOOL"),
    "length of epoch": ask("epoch", new=ctypes.c_uint32(1)),
    "value of an action": [ask("arena.0.purge"), ask("thread.tcache.flush")],
    "no profile": ask("prof.dump", "TEXT"),
    "written": libc.mallctl(b"prof.dump", None, None, ctypes.byref(ctypes.c_char_p()), size_t(8)),
    "nothing wanted": libc.mallctl(b"stats.allocated", None, None, None, size_t(0)),
    "length alone": libc.mallctl(b"version", None, ctypes.byref(length), None, size_t(0)),
}))
"""
    answers = run_script(run_shim, script)
    page = 4096
    assert answers.pop("short") == [22, hex(0x1122334400000000 | page), 4]
    assert answers.pop("long") == [22, True, 8]
    assert set(answers.pop("unknown")) == {"ENOENT"}
    assert set(answers.pop("read-only")) == {"EPERM"}
    assert answers == {
        "background_thread": False,
        "now it runs": True,
        "and is ended": False,
        "length of epoch": "EINVAL",
        "value of an action": ["EPERM", "EPERM"],
        "no profile": "ENOENT",
        "written": 2,
        "nothing wanted": 0,
        "length alone": 0,
    }


def test_mibs_stand_for_names(run_shim: RunShim) -> None:
    script = """
error, mib, length = mib_of("arenas.bin.0.size")
sizes = []
for i in range(ask("arenas.nbins", "UINT32")):
    mib[2] = i
    sizes.append(ask((mib, size_t(length)), call=libc.mallctlbymib))
mib[2] = 1000
beyond = ask((mib, size_t(length)), call=libc.mallctlbymib)
cut = ask((mib, size_t(length - 1)), call=libc.mallctlbymib)
_, purge, purge_length = mib_of("arena.4096.purge")
purged = libc.mallctlbymib(purge, size_t(purge_length), None, None, None, size_t(0))
foreign = (size_t * 2)(3, 1)
print(json.dumps([error, length, sizes, beyond, cut, purged, mib_of("stats.nothing")[0],
                  mib_of("epoch", 1)[::2], mib_of("arenas.bin.0.size", 3)[::2],
                  ask((foreign, size_t(2)), call=libc.mallctlbymib),
                  ask((foreign, size_t(0)), call=libc.mallctlbymib)]))
"""
    error, length, sizes, beyond, cut, purged, *rest = run_script(run_shim, script)
    assert (error, length, purged) == (0, 4, 0)
    assert sizes == sorted(sizes) and sizes[:2] == [8, 16] and len(sizes) > 20
    assert (beyond, cut) == ("ENOENT", "ENOENT")
    assert rest == [2, [0, 1], [0, 3], "ENOENT", "ENOENT"]


def test_figures_are_of_the_last_refresh_and_those_of_the_statistics(
    run_shim: RunShim, tmp_path: Path
) -> None:
    script = f"""
NAMES = ["allocated", "active", "metadata", "resident", "mapped", "retained"]
def figures():
    return [ask("stats." + name) for name in NAMES]
first = [ask("epoch"), figures()]
blocks = [libc.malloc(size) for size in [100, 5000, 100000, 50 << 20] * 20]
stale = [ask("epoch"), figures()]
epoch = refresh()
libc.poolshim_stats_write(b"{tmp_path}/now.json")
full = figures()
arena = [ask(f"stats.arenas.{{i}}.{{name}}") for i in (0, 1, {ALL})
         for name in ["small.allocated", "large.allocated", "pactive", "pdirty"]]
for block in blocks:
    libc.free(block)
purged = [act("arena.{ALL}.purge"), act("arena.0.decay"), act("thread.tcache.flush")]
after = [refresh(), figures()]
print(json.dumps([first, stale, epoch, full, arena, purged, after]))
"""
    first, stale, epoch, full, arena, purged, after = run_script(run_shim, script)
    assert first[0] >= 1 and stale == first and epoch == first[0] + 1 and after[0] == epoch + 1
    allocated, active, metadata, resident, mapped, retained = full
    report = json.loads((tmp_path / "now.json").read_text())
    near = 64 << 10  # what the script allocates between the two
    assert abs(allocated - report["memory"]["live_bytes"]) < near
    assert allocated - first[1][0] > 20 * ((50 << 20) + 105100)
    assert metadata == report["memory"]["metadata_bytes"]
    assert abs(retained - report["page_cache"]["clean_bytes"]) < 1 << 20
    assert abs(resident - report["memory"]["mapped_bytes"]) < 1 << 20
    assert allocated <= active <= mapped <= resident and active % 4096 == 0
    assert arena[:4] == arena[4:8] == arena[8:]
    assert arena[0] + arena[1] == allocated and arena[2] * 4096 == active
    assert mapped + arena[3] * 4096 == resident
    assert purged == [0, 0, 0]
    assert after[1][0] < allocated - 20 * (50 << 20) and after[1][3] < resident - (900 << 20)


def test_purge_returns_memory_at_once(run_shim: RunShim) -> None:
    script = """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
blocks = [libc.malloc(300000) for _ in range(300)]
for block in blocks:
    ctypes.memset(block, 1, 300000)
for block in blocks:
    libc.free(block)
full = resident()
error = act("arena.0.purge")
print(json.dumps([error, full, resident()]))
"""
    error, full, empty = run_script(run_shim, script, POOLSHIM_PURGE_DELAY_MS="3600000")
    assert error == 0
    assert full - empty > 60 << 20


def test_profile_is_written_by_prof_dump(run_shim: RunShim, tmp_path: Path) -> None:
    script = f"""
def dump(name):
    path = ctypes.c_char_p(name)
    return libc.mallctl(b"prof.dump", None, None, ctypes.byref(path), size_t(8))
errors = [dump(b"{tmp_path}/named.pb.gz"), dump(None), dump(b"{tmp_path}/no/such")]
print(json.dumps(errors), flush=True)
os._exit(0)
"""
    path = tmp_path / "default.pb.gz"
    assert run_script(run_shim, script, POOLSHIM_PROFILE=str(path)) == [0, 0, 14]
    assert path.read_bytes()[:2] == (tmp_path / "named.pb.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_prof_active_pauses_the_profile(run_shim: RunShim, tmp_path: Path) -> None:
    """16 MiB of samples are due each time; those that live when it pauses remain in the profile."""
    script = f"""
def dump(name):
    path = ctypes.c_char_p(b"{tmp_path}/" + name)
    return libc.mallctl(b"prof.dump", None, None, ctypes.byref(path), size_t(8))
def activate(name, value):
    return libc.mallctl(name, None, None, ctypes.byref(ctypes.c_bool(value)), size_t(1))
def fill():
    return [libc.malloc(100000) for _ in range(160)]
held = fill()
errors = [dump(b"1")]
errors += [activate(b"prof.active", False), ask("prof.active", "BOOL")]
fill()
errors += [dump(b"2"), activate(b"thread.prof.active", True), activate(b"prof.active", True)]
for block in held:
    libc.free(block)
fill()
print(json.dumps(errors + [ask("prof.active", "BOOL"), dump(b"3")]), flush=True)
os._exit(0)
"""
    found = run_script(run_shim, script, POOLSHIM_PROFILE=str(tmp_path / "p"),
                       POOLSHIM_PROFILE_INTERVAL="32KiB")  # fmt: skip
    assert found == [0, 0, False, 0, errno.EFAULT, 0, True, 0]
    profiles = [pprof.read(tmp_path / name) for name in "123"]
    made, live = (
        [sum(sample.values[one.index_of(name)] for sample in one.samples) for one in profiles]
        for name in ("alloc_space", "inuse_space")
    )
    assert made[0] > 15e6 and made[1] - made[0] < 1e6 and made[2] - made[1] > 15e6
    assert live[1] > 15e6 and 15e6 < live[2] < 20e6


PRINT = """
parts = []
@ctypes.CFUNCTYPE(None, pointer, ctypes.c_char_p)
def take(context, part):
    parts.append([context, part.decode()])
libc.malloc_stats_print(take, pointer(7), OPTIONS)
assert {context for context, _ in parts} == {7}
print(json.dumps("".join(part for _, part in parts)))
"""


def test_malloc_stats_print_gives_the_table_in_parts(run_shim: RunShim) -> None:
    text = run_script(run_shim, PRINT.replace("OPTIONS", "None"))
    assert re.match(r"poolshim \S+: statistics of process \d+, ", text)
    assert re.search(r"\n +all( +\d+){5} ", text)
    script = "import ctypes; ctypes.CDLL(None).malloc_stats_print(None, None, None)"
    result = run_shim([sys.executable, "-S", "-c", script])
    assert result.returncode == 0 and "\nsize classes\n" in result.stderr


def test_malloc_stats_print_has_jemallocs_json(run_shim: RunShim) -> None:
    report = json.loads(run_script(run_shim, PRINT.replace("OPTIONS", 'b"J"')))["jemalloc"]
    assert list(report) == ["version", "config", "opt", "arenas", "stats", "stats.arenas"]
    assert report["arenas"]["nbins"] == len(report["arenas"]["bin"])
    assert report["arenas"]["bin"][1]["size"] == 16 and report["opt"]["zero"] is False
    stats = report["stats"]
    assert 0 < stats["allocated"] <= stats["active"] <= stats["resident"]
    assert report["stats.arenas"]["merged"]["pactive"] * 4096 == stats["active"]


# ---- redis ----


class Redis:
    """A server under the shim, and its command line."""

    def __init__(self, folder: Path, shim: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        command = ["redis-server", "--port", self.port, "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            [*command, "--enable-debug-command", "local"], cwd=folder,
            env={"LD_PRELOAD": str(shim), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )  # fmt: skip

    def ask(self, *words: str) -> str:
        return run_captured(["redis-cli", "-p", self.port, *words], timeout=60).stdout

    def info(self) -> dict[str, str]:
        rows = (line.partition(":") for line in self.ask("info", "memory").splitlines())
        return {name: value.strip() for name, _, value in rows}

    def resident(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) << 10

    def until(self, holds: Callable[[], bool]) -> None:
        """It reads the figures every 100 ms."""
        end = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < end, self.info()
            time.sleep(0.05)


@pytest.fixture
def redis(shim: Path, tmp_path: Path) -> Iterator[Redis]:
    if shutil.which("redis-server") is None or shutil.which("redis-cli") is None:
        pytest.skip("redis is not installed")
    server = Redis(tmp_path, shim)
    try:
        server.until(lambda: server.ask("ping") == "PONG\n")
        yield server
    finally:
        server.process.terminate()
        _, errors = server.process.communicate(timeout=60)
    assert "poolshim" not in errors


def test_redis_reports_the_memory_it_has(redis: Redis) -> None:
    redis.ask("debug", "populate", "300000", "key", "200")
    redis.until(lambda: int(redis.info()["allocator_allocated"]) > 60 << 20)
    full = redis.info()
    allocated, active, resident = (
        int(full[f"allocator_{name}"]) for name in ("allocated", "active", "resident")
    )
    assert 0.98 * int(full["used_memory"]) < allocated < 1.1 * int(full["used_memory"])
    assert allocated <= active <= resident
    assert 0.9 < resident / redis.resident() < 1.1
    assert 1 <= float(full["allocator_frag_ratio"]) < 1.2
    assert "can't find any memory issue" in redis.ask("memory", "doctor")
    assert redis.ask("memory", "purge") == "OK\n"
    assert redis.ask("memory", "malloc-stats").startswith("poolshim ")
    assert "poolshim " in redis.ask("debug", "mallctl-str", "version")
    redis.ask("flushall")
    redis.ask("memory", "purge")
    redis.until(lambda: int(redis.info()["allocator_allocated"]) < 16 << 20)
    assert int(redis.info()["allocator_resident"]) < resident // 2
    assert redis.resident() < 32 << 20
