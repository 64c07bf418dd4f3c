# SPDX-License-Identifier: MIT
"""`poolshim doctor` in a control group with a limit of memory names the limit and the option.

    scripts/test tests/cli/test_cli_container.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import run_captured
from memory_cgroup import entering, limited_group
from programs import POOLSHIM, bare_environment, folder, mapper  # noqa: F401
from table import each_row

pytestmark = pytest.mark.preload


@pytest.mark.root
@each_row("limit", [None, "80%"])
def test_limit_of_the_container_is_shown(
    mapper: Path, shim: Path, limit: str | None  # noqa: F811
) -> None:
    env = bare_environment(**({"POOLSHIM_LIMIT": limit} if limit else {}))
    with limited_group(300 << 20) as group:
        done = run_captured(
            [POOLSHIM, "doctor", "--json", mapper], env=env, preexec_fn=entering(group)
        )
    assert done.returncode == 0, done.stderr
    (found,) = (f for f in json.loads(done.stdout)["findings"] if f["code"] == "limit")
    assert found["level"] == "note" and "may have 300 MiB of memory" in found["message"]
    assert ("POOLSHIM_LIMIT=80%" in found["advice"]) == (limit is None)
