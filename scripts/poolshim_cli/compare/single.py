# SPDX-License-Identifier: MIT
"""Runs one command once under one column: by the launcher, timed by hyperfine around it.

One process gives all the figures of a run: hyperfine's time, the launcher's own time, CPU and peak
RSS, and the proof that the library was mapped in exactly the process that was timed. hyperfine's
time includes the launcher (about a millisecond), which is known for each run and reported.
Without hyperfine the launcher's clock serves alone. Nothing but the command itself is preloaded.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import OwnFailure, RunFailed
from ..launcher import Launch, check_mapping, clean_environment
from . import processes
from .plan import Column
from .results import Run

# Allocators that programs are linked to, beside those of the table.
ALLOCATOR = re.compile(r"/lib(je|tc|mi|sn|rp|super|hardened_|scalable|tbb)malloc[^/]*\.so[^/]*$")
CURVE_POINTS = 200
# The files first, then the launcher; "exec", so that no shell runs while anything is measured.
REDIRECTED = 'in=$0; out=$1; err=$2; shift 2; exec "$@" <"$in" >"$out" 2>"$err"'
CANNOT_START = {126: "cannot be executed", 127: "not found"}


class NotMapped(RunFailed):
    """The library was preloaded and the command does not have it."""


class CannotStart(OwnFailure):
    """The command is not there, or cannot be executed."""


@dataclass(frozen=True)
class Tools:
    """What every run needs."""

    launcher: Path
    hyperfine: str | None
    folder: Path  # for files of a run; emptied by its owner

    @staticmethod
    def find(launcher: Path, folder: Path) -> "Tools":
        """hyperfine from PATH; a launcher that is not built is the end."""
        if not launcher.exists():
            raise OwnFailure(f"{launcher} is missing: build first")
        return Tools(launcher, shutil.which("hyperfine"), folder)


@dataclass(frozen=True)
class Single:
    """One command to be run once."""

    command: tuple[str, ...]
    column: Column
    others: Collection[Path] = ()  # libraries that must not be mapped
    cwd: Path | None = None
    stdin: Path | None = None
    curve_ms: int = 0
    timeout_s: float = 600
    ignore_failure: bool = False
    is_output_kept: bool = True


def last_line(text: str) -> str:
    """The last line that says something: where most programs say why they gave up."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def why(text: str) -> str:
    """That line, as the end of a sentence."""
    line = last_line(text)
    return f": {line[:300]}" if line else ""


def timed_words(single: Single, tools: Tools) -> list[str]:
    """The command line that is started: hyperfine, a redirection, the launcher, the command."""
    launch = Launch(single.command, single.column.library, single.column.env, single.curve_ms)
    words = launch.words(tools.launcher, tools.folder / "report.json")
    out = tools.folder / "stdout" if single.is_output_kept else "/dev/null"
    files = (single.stdin or "/dev/null", out, tools.folder / "stderr")
    words = ["sh", "-c", REDIRECTED, *(str(file) for file in files), *words]
    if tools.hyperfine is None:
        return words
    options = ["--runs", "1", "--ignore-failure", "--style", "none"]
    options += ["--export-json", str(tools.folder / "hyperfine.json")]
    return [tools.hyperfine, "-N", *options, shlex.join(words)]


def execute(words: list[str], single: Single, tools: Tools) -> str:
    """Runs it to its end; what hyperfine or the shell said, if anything."""
    with (tools.folder / "complaint").open("wb") as complaint:
        process = processes.start(
            words, stdin=subprocess.DEVNULL, stdout=complaint, stderr=complaint, cwd=single.cwd,
            env=clean_environment(),
        )  # fmt: skip
        try:
            process.wait(single.timeout_s)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"no end after {single.timeout_s:g} s") from None
    return (tools.folder / "complaint").read_text(errors="replace")


def read_json(path: Path) -> Any:
    """The file's content, None where its writer failed."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def check_end(report: dict[str, Any], said: str, ignore_failure: bool) -> int:
    """The exit status as a shell would have it, or RunFailed."""
    signal = report["signal"]
    if signal is not None and not ignore_failure:
        raise RunFailed(f"ended by signal {signal}{why(said)}")
    if report["exit_status"] and not ignore_failure:
        raise RunFailed(f"exit status {report['exit_status']}{why(said)}")
    return 128 + signal if signal is not None else int(report["exit_status"])


def check_library(report: dict[str, Any], single: Single, said: str) -> None:
    """The column's library was mapped and no other column's."""
    library = single.column.library
    if library is not None and not report["has_maps"]:
        raise RunFailed("nothing is proved: its mappings could not be read, it ended too soon")
    if library is not None and not report["is_expected_mapped"]:
        raise NotMapped(f"{library.name} was preloaded and is not mapped")
    check_mapping(report, library, single.others, said)


def thin(samples: list[list[float]]) -> tuple[tuple[float, int], ...]:
    """At most CURVE_POINTS of them, of each stretch the highest: no peak is lost."""
    samples = [sample for sample in samples if sample[1]]  # none while it ends
    step = -(-len(samples) // CURVE_POINTS) or 1
    stretches = [samples[at : at + step] for at in range(0, len(samples), step)]
    highest = [max(stretch, key=lambda sample: sample[1]) for stretch in stretches]
    return tuple((round(at, 1), int(kib)) for at, kib in highest)


def linked_allocators(report: dict[str, Any], known: Collection[Path]) -> list[str]:
    """Allocators among the mapped files."""
    return [path for path in report["mapped"] if ALLOCATOR.search(path) or Path(path) in known]


def run_single(single: Single, tools: Tools, at: tuple[int, int]) -> tuple[Run, dict[str, Any]]:
    """One run and the launcher's report; `at` is its round and its place therein."""
    for name in ("report.json", "hyperfine.json", "stdout", "stderr"):
        (tools.folder / name).unlink(missing_ok=True)
    complaint = execute(timed_words(single, tools), single, tools)
    errors = tools.folder / "stderr"
    said = errors.read_text(errors="replace") if errors.exists() else complaint
    report, timed = (read_json(tools.folder / f"{n}.json") for n in ("report", "hyperfine"))
    if report is None:
        raise no_report(single, timed, said)
    check_library(report, single, said)
    status = check_end(report, said, single.ignore_failure)
    output = (tools.folder / "stdout").read_bytes() if single.is_output_kept else None
    run = Run(
        round=at[0],
        position=at[1],
        wall_s=report["wall_s"],
        hyperfine_s=timed["results"][0]["times"][0] if timed else None,
        cpu_s=round(report["user_s"] + report["sys_s"], 6),
        peak_rss_kib=max(report["peak_rss_kib"] or 0, report["max_rss_kib"]),
        exit_status=status,
        output_sha256=None if output is None else hashlib.sha256(output).hexdigest(),
        output_bytes=None if output is None else len(output),
        curve=thin(report["samples"]),
    )
    return run, report


def no_report(single: Single, timed: Any, said: str) -> Exception:
    """Why the launcher wrote nothing: the command is not there, or something that we need."""
    status = timed["results"][0]["exit_codes"][0] if timed else None
    message = next((l for l in said.splitlines() if l.startswith("launcher: ")), last_line(said))
    if status in CANNOT_START or message.startswith(f"launcher: {single.command[0]}: "):
        status = status if status in CANNOT_START else 126 + ("No such file" in message)
        return CannotStart(f"{single.command[0]}: {CANNOT_START[status]}", status)
    return RunFailed(f"could not be measured: {message}")
