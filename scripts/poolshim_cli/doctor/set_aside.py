# SPDX-License-Identifier: MIT
"""Huge pages that the system has set aside, for POOLSHIM_HUGE=hugetlb."""

from __future__ import annotations

import re
from pathlib import Path

from ..sizes import size_of
from .findings import FINE, NOTE, WARNING, Diagnosis

POOLS = Path("/sys/kernel/mm/hugepages")
MEMORY = Path("/proc/meminfo")
USUAL = re.compile(r"^Hugepagesize:\s+(\d+) kB", re.MULTILINE)
ADVICE = "docs/huge-pages.md has the other ways to set them aside"


def words_of(nbytes: int) -> str:
    """2 MiB, 1 GiB."""
    return f"{nbytes >> 30} GiB" if nbytes >= 1 << 30 else f"{nbytes >> 20} MiB"


def number_in(file: Path) -> int:
    """0 where there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def usual_bytes(memory: Path) -> int:
    """The size of the system's usual huge pages; 0: it has none."""
    try:
        found = USUAL.search(memory.read_text())
    except OSError:
        found = None
    return int(found[1]) << 10 if found else 0


def check_set_aside(diagnosis: Diagnosis, pools: Path = POOLS, memory: Path = MEMORY) -> None:
    """How many pages there are of the size that the setting names, and how many are free."""
    value = next((s.value for s in diagnosis.settings if s.name == "HUGE"), "")
    if not value.startswith("hugetlb"):
        return
    _, _, size = value.partition(":")
    nbytes = size_of(size) if size else usual_bytes(memory)
    pool = pools / f"hugepages-{nbytes >> 10}kB"
    if pools.is_dir() and not pool.is_dir():
        what = f" of {words_of(nbytes)}" if nbytes else ""
        names = ", ".join(sorted(one.name for one in pools.iterdir()))
        diagnosis.add("no-huge-pages", WARNING, f"this machine has no huge pages{what}",
                      f"it has: {names}")  # fmt: skip
        return
    pages = number_in(pool / "nr_hugepages")
    free = number_in(pool / "free_hugepages") - number_in(pool / "resv_hugepages")
    said = f"huge pages of {words_of(nbytes)}: {pages} set aside, {free} free"
    command = f"as root: echo 512 > {pool}/nr_hugepages; {ADVICE}"
    if pages == 0 and number_in(pool / "nr_overcommit_hugepages") == 0:
        diagnosis.add("no-huge-pages", WARNING,
                      f"no huge page of {words_of(nbytes)} is set aside, so ordinary ones are used",
                      command)  # fmt: skip
    elif free <= 0:
        diagnosis.add("huge-pages", NOTE, f"{said}: ordinary ones are used until some are", command)
    else:
        diagnosis.add("huge-pages", FINE, said)
