# SPDX-License-Identifier: MIT
"""Runs a real program plainly and under the shim, compares, and proves that the shim served it.

    run = RealProgram(run_shim, tmp_path)
    run.compare(["sort", "words"], served=["sort"], files={"words": text})
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import RunShim

# Nothing of the user's that could make two runs differ.
ENVIRONMENT = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "HOME": "/nonexistent",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": "1700000000",
}


def need(*programs: str) -> None:
    """Skips the test where one of the programs is not installed."""
    for program in programs:
        if shutil.which(program, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin") is None:
            pytest.skip(f"{program} is not installed")


def transparent_huge_pages() -> str:
    """The system's choice: always, madvise or never."""
    text = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    return text.partition("[")[2].partition("]")[0]


def read_reports(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The statistics that processes left in `folder`, by the name of the program."""
    reports: dict[str, list[dict[str, Any]]] = {}
    for path in folder.glob("*.json"):
        report = json.loads(path.read_text())
        reports.setdefault(report["program"], []).append(report)
    return reports


def assert_served(reports: dict[str, list[dict[str, Any]]], programs: list[str]) -> None:
    """Each of the programs left a report of a heap that really served its blocks."""
    for program in programs:
        names = [name for name in reports if name.startswith(program)]
        assert names, f"no statistics of {program}, only of {sorted(reports)}"
        report = reports[names[0]][0]
        assert report["memory"]["mapped_bytes"] > 0
        assert any(entry["slab_count"] > 0 for entry in report["size_classes"])


def is_mapped(pid: int, shim: Path) -> bool:
    """Whether the running process has the library mapped."""
    return str(shim.resolve()) in Path(f"/proc/{pid}/maps").read_text()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass
class RealProgram:
    run_shim: RunShim
    folder: Path

    def prepare(self, files: dict[str, str]) -> Path:
        """Always the same path, as compilers write it into what they make."""
        work = self.folder / "work"
        work.mkdir()
        for file, text in files.items():
            (work / file).parent.mkdir(parents=True, exist_ok=True)
            (work / file).write_text(text)
        return work

    def run(
        self, work: Path, command: list[str], env: dict[str, str], preload: bool, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        environment = {**ENVIRONMENT, "HOME": str(work), **env}
        if preload:
            environment["POOLSHIM_STATS"] = str(self.folder / "%p.json")
        result = self.run_shim(
            command, env=environment, timeout=timeout, preload=preload, cwd=work
        )
        where = "under the shim" if preload else "plainly"
        assert result.returncode == 0, (
            f"{command[0]} {where}: status {result.returncode}\n"
            f"{result.stdout[-1500:]}{result.stderr[-1500:]}"
        )
        assert "poolshim:" not in result.stderr
        return result

    def compare(
        self,
        command: list[str],
        served: list[str],
        files: dict[str, str] | None = None,
        outputs: list[str] | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> str:
        """Runs twice in folders with the same files; stdout and output files must be equal."""
        results = {}
        for name in ("plain", "shimmed"):
            work = self.prepare(files or {})
            result = self.run(work, command, env or {}, name == "shimmed", timeout)
            written = {output: digest(work / output) for output in outputs or []}
            results[name] = (result.stdout, written)
            work.rename(self.folder / name)
        assert results["shimmed"] == results["plain"]
        assert_served(read_reports(self.folder), served)
        return results["shimmed"][0]
