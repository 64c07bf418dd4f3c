# SPDX-License-Identifier: MIT
"""What a figure is worth nothing without: processor, memory, kernel, huge pages, settings."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection
from pathlib import Path

# Variables that change how an allocator behaves; whatever of them is set goes into the report.
TUNING = re.compile(
    r"^(POOLSHIM|MALLOC|GLIBC_TUNABLES|MIMALLOC|TCMALLOC|_?JE_MALLOC|_RJEM|SCUDO|FLOOR|LD_"
    r"|PYTHONMALLOC)"
)
# Whose they are: a part of the name of its library. The others concern every process.
OWNERS = (
    (re.compile(r"POOLSHIM_"), "poolshim"),
    (re.compile(r"MALLOC_CONF$|_?JE_MALLOC_|_RJEM_"), "jemalloc"),
    (re.compile(r"MALLOC_|GLIBC_TUNABLES$"), "libc.so"),
    (re.compile(r"TCMALLOC_"), "tcmalloc"),
    (re.compile(r"MIMALLOC_"), "mimalloc"),
    (re.compile(r"SCUDO_"), "scudo"),
    (re.compile(r"FLOOR_"), "floor"),
)

# Ours and the tests': no settings of an allocator, and no measured process sees them.
HARNESS_PREFIXES = ("POOLSHIM_BENCH_", "POOLSHIM_BUILD_")


def read_text(path: str) -> str:
    """The file's text, "" where it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def memory_kib(key: str) -> int:
    """A line of /proc/meminfo in KiB, 0 if it is not there."""
    found = re.search(rf"^{key}:\s+(\d+) kB", read_text("/proc/meminfo"), re.MULTILINE)
    return int(found.group(1)) if found else 0


def huge_page_mode() -> str:
    """always, madvise or never; "unknown" on kernels without the file."""
    found = re.search(r"\[(\w+)\]", read_text("/sys/kernel/mm/transparent_hugepage/enabled"))
    return found.group(1) if found else "unknown"


def foreign_cpu_s() -> float:
    """CPU seconds used so far, on all cores, except by this process and its finished children.

    Time that a hypervisor took away counts as used by others. 0 where /proc/stat is missing.
    """
    fields = [int(word) for word in read_text("/proc/stat").partition("\n")[0].split()[1:9]]
    if len(fields) < 8:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    busy_s = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy_s - sum(os.times()[:4])


def tuning_variables() -> dict[str, str]:
    """The allocator settings in our own environment, which the measured processes inherit."""
    return {
        key: value
        for key, value in sorted(os.environ.items())
        if TUNING.match(key) and key != "LD_PRELOAD" and not key.startswith(HARNESS_PREFIXES)
    }


def inherited_by(libraries: list[str], set_here: Collection[str]) -> dict[str, str]:
    """The settings that affect a process that runs on one of the libraries.

    A library with an unknown name may read any of them.
    """
    names = [Path(library).name for library in libraries]
    is_known = all(any(owner in name for _, owner in OWNERS) for name in names)
    found = {}
    for key, value in tuning_variables().items():
        owner = next((owner for pattern, owner in OWNERS if pattern.match(key)), None)
        is_meant = owner is None or not is_known or any(owner in name for name in names)
        if is_meant and key not in set_here and not key.startswith("LD_"):
            found[key] = value
    return found


def describe() -> dict[str, object]:
    """Everything above as one JSON-able object."""
    model = re.search(
        r"^(?:model name|Model)\s*:\s*(.+)$", read_text("/proc/cpuinfo"), re.MULTILINE
    )
    system = re.search(r'^PRETTY_NAME="?([^"\n]+)', read_text("/etc/os-release"), re.MULTILINE)
    return {
        "cpu": model.group(1) if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "is_virtual": " hypervisor" in read_text("/proc/cpuinfo"),
        "memory_gib": round(memory_kib("MemTotal") / (1 << 20), 1),
        "kernel": platform.release(),
        "system": system.group(1) if system else platform.system(),
        "huge_pages": huge_page_mode(),
        "load_average": list(os.getloadavg()),
        "tuning": tuning_variables(),
    }


def one_line(machine: dict[str, object]) -> str:
    """The machine for the line under a table."""
    virtual = ", virtual" if machine["is_virtual"] else ""
    return (
        f"{machine['cpu']} ({machine['cores']} cores{virtual}), {machine['memory_gib']} GiB, "
        f"{machine['system']}, Linux {machine['kernel']}, huge pages: {machine['huge_pages']}"
    )
