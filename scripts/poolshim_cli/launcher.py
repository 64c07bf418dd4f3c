# SPDX-License-Identifier: MIT
"""Starts one process by the launcher (scripts/native/launcher.c) and checks all it reports.

The launcher preloads the library into that process only, proves that it was mapped, and measures
times and RSS. The caller decides on failures; here each is a RunFailed of one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import places
from .errors import OwnFailure, RunFailed
from .machine import HARNESS_PREFIXES


@dataclass(frozen=True)
class Launch:
    """One command, and what it is measured with."""

    command: tuple[str, ...]
    library: Path | None = None  # preloaded, and demanded to be mapped
    env: dict[str, str] = field(default_factory=dict)  # for the command only
    sample_ms: int = 0  # RSS every so often; 0: never
    warm_mib: int = 0  # memory to touch and release before the start
    is_family: bool = False  # the samples count all descendants of the command

    def words(self, launcher: Path, result: Path | str) -> list[str]:
        """The launcher's whole command line; its report goes to the file `result`."""
        words = [str(launcher), "-o", str(result), "--warm-mib", str(self.warm_mib)]
        if self.sample_ms:
            words += ["--samples", str(self.sample_ms)]
        words += ["--family"] if self.is_family else []
        for name, value in self.env.items():
            words += ["--env", f"{name}={value}"]
        if self.library is not None:
            words += ["--env", f"LD_PRELOAD={self.library}"]
            words += ["--expect-mapped", str(self.library)]
        return [*words, "--", *self.command]


@dataclass(frozen=True)
class Measured:
    """What came of it: the launcher's report, and what the command wrote where it was captured."""

    report: dict[str, Any]
    stdout: str
    stderr: str

    @property
    def peak_rss_kib(self) -> int:
        """VmHWM, which exec starts afresh; ru_maxrss where it could not be read."""
        return int(self.report["peak_rss_kib"] or self.report["max_rss_kib"])


def clean_environment() -> dict[str, str]:
    """Our environment without LD_PRELOAD and our own settings: launcher and program start bare."""
    return {
        key: value
        for key, value in os.environ.items()
        if key != "LD_PRELOAD" and not key.startswith(HARNESS_PREFIXES)
    }


def measure(
    launch: Launch, timeout_s: float | None = None, launcher: Path | None = None, **options: Any
) -> Measured:
    """Runs the command to its end, whatever that is; check_exit and check_mapping judge it.

    Options go to subprocess.run; standard output and error are captured unless they say otherwise.
    RunFailed if there is no report: the command could not be started, or took too long.
    """
    program = launcher or places.find().launcher
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with tempfile.NamedTemporaryFile(prefix="poolshim-", suffix=".json") as result:
        try:
            done = subprocess.run(
                launch.words(program, result.name), text=True, errors="replace", check=False,
                timeout=timeout_s, env=clean_environment(), **options,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RunFailed(f"no end after {timeout_s:.0f} s") from None
        except OSError as error:
            raise OwnFailure(f"{program}: {error.strerror}") from None
        text = Path(result.name).read_text()
    return Measured(parse_report(text, done), done.stdout or "", done.stderr or "")


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line for line in text.splitlines() if line.strip()), "no message")


def parse_report(text: str, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The launcher's report, or RunFailed with what it said instead."""
    try:
        report: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError:
        raise RunFailed(
            f"launcher: exit status {done.returncode}: {first_line(done.stderr or '')}"
        ) from None
    return report


def check_exit(report: dict[str, Any], stderr: str) -> None:
    """The program itself ended well; the launcher's own exit status also speaks of the mapping."""
    if report["signal"] is not None:
        raise RunFailed(f"ended by signal {report['signal']}: {first_line(stderr)}")
    if report["exit_status"] != 0:
        raise RunFailed(f"exit status {report['exit_status']}: {first_line(stderr)}")


def check_mapping(
    report: dict[str, Any], library: Path | None, others: Iterable[Path], stderr: str
) -> None:
    """The library was in the process, and none of the others was; None: nothing was preloaded."""
    if library is not None and not report["is_expected_mapped"]:
        raise RunFailed(f"{library.name} was not mapped: {first_line(stderr)}")
    unwanted = set(others) - {library}
    for path in report["mapped"]:
        if Path(path) in unwanted:
            raise RunFailed(f"another allocator was mapped: {path}")
