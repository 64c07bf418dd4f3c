# SPDX-License-Identifier: MIT
"""Which test programs a build leaves out: the other half of keep_buildable and keep_threaded in
tests/CMakeLists.txt.

    scripts/test tests/repo/test_elsewhere.py
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest


THREADS = re.compile(
    r'pthread_create|thrd_create|std::thread|/(worker|announced|fork_step|sampled|new_domain)\.h'
)


def leading_options(text: str, key: str) -> list[str]:
    """The words of the lines "// <key>: <words>" among the first ones."""
    lines = re.findall(rf"^// {key}: *(.*)$", "\n".join(text.splitlines()[:12]), re.MULTILINE)
    return [word for line in lines for word in line.split()]


def reason_left_out(cache: str, source: Path) -> str:
    """Why a build with this CMakeCache.txt does not have the program; "" if it does."""
    text = source.read_text()
    files = [source.name, *leading_options(text, "lib")]
    if "\nCMAKE_CXX_FLAGS_DEBUG:" not in cache and any(name.endswith(".cpp") for name in files):
        return "this build has no C++ compiler"
    has_glibc = re.search(r"^POOLSHIM_HAS_GLIBC:INTERNAL=1$", cache, re.MULTILINE)
    if leading_options(text, "libc") and not has_glibc:
        return "needs glibc, for which this build is not"
    if "\nPOOLSHIM_SANITIZE:STRING=thread\n" in cache and not THREADS.search(text):
        return "one thread has no races"
    return ""


@lru_cache
def cache_of(build: Path) -> str:
    """CMakeCache.txt of a build."""
    return (build / "CMakeCache.txt").read_text()


def skip_left_out(build: Path, source: Path) -> None:
    """Skips the calling test where the build does not have the program."""
    reason = reason_left_out(cache_of(build), source)
    if reason:
        pytest.skip(reason)
