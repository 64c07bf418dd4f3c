# SPDX-License-Identifier: MIT
"""The rule `declaration` of scripts/dev/lint sees every symbol that the linker knows.

    scripts/test tests/repo/test_declarations.py
"""

from __future__ import annotations

import re
from pathlib import Path

from conftest import ROOT, run_captured
from linting import Tree
from linting.declarations import statements


def test_no_symbol_of_the_libraries_is_missed(build_dir: Path) -> None:
    known = {
        statement.name
        for statement in statements(Tree.at(ROOT))
        if statement.is_definition and not statement.is_static
    }
    for library in ("libpoolshim-core.a", "libpoolshim-pools.a"):
        listed = run_captured(["nm", "-g", "--defined-only", build_dir / library]).stdout
        symbols = set(re.findall(r"^[0-9a-f]+ [TDBRVW] (\w+)$", listed, re.MULTILINE))
        assert len(symbols) > 100
        assert not symbols - known
