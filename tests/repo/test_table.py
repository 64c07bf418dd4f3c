# SPDX-License-Identifier: MIT
"""tests/table.py: all rows that fail are reported, and no row is taken for another.

    scripts/test tests/repo/test_table.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from table import each_row


def test_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @each_row("a, b", [(1, 1), (1, 2), (2, 3), (0, 0)])
    def compare(a: int, b: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").mkdir()
        assert "EACH_ROW" not in os.environ
        monkeypatch.setenv("EACH_ROW", "1")
        if a == 0:
            pytest.skip("nothing")
        assert a == b

    with pytest.raises(pytest.fail.Exception) as found:
        compare(tmp_path=tmp_path, monkeypatch=monkeypatch)
    text = str(found.value)
    assert text.startswith("2 of 4 rows:\nrow 1, a=1, b=2\n") and "\nrow 2, a=2, b=3\n" in text

    @each_row("reason", ["one", pytest.param("two")])
    def skip(reason: str) -> None:
        pytest.skip(reason)

    with pytest.raises(pytest.skip.Exception, match="one"):
        skip()

    @each_row("a", [1, 2])
    @each_row("b", [{"c": 1}, {"c": 3}])
    def both(a: int, b: dict[str, int]) -> None:
        assert a + b["c"] == 2

    with pytest.raises(pytest.fail.Exception) as found:
        both()
    assert "1 of 2 rows:\nrow 1, b={'c': 3}" in str(found.value)
    assert "row 1, a=2\n2 of 2 rows" in str(found.value)
