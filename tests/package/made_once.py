# SPDX-License-Identifier: MIT
"""What the tests of several files share, as a plugin of pytest: the packages, a bare system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bare_system import clone, make_base, run_ok


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/package makes of a clean checkout; or $TEST_DIST, made before."""
    if "TEST_DIST" in os.environ:
        return Path(os.environ["TEST_DIST"]).resolve()
    folder = tmp_path_factory.mktemp("dist")
    checkout = clone(tmp_path_factory.mktemp("checkout") / "poolshim")
    run_ok(checkout / "scripts" / "package", "--output", folder)
    return folder


@pytest.fixture(scope="session")
def base_system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each bare system is a copy of."""
    return make_base(tmp_path_factory.mktemp("base") / "root")
