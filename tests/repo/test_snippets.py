# SPDX-License-Identifier: MIT
"""The unit and the manifest of docs/containers.md are what systemd and Kubernetes read.

    scripts/test tests/repo/test_snippets.py

The Dockerfiles are run by scripts/test --packages.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row

TEXT = (ROOT / "docs" / "containers.md").read_text()


def snippet(kind: str) -> str:
    found = re.search(rf"<!-- {kind}: \S+ -->\n```\w+\n(.*?\n)```", TEXT, re.DOTALL)
    assert found, kind
    return found[1]


def drop_in_is_understood_by_systemd(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "service.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n" + snippet("unit").partition("\n")[2])
    good = run_captured(["systemd-analyze", "verify", "--man=no", unit])
    if "Failed to" in good.stderr and "manager" in good.stderr:
        pytest.skip(f"systemd-analyze does not work here: {good.stderr.splitlines()[0]}")
    assert "service.service" not in good.stderr, good.stderr
    unit.write_text(unit.read_text().replace("Environment=LD", "Enviroment=LD"))
    bad = run_captured(["systemd-analyze", "verify", "--man=no", unit])
    assert "Enviroment" in bad.stderr


def manifest_is_yaml_whose_volumes_exist(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    pod = yaml.safe_load(snippet("manifest"))
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    spec = pod["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    service = spec["containers"][0]
    values = {one["name"]: one["value"] for one in service["env"]}
    paths = {mount["mountPath"] for mount in service["volumeMounts"]}
    assert str(Path(values["LD_PRELOAD"]).parent) in paths


@each_row("check", [drop_in_is_understood_by_systemd, manifest_is_yaml_whose_volumes_exist])
def test_snippets(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)
