# SPDX-License-Identifier: MIT
"""Huge pages that a test has the machine set aside, from its free memory; root."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
LOCK = Path(tempfile.gettempdir()) / "poolshim-test-hugetlb"

SetAside = Callable[[int], None]


def number(name: str) -> int:
    """A figure of the system's."""
    return int((POOL / name).read_text())


@pytest.fixture
def set_aside() -> Iterator[SetAside]:
    """Sets so many pages aside, besides those that there are. One test at a time."""
    if not POOL.is_dir():
        pytest.skip("no huge pages of 2 MiB here")
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = number("nr_hugepages")
        if number("free_hugepages") != 0 or number("nr_overcommit_hugepages") != 0:
            pytest.skip("other programs may take the pages")

        def change(count: int) -> None:
            try:
                (POOL / "nr_hugepages").write_text(str(before + count))
            except OSError as error:
                pytest.skip(f"no huge pages can be set aside: {error}")
            if number("nr_hugepages") != before + count:
                pytest.skip("the memory is too fragmented for huge pages")

        try:
            yield change
        finally:
            (POOL / "nr_hugepages").write_text(str(before))
