# SPDX-License-Identifier: MIT
"""The static probes otel_memory:alloc and otel_memory:free, as tracers see and use them.

    scripts/test tests/shim/test_probes.py

A profiler attaches by a breakpoint of the kernel's or a debugger's, which raises the semaphore in
the process; here it is also written as a debugger writes it, through /proc.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import RunShim, run_captured

pytestmark = pytest.mark.preload

PROBE = re.compile(
    r"stapsdt .*\s+Provider: (\w+)\n +Name: (\w+)\n"
    r" +Location: (\w+), Base: (\w+), Semaphore: (\w+)\n +Arguments: (.*)"
)
# Works until SIGINT; prints whether allocations are sampled each time that this has changed.
LOOP = """
import ctypes, signal, sys
signal.signal(signal.SIGINT, lambda number, frame: sys.exit(0))
libc = ctypes.CDLL(None)
value, length, last = ctypes.c_bool(), ctypes.c_size_t(1), None
while True:
    kept = [bytes(100 + i % 5000) for i in range(2000)]
    libc.mallctl(b"prof.active", ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t())
    if value.value != last:
        last = value.value
        print(int(last), flush=True)
"""


def need(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")


def probes_of(library: Path) -> dict[str, tuple[int, int, str]]:
    """Name -> location, semaphore, arguments."""
    text = run_captured(["readelf", "-nW", library]).stdout
    return {
        f"{provider}:{name}": (int(location, 16), int(semaphore, 16), arguments)
        for provider, name, location, _, semaphore, arguments in PROBE.findall(text)
    }


def section_of(library: Path, address: int) -> tuple[str, str]:
    """Name and flags."""
    text = run_captured(["readelf", "-SW", library]).stdout
    rows = re.findall(r"\] (\S+) +\w+ +(\w+) \w+ (\w+) \w+ +([A-Z]*) ", text)
    return next(
        (name, flags)
        for name, start, size, flags in rows
        if "A" in flags and int(start, 16) <= address < int(start, 16) + int(size, 16)
    )


def test_notes_are_those_of_the_contract(shim: Path) -> None:
    probes = probes_of(shim)
    assert probes.keys() == {"otel_memory:alloc", "otel_memory:free"}
    words = {name: arguments.split() for name, (_, _, arguments) in probes.items()}
    assert [len(words[name]) for name in sorted(words)] == [3, 1]
    assert all(word.startswith("8@") for arguments in words.values() for word in arguments)
    for location, semaphore, _ in probes.values():
        assert section_of(shim, location) == (".text", "AX")
        assert section_of(shim, semaphore) == (".probes", "WA")
    headers = run_captured(["readelf", "-lW", shim]).stdout
    relro = re.search(r"GNU_RELRO +\S+ (\w+) \S+ \S+ (\w+)", headers)
    assert relro is not None
    start, size = (int(value, 16) for value in relro.groups())
    assert not any(start <= semaphore < start + size for _, semaphore, _ in probes.values())
    # In the file, as the kernel wants it: not in .bss.
    place = place_in_file(shim, min(semaphore for _, semaphore, _ in probes.values()))
    assert shim.read_bytes()[place : place + 4] == b"\0" * 4


def place_in_file(library: Path, address: int) -> int:
    text = run_captured(["readelf", "-lW", library]).stdout
    for offset, start, size in re.findall(r"LOAD +(\w+) (\w+) \w+ (\w+)", text):
        inside = address - int(start, 16)
        if 0 <= inside < int(size, 16):
            return int(offset, 16) + inside
    raise AssertionError("not in the file")


def test_probe_is_the_first_instruction_of_a_function(shim: Path) -> None:
    text = run_captured(["nm", shim]).stdout
    functions = dict(re.findall(r"^(\w+) t (ps_probe_\w+)$", text, re.MULTILINE))
    functions = {name: int(address, 16) for address, name in functions.items()}
    if not functions:
        pytest.skip("the library is stripped")
    locations = {name: location for name, (location, _, _) in probes_of(shim).items()}
    assert locations == {
        "otel_memory:alloc": functions["ps_probe_alloc"],
        "otel_memory:free": functions["ps_probe_free"],
    }


# ---- gdb ----


def gdb(run_shim: RunShim, shim: Path, program: list[str], *commands: str) -> str:
    """What it prints."""
    need("gdb")
    words = [word for one in commands for word in ("-ex", one)]
    command = ["gdb", "-nx", "-batch", "-ex", f"set environment LD_PRELOAD {shim}",
               "-ex", "set environment POOLSHIM_PROFILE_INTERVAL 16KiB",
               *words, "--args", *program]  # fmt: skip
    result = run_shim(command, preload=False, timeout=300)
    if re.search("ptrace|not permitted", result.stderr):
        pytest.skip(f"tracing is not permitted here: {result.stderr[-200:]}")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_gdb_lists_them(run_shim: RunShim, shim: Path) -> None:
    text = gdb(run_shim, shim, ["/bin/ls"], f"file {shim}", "info probes stap otel_memory")
    rows = re.findall(r"^stap +(otel_memory) +(\w+) +(0x\w+) +(0x\w+)", text, re.MULTILINE)
    found = {f"{provider}:{name}": (int(at, 16), int(s, 16)) for provider, name, at, s in rows}
    assert found == {name: row[:2] for name, row in probes_of(shim).items()}


def test_gdb_stops_at_them_with_the_arguments(run_shim: RunShim, shim: Path) -> None:
    """Its breakpoint raises the semaphore, by which sampling begins."""
    script = "x = [bytes(1000 + i % 3000) for i in range(200000)]; print('done')"
    text = gdb(
        run_shim, shim, [sys.executable, "-S", "-c", script],
        "catch load libpoolshim", "run", "delete", "break -probe-stap otel_memory:alloc",
        "continue",
        'printf "ALLOC %p %lu %lu %d\\n", $_probe_arg0, $_probe_arg1, $_probe_arg2, $_probe_argc',
        "p/x *(char *)$_probe_arg0", "bt 10", "delete",
        "break -probe-stap otel_memory:free", "continue",
        'printf "FREE %p %d\\n", $_probe_arg0, $_probe_argc', "bt 10", "delete", "continue",
    )  # fmt: skip
    allocated = re.search(r"^ALLOC 0x(\w+) (\d+) (\d+) 3$", text, re.MULTILINE)
    assert allocated is not None, text
    block, size, weight = int(allocated[1], 16), int(allocated[2]), int(allocated[3])
    assert block % 16 == 0 and size > 0 and weight >= max(size, 16 << 10)
    assert re.search(r"^FREE 0x\w+ 1$", text, re.MULTILINE)
    assert re.search(r"^#0 +ps_probe_free ", text, re.MULTILINE)
    assert len(re.findall(r"^#9 ", text, re.MULTILINE)) == 2  # stacks lead on
    assert "done" in text and "exited normally" in text


# ---- the semaphore, written from outside ----


class Program:
    """The loop, under the shim; the semaphores of its probes."""

    def __init__(self, shim: Path, **env: str) -> None:
        settings = {f"POOLSHIM_{name}": value for name, value in env.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", LOOP], env={"LD_PRELOAD": str(shim), **settings},
            stdout=subprocess.PIPE, text=True
        )  # fmt: skip
        self.semaphores = {name: row[1] for name, row in probes_of(shim).items()}
        self.name = shim.resolve().name

    def base(self) -> int:
        maps = Path(f"/proc/{self.process.pid}/maps").read_text()
        return min(int(line.split("-")[0], 16) for line in maps.splitlines() if self.name in line)

    def write(self, probe: str, value: int) -> None:
        with open(f"/proc/{self.process.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(self.base() + self.semaphores[f"otel_memory:{probe}"])
            memory.write(struct.pack("<H", value))

    def line(self) -> str:
        """The next one; none within a minute is a failure."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        assert ready, "the program has noticed no change"
        return self.process.stdout.readline().strip()


@pytest.fixture
def start(shim: Path) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def begin(**env: str) -> Program:
        programs.append(Program(shim, **env))
        return programs[-1]

    yield begin
    for program in programs:
        program.process.kill()
        program.process.communicate()


def test_sampling_begins_and_ends_with_the_semaphore(start: Callable[..., Program]) -> None:
    """The loop prints a change; a program that does not notice would never print."""
    program = start()
    assert program.line() == "0"
    for probe in ("alloc", "free", "alloc"):
        program.write(probe, 2)
        assert program.line() == "1"
        program.write(probe, 0)
        assert program.line() == "0"


def test_a_profile_goes_on_when_a_tracer_leaves(
    start: Callable[..., Program], tmp_path: Path
) -> None:
    program = start(PROFILE=str(tmp_path / "p.pb.gz"))
    assert program.line() == "1"
    program.write("alloc", 1)
    program.write("alloc", 0)
    program.process.send_signal(2)
    assert program.line() == ""  # no further change
    program.process.wait(timeout=60)
    assert (tmp_path / "p.pb.gz").exists()


# ---- the kernel ----


def tell_kernel(line: str) -> None:
    table = os.open("/sys/kernel/tracing/uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(table, line.encode() + b"\n")
    finally:
        os.close(table)


@pytest.fixture
def events(shim: Path, tmp_path: Path) -> Iterator[Path]:
    """perf's own store of what it knows of files, in which the probes are."""
    need("perf")
    library = tmp_path / "libpoolshim.so"  # a name of its own: nothing else is traced
    shutil.copy(shim.resolve(), library)
    store = ["perf", "--buildid-dir", str(tmp_path / "store")]
    run_captured([*store, "buildid-cache", "--add", library])
    listed = run_captured([*store, "list", "sdt"]).stdout
    assert "sdt_otel_memory:alloc" in listed and "sdt_otel_memory:free" in listed
    group = f"poolshim_{uuid.uuid4().hex}"  # none that a killed test has left
    lines = [
        f"p:{group}/{name.partition(':')[2]} {library}:"
        f"{place_in_file(library, location):#x}({place_in_file(library, semaphore):#x})"
        for name, (location, semaphore, _) in probes_of(library).items()
    ]
    made = []
    try:
        for line in lines:
            tell_kernel(line)
            made.append(line)
        yield library
    except OSError as error:
        pytest.skip(f"the kernel takes no probes here: {error}")
    finally:
        for line in made:
            tell_kernel("-:" + line.split()[0].removeprefix("p:"))


def test_the_kernels_breakpoints_begin_sampling(events: Path) -> None:
    """Attaches as OpenTelemetry's profiler: a breakpoint with the semaphore's file offset."""
    text = Path("/sys/kernel/tracing/uprobe_events").read_text()
    found = re.search(rf"p:(\w+)/alloc {re.escape(str(events))}:", text)
    assert found is not None
    program = Program(events)
    try:
        assert program.line() == "0"
        command = ["perf", "stat", "-x,", "-e", f"{found[1]}:alloc", "-e", f"{found[1]}:free",
                   "-p", str(program.process.pid)]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as perf:
            try:
                assert program.line() == "1"
                time.sleep(0.2)  # some samples
            finally:
                perf.send_signal(2)
            _, counts = perf.communicate(timeout=60)
        assert program.line() == "0"
    finally:
        program.process.kill()
        program.process.communicate()
    assert all(int(line.split(",")[0]) > 0 for line in counts.splitlines() if "poolshim_" in line)


# ---- BPF ----

# What OpenTelemetry's programs do: the weights of allocations, the live ones by address, by
# registers and not by the note's descriptions.
TRACE = """
usdt:LIBRARY:otel_memory:alloc {
    @weight = sum(reg("dx"));
    @live[reg("di")] = reg("dx");
    if (arg0 != reg("di") || arg1 != reg("si") || arg2 != reg("dx")) { @differ = count(); }
}
usdt:LIBRARY:otel_memory:free {
    if (@live[arg0] != 0) { @freed = sum(@live[arg0]); delete(@live[arg0]); }
    else { @unknown = count(); delete(@live[arg0]); }
}
"""
# Polls until allocations are sampled, allocates KEPT and MADE blocks, says so, and reads a line.
BLOCK_BYTES, KEPT, MADE = 8192, 400, 4000
KNOWN = f"""
import ctypes, sys, time
libc = ctypes.CDLL(None)
value, length = ctypes.c_bool(), ctypes.c_size_t(1)
while not value.value:
    for i in range(200): bytes(600)
    libc.mallctl(b"prof.active", ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t())
    time.sleep(0.005)
kept = [bytes({BLOCK_BYTES} - 64) for i in range({KEPT})]
for i in range({MADE}): bytes({BLOCK_BYTES} - 64)
print("done", flush=True)
sys.stdin.readline()
"""


def need_bpf() -> None:
    need("bpftrace")
    tried = run_captured(["bpftrace", "-e", "BEGIN { exit(); }"])
    if tried.returncode != 0:
        pytest.skip(f"the kernel takes no BPF programs here: {tried.stderr[-200:]}")
    if os.uname().machine != "x86_64":
        pytest.skip("the registers are those of x86-64")


def test_a_bpf_program_sees_what_is_allocated_and_live(shim: Path, tmp_path: Path) -> None:
    need_bpf()
    library = tmp_path / "libpoolshim.so"
    shutil.copy(shim.resolve(), library)
    script = tmp_path / "trace.bt"
    script.write_text(TRACE.replace("LIBRARY", str(library)))
    env = {"LD_PRELOAD": str(library), "POOLSHIM_PROFILE_INTERVAL": "4KiB"}
    with subprocess.Popen([sys.executable, "-S", "-c", KNOWN], env=env, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:  # fmt: skip
        tracer = subprocess.Popen(
            ["bpftrace", "-f", "json", "-p", str(program.pid), script], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert program.stdout is not None and program.stdin is not None
            ready, _, _ = select.select([program.stdout], [], [], 60)
            assert ready, "no allocation was sampled"
            assert program.stdout.readline() == "done\n"
        finally:
            tracer.send_signal(2)
            out, errors = tracer.communicate(timeout=60)
            program.kill()
    maps: dict[str, object] = {}
    for line in filter(None, out.splitlines()):
        found = json.loads(line)
        if found["type"] in ("map", "stats"):
            maps |= found["data"]
    assert "@weight" in maps, errors
    assert not maps.get("@differ") and not maps.get("@unknown")
    live = sum(maps["@live"].values())  # type: ignore[attr-defined]
    assert maps["@weight"] == pytest.approx((KEPT + MADE) * BLOCK_BYTES, rel=0.06)
    assert live == pytest.approx(KEPT * BLOCK_BYTES, rel=0.12)
    assert maps["@weight"] == live + maps["@freed"]  # type: ignore[operator]
