# SPDX-License-Identifier: MIT
"""Sizes and limits as the flags of `poolshim run`, the library and `poolshim set` read them: alike.

    scripts/test tests/cli/test_cli_sizes.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from programs import poolshim
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import limits  # noqa: E402

pytestmark = pytest.mark.preload
WRITTEN = {
    "512Mi": 512 << 20, "512MB": 512_000_000, "0.5G": 1 << 29, "1.25gib": 5 << 28, "2 GiB": 2 << 30,
    "1536k": 1536 << 10, "80.5%": "80%", "80 %": "80%", "100.0%": "100%",
}  # fmt: skip
REFUSED = ("80", "2.5", "0.9%", "100.1%", "1.M", ".5G", "1.2.3G", "5GiBs", "1iB", "%",
           "0.0000000001G")  # fmt: skip
SIZE = re.compile(r"(\d+)(K|M|G|)(?:iB)?")


@pytest.fixture(scope="module", autouse=True)
def built(shim: Path) -> None:
    """The tests need the library of the build under test."""


def listed(*words: str, **settings: str) -> str:
    """The limit that is in force, by the library's own parser."""
    env = {f"POOLSHIM_{name}": value for name, value in settings.items()}
    lines = poolshim("run", *words, "--settings", env=env).stdout.splitlines()
    return next(line.split()[2] for line in lines if line.startswith("poolshim:   LIMIT "))


def number_of(text: str) -> int | str:
    """A size as the listing has it."""
    found = SIZE.fullmatch(text)
    return int(found[1]) << 10 * " KMG".index(found[2] or " ") if found else text


@each_row(("text", "value"), WRITTEN.items())
def test_a_limit_is_read_alike_everywhere(text: str, value: int | str) -> None:
    assert number_of(listed("--limit", text)) == value
    assert number_of(listed(LIMIT=text)) == value
    assert limits.shown(limits.word_of(text)) == value


@each_row("text", REFUSED)
def test_a_limit_is_refused_alike_everywhere(text: str) -> None:
    assert poolshim("run", "--limit", text, "true").returncode == 125
    assert listed(LIMIT=text) == "off"
    with pytest.raises(ValueError, match="is "):
        limits.word_of(text)


def test_a_bare_number_that_may_be_a_percentage_is_told_so() -> None:
    meant = "(a percentage is written 80%)"
    assert meant in poolshim("run", "--limit=80", "true").stderr
    with pytest.raises(ValueError, match=re.escape(meant)):
        limits.word_of("80")
    assert "percentage" not in poolshim("run", "--limit=101", "true").stderr
