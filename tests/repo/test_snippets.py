# SPDX-License-Identifier: MIT
"""The unit and the manifest of docs/containers.md are what systemd and Kubernetes read, the jobs of
docs/gate.md what the services and the command do.

    scripts/test tests/repo/test_snippets.py

The Dockerfiles are run by scripts/test --packages.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row
from test_habits import workflow_problems

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.gate import arguments  # noqa: E402

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


# ---- the jobs of docs/gate.md ----

GATE = (ROOT / "docs" / "gate.md").read_text()


def gate_words(kind: str) -> list[str]:
    """The command line of the gate in a job."""
    yaml = pytest.importorskip("yaml")
    found = re.search(rf"<!-- {kind}: \S+ -->\n```yaml\n(.*?\n)```", GATE, re.DOTALL)
    assert found, kind
    jobs = yaml.safe_load(found[1])
    if kind == "workflow":
        lines = [step["run"] for step in jobs["jobs"]["gate"]["steps"] if "run" in step]
    else:
        lines = jobs["gate"]["script"]
        assert jobs["gate"]["artifacts"]["reports"]["junit"] == "gate.xml"
    (line,) = [line for line in lines if line.startswith("poolshim gate ")]
    return shlex.split(line)[2:]


@each_row("kind", ["workflow", "pipeline"])
def test_jobs_call_the_gate_as_it_is(kind: str) -> None:
    request = arguments.parse(gate_words(kind))
    assert request.junit == Path("gate.xml") and "{port}" in request.server
    assert request.load and not request.command


def test_the_workflow_with_the_gate_has_the_form_that_the_service_demands(tmp_path: Path) -> None:
    found = re.search(r"<!-- workflow: \S+ -->\n```yaml\n(.*?\n)```", GATE, re.DOTALL)
    assert found
    path = tmp_path / "leaks.yml"
    for text, is_good in ((found[1], True), (found[1].replace("runs-on:", "run-on:"), False)):
        path.write_text(text)
        assert (workflow_problems(path) == "") == is_good
