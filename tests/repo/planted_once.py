# SPDX-License-Identifier: MIT
"""A planted release for each test, as a plugin of pytest; its sources are committed once."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted_release import commit_sources, place_in
from publishable import Place, need


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the checkout of each release is a copy of."""
    need("git")
    return commit_sources(tmp_path_factory.mktemp("committed") / "tree")


@pytest.fixture
def place(tmp_path: Path, committed: Path) -> Place:
    return place_in(tmp_path, committed)
