# SPDX-License-Identifier: MIT
"""The profile that poolshim tune writes: read back as it was, and whole or not there.

    scripts/test tests/cli/test_tune_profile.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.tune import profile  # noqa: E402


def test_profiles_survive_the_way_through_a_file(tmp_path: Path) -> None:
    command = ("a b", 'quo"te', "back\\slash", "new\nline", "\x7f\x01", "ü€😀", "\udc80")
    kept = profile.Profile(command, {profile.VARIABLE: "8,16,32"}, {"a": 1, "b": 0.5}, {"c": "x"})
    path = tmp_path / "p.toml"
    profile.write_whole(path, profile.to_toml(kept).encode())
    found = profile.read(path)
    assert found.command == (*command[:-1], "?")
    assert found.table == (8, 16, 32)
    assert (found.predicted, found.verified) == ({"a": 1, "b": 0.5}, {"c": "x"})
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_was_there_stays_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.toml"
    path.write_text("old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(profile.os, "replace", fail)
    with pytest.raises(profile.BadRequest, match="No space left"):
        profile.write_whole(path, b"new")
    assert path.read_text() == "old" and [one.name for one in tmp_path.iterdir()] == ["p.toml"]
