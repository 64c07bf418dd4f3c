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
from conftest import BUILD_DIR, ROOT, run_captured

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import files  # noqa: E402
from poolshim_cli.tune import profile  # noqa: E402


def test_profiles_survive_the_way_through_a_file(tmp_path: Path) -> None:
    command = ("a b", 'quo"te', "back\\slash", "new\nline", "\x7f\x01", "ü€😀", "\udc80")
    kept = profile.Profile(command, {profile.VARIABLE: "8,16,32"}, {"a": 1, "b": 0.5}, {"c": "x"})
    path = tmp_path / "p.toml"
    files.write_whole(path, profile.to_toml(kept).encode())
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

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(files.OwnFailure, match="No space left"):
        files.write_whole(path, b"new")
    assert path.read_text() == "old" and [one.name for one in tmp_path.iterdir()] == ["p.toml"]


def test_arrays_and_texts_are_the_same_table(tmp_path: Path) -> None:
    for text in ('"16,48"', "[16, 48]"):
        path = tmp_path / "p.toml"
        path.write_text(f"poolshim_profile = 1\nsize_classes = {text}\n[x]\nharden = 3\n")
        assert profile.read(path).settings == {profile.VARIABLE: "16,48"}


def test_poolshim_run_takes_a_profile_as_it_was_written(shim: Path, tmp_path: Path) -> None:
    settings = {profile.VARIABLE: "16,1040,2048", "POOLSHIM_SMALL_MAX": "2048"}
    kept = profile.Profile(("a", "[b]"), settings, {"live_bytes": 1}, {"rss_ratio": 0.8})
    files.write_whole(tmp_path / "p.toml", profile.to_toml(kept).encode())
    assert profile.read(tmp_path / "p.toml").settings == settings
    words = [ROOT / "scripts" / "poolshim", "run", "--tuned", tmp_path / "p.toml", "--", "env"]
    shown = run_captured(words, env={**os.environ, "POOLSHIM_BUILD_DIR": str(BUILD_DIR)}).stdout
    assert set(settings.items()) <= {tuple(line.split("=", 1)) for line in shown.splitlines()}
