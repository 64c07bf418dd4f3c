# SPDX-License-Identifier: MIT
"""Real programs under an allocator: reads bench/programs.toml, runs them by the launcher.

They report nothing themselves: CPU time and peak RSS are the launcher's, children included, and
the proof of work is that all allocators make them print the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from poolshim_cli.allocators import Allocator, Missing, tomllib
from poolshim_cli.errors import BadRequest, RunFailed
from poolshim_cli.launcher import (
    Launch,
    check_exit,
    check_mapping,
    clean_environment,
    parse_report,
)
from poolshim_cli.places import REPOSITORY

from .figures import FIGURES
from .inputs import write_inputs
from .runner import Case, Run, Runner
from .suite_cases import Group, SuiteCase, check_keys

DEFAULT_PROGRAMS = REPOSITORY / "bench" / "programs.toml"
KEYS = {"name", "command", "stdin", "env", "output", "package", "links", "partner"}
GOALS = {"cell": 1.0, "single": 1.0}
# Preloaded where the program brings an allocator of its own, so that glibc's comes first.
LIBC = "libc.so.6"


@dataclass(frozen=True)
class ProgramCase(Case):
    """A command of the system, run in the folder of the inputs."""

    stdin: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    is_output_checked: bool = True
    links: str | None = None
    partner: tuple[str, ...] = ()


def read_programs(path: Path) -> tuple[Group, list[Missing]]:
    """The group of the installed programs, and the others."""
    try:
        entries: list[dict[str, Any]] = tomllib.loads(path.read_text()).get("program", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from error
    rows, missing = [], []
    for entry in entries:
        check_keys(f"{path}: {entry.get('name')}", entry, KEYS)
        first, *arguments = [word.replace("{python}", sys.executable) for word in entry["command"]]
        name = f"programs/{entry['name']}"
        found = [shutil.which(word) for word in (first, *entry.get("partner", ())[:1])]
        if None in found:
            hint = f"; Debian package {entry['package']}" if "package" in entry else ""
            missing.append(Missing(name, f"not found: {first}{hint}"))
            continue
        case = ProgramCase(
            name, str(found[0]), tuple(arguments), (), None,
            stdin=entry.get("stdin"), env=entry.get("env", {}), links=entry.get("links"),
            is_output_checked=entry.get("output", True), partner=tuple(entry.get("partner", ())),
        )  # fmt: skip
        rows.append(SuiteCase(case, "cpu", GOALS["cell"]))
    return Group("programs", "Real programs", tuple(rows), GOALS), missing


class SuiteRunner(Runner):
    """Runs workloads as its base does, and real programs besides."""

    def __init__(
        self, build_dir: Path, allocators: Iterable[Allocator], timeout_s: float,
        rows: Iterable[SuiteCase], inputs: Path, scale: float,
    ) -> None:  # fmt: skip
        """The inputs are written into a folder that exists and outlives this."""
        rows = list(rows)
        own = {row.case.program for row in rows if not isinstance(row.case, ProgramCase)}
        super().__init__(build_dir, allocators, timeout_s, sorted(own))
        self.figures = {row.case.name: FIGURES[row.figure] for row in rows}
        self.inputs = inputs
        self.outputs: dict[str, str] = {}  # case -> digest of what it prints
        write_inputs(inputs, scale)

    def run(self, case: Case, allocator: Allocator) -> Run:
        """One process; RunFailed with one line saying why if it was not a valid measurement."""
        is_program = isinstance(case, ProgramCase)
        run = self.run_program(case, allocator) if is_program else super().run(case, allocator)
        if min(self.figures[case.name].values(run)) <= 0:
            raise RunFailed("its figure is nothing; use a larger --scale")
        return run

    def program_launch(self, case: ProgramCase, allocator: Allocator) -> Launch:
        """The arguments of the launcher."""
        env = {**case.env, **allocator.env}
        if allocator.library is None and case.links is not None:
            env["LD_PRELOAD"] = LIBC
        command = (case.program, *case.arguments)
        return Launch(command, allocator.library, env, 0, self.warm_mib(case, allocator))

    def run_program(self, case: ProgramCase, allocator: Allocator) -> Run:
        """One real program from start to end, with its partner if it has one."""
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="poolshim-bench-") as folder:
            result, output = Path(folder) / "result.json", Path(folder) / "output"
            words = self.program_launch(case, allocator).words(self.launcher, result)
            with output.open("wb") as stdout:
                done = self.wait_for(case, words, stdout)
            text = result.read_text() if result.exists() else ""
            digest = hashlib.sha256(output.read_bytes()).hexdigest()
        launcher = parse_report(text, done)
        check_exit(launcher, done.stderr)
        launcher["mapped"] = [path for path in launcher["mapped"] if not self.is_linked(case, path)]
        check_mapping(launcher, allocator.library, self.libraries, done.stderr)
        if case.is_output_checked and self.outputs.setdefault(case.name, digest) != digest:
            raise RunFailed("it printed something else than under the allocators before")
        launcher["peak_rss_kib"] = max(launcher["peak_rss_kib"] or 0, launcher["max_rss_kib"])
        report = {"rounds": [], "output_sha256": digest}
        run = Run(case.name, allocator.name, report, launcher, time.monotonic() - start)
        self.peaks_kib[case.name, allocator.name] = run.peak_rss_kib
        return run

    def is_linked(self, case: ProgramCase, path: str) -> bool:
        """The library is the program's own: mapped in any case, and not in use here."""
        return case.links is not None and Path(path).name == case.links

    def wait_for(
        self, case: ProgramCase, command: list[str], stdout: IO[bytes]
    ) -> subprocess.CompletedProcess[str]:
        """The command's end, its standard error captured; the partner's failure is its own."""
        source = self.inputs / case.stdin if case.stdin else Path(os.devnull)
        partner = None
        with source.open("rb") as stdin, tempfile.TemporaryFile("w+", errors="replace") as errors:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=errors, cwd=self.inputs,
                env=clean_environment(),
            )  # fmt: skip
            try:
                if case.partner:
                    partner = subprocess.run(
                        case.partner, cwd=self.inputs, env=clean_environment(), check=False,
                        capture_output=True, text=True, timeout=self.timeout_s,
                    )  # fmt: skip
                process.wait(self.timeout_s)
            except subprocess.TimeoutExpired:
                raise RunFailed(f"no end after {self.timeout_s:.0f} s") from None
            finally:
                process.kill()
                process.wait()
            if partner is not None and partner.returncode != 0:
                raise RunFailed(f"{case.partner[0]}: {partner.stdout} {partner.stderr}".strip())
            errors.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, "", errors.read())
