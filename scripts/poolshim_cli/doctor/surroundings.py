# SPDX-License-Identifier: MIT
"""What the environment adds: the library's own settings, and those of allocators that lose."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ..errors import OwnFailure
from .findings import FATAL, FINE, NOTE, WARNING, Diagnosis, Setting

LISTED = re.compile(r"^poolshim:   (\w+) +(\S.*?) +\((\w+)\)$")
SILENT = ("HARDEN", "GUARD_SAMPLE", "RECORD")  # settings whose modes do not sample
OTHERS = (
    (re.compile(r"^(MALLOC_CONF|_?JE_MALLOC_CONF|_RJEM_MALLOC_CONF)$"), "jemalloc"),
    (re.compile(r"^MALLOC_(ARENA|TRIM|TOP|MMAP|PERTURB|CHECK)\w*$"), "glibc"),
    (re.compile(r"^TCMALLOC_\w+$"), "tcmalloc"),
    (re.compile(r"^MIMALLOC_\w+$"), "mimalloc"),
)


def check_settings(diagnosis: Diagnosis, run: Path, env: Mapping[str, str]) -> None:
    """The settings in force, and what the library has to say about the variables."""
    bare = {name: value for name, value in env.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            [run, "--settings"], env=bare, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise OwnFailure(f"{run}: {error.strerror}: build first") from None
    complaints = []
    for line in done.stdout.splitlines():
        found = LISTED.match(line)
        if found:
            diagnosis.settings.append(Setting(*found.groups()))
        elif line.startswith("poolshim: POOLSHIM_"):
            complaints.append(line.removeprefix("poolshim: "))
    for complaint in complaints:
        diagnosis.add("setting", WARNING, complaint)
    is_strict = any(s.name == "STRICT" and s.value == "on" for s in diagnosis.settings)
    if complaints and is_strict:
        diagnosis.add(
            "strict", FATAL, "POOLSHIM_STRICT is on: the program ends with status 78 before main"
        )


def check_probes(diagnosis: Diagnosis, probes: set[str]) -> None:
    """Checks the probes for memory profilers, and the settings under which they never fire."""
    ours = sorted(name for name in probes if name.startswith("otel_memory:"))
    if not ours:
        diagnosis.add("no-probes", NOTE, "the library has no probes for memory profilers")
        return
    silent = next((s.name for s in diagnosis.settings if s.name in SILENT
                   and s.value not in ("0", "off", "")), None)  # fmt: skip
    if silent is None:
        diagnosis.add("probes", FINE, f"probes for memory profilers: {', '.join(ours)}")
    else:
        diagnosis.add("probes", NOTE, f"with POOLSHIM_{silent} the probes {', '.join(ours)} are "
                      "never hit")  # fmt: skip


def check_limit(diagnosis: Diagnosis, program: Path) -> None:
    """The limit of the container, and the option that heeds it. program: poolshim-limit."""
    try:
        done = subprocess.run([program], capture_output=True, text=True, check=False)
    except OSError as error:
        raise OwnFailure(f"{program}: {error.strerror}: build first") from None
    words = done.stdout.split()
    if len(words) != 2:
        return
    size = int(words[0]) / (1 << 20)
    is_heeded = any(s.name == "LIMIT" and s.value != "off" for s in diagnosis.settings)
    diagnosis.add(
        "limit", NOTE, f"the control group may have {size:,.0f} MiB of memory ({words[1]})",
        "" if is_heeded else "POOLSHIM_LIMIT=80% releases free memory before that is reached",
    )  # fmt: skip


def check_others(diagnosis: Diagnosis, env: Mapping[str, str]) -> None:
    """Variables that were meant for an allocator that no longer serves."""
    for name in sorted(env):
        other = next((one for pattern, one in OTHERS if pattern.match(name)), None)
        if other is not None:
            diagnosis.add("idle-variable", NOTE, f"{name} is for {other} and has no effect now")
    if "glibc.malloc." in env.get("GLIBC_TUNABLES", ""):
        diagnosis.add(
            "idle-variable", NOTE, "glibc.malloc.* in GLIBC_TUNABLES has no effect now"
        )
