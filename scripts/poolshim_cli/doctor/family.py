# SPDX-License-Identifier: MIT
"""Runs the command and checks every program that it starts: scripts/native/family.c does both.

Also reads what the library served, from the statistics that it writes at exit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .. import elf
from ..errors import OWN_FAILURE, OwnFailure
from .findings import FATAL, FINE, NOTE, WARNING, Diagnosis, Finding

SHOWN = 5  # programs that are named in one finding
# Predictions that a program refutes in which the library is mapped, and those that it does not:
# other calls than the program's own may come to the library, and a traced program gains no rights.
REFUTED = {"library-absent", "loader-failed", "not-loaded", "malformed", "wrong-processor",
           "static", "musl", "no-loader", "scrubbed-by-env", "strict"}  # fmt: skip
OWN_CALLS = {"own-malloc", "hidden-malloc", "bundled", "other-first", "sanitizer"}


@dataclass(frozen=True)
class Program:
    """One program that ran in the family."""

    process: int
    has_preload: bool  # the library was in its LD_PRELOAD
    mapped: str  # mapped, unmapped, or unknown: it became another program
    path: str


def parse(text: str) -> list[Program]:
    """The records of family.c."""
    fields = text.split("\0")[:-1]
    return [
        Program(int(fields[at]), fields[at + 1] == "preload", *fields[at + 2 : at + 4])
        for at in range(0, len(fields) - 3, 4)
    ]


def run(
    diagnosis: Diagnosis, program: Path, library: Path, preload: str, env: Mapping[str, str]
) -> None:
    """Runs the command to its end, its output on standard error; adds what became of it."""
    with tempfile.TemporaryDirectory(prefix="poolshim-doctor-") as folder:
        output = Path(folder) / "family"
        full = {**env, "LD_PRELOAD": preload, "POOLSHIM_STATS": f"{folder}/%p.json"}
        try:
            done = subprocess.run(
                [program, output, library, "--", *diagnosis.command], env=full, check=False,
                stdout=sys.stderr.fileno(),
            )  # fmt: skip
        except OSError as error:
            raise OwnFailure(f"{program}: {error.strerror}: build first") from None
        text = output.read_text(errors="replace") if output.exists() else ""
        if not text:
            raise OwnFailure("--run: the command could not be followed", OWN_FAILURE)
        programs = parse(text)
        judge(diagnosis, programs, was_asked(Path(folder), programs[0].process))
    if done.returncode != 0:
        diagnosis.add("command-failed", WARNING, f"the command ended with status {done.returncode}")


def is_linked(path: str) -> bool:
    """Has the program's file poolshim in itself?"""
    try:
        return elf.read(Path(path)).has_poolshim
    except (OSError, elf.Malformed):
        return False


def was_asked(folder: Path, process: int) -> bool | None:
    """Did the library serve anything there? None where the process left no statistics."""
    try:
        memory = json.loads((folder / f"{process}.json").read_text())["memory"]
        return bool(memory["mapped_bytes"] > memory["metadata_bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def judge(diagnosis: Diagnosis, programs: list[Program], is_used: bool | None) -> None:
    """The command's own process decides; its children are warnings. Now they were checked."""
    diagnosis.findings = [one for one in diagnosis.findings if one.code != "only-starts"]
    first = programs[0].process
    own = [program for program in programs if program.process == first]
    last = own[-1]
    others = [program for program in programs if program.process != first]
    if is_linked(last.path):
        refute(diagnosis, REFUTED)
        use = " and gave it memory" if is_used else ""
        diagnosis.add("ran-linked", FINE, f"ran: poolshim is linked into {last.path}{use}")
    elif last.mapped == "mapped":
        refute(diagnosis, REFUTED)
        has_all = all(one.has_preload and one.mapped != "unmapped" for one in others)
        if has_all and (others or len(own) > 1):
            refute(diagnosis, {"cleared"})
        note_mapped(diagnosis, last, is_used)
    elif last.mapped == "unmapped":
        diagnosis.findings = [one for one in diagnosis.findings if one.code != "first"]
        why = "" if last.has_preload else ", whose LD_PRELOAD did not name it"
        diagnosis.add("ran-unmapped", FATAL, f"ran: the library was not in {last.path}{why}")
    else:
        diagnosis.add("ran-unseen", WARNING, f"ran: {last.path} ended before it could be checked")
    report_children(diagnosis, others)


def refute(diagnosis: Diagnosis, codes: Collection[str]) -> None:
    """A prediction that did not come true is no verdict; the finding names the prediction."""

    def seen(finding: Finding) -> Finding:
        if finding.level != FATAL or finding.code not in codes:
            return finding
        message = f"the run does not confirm that {finding.message}"
        return replace(finding, level=NOTE, message=message, advice="")

    diagnosis.findings = [seen(finding) for finding in diagnosis.findings]


def note_mapped(diagnosis: Diagnosis, program: Program, is_used: bool | None) -> None:
    """The library was there: that is the verdict, or agrees with one that it has no effect."""
    found = f"ran: the library was in {program.path}"
    fatal = {finding.code for finding in diagnosis.findings if finding.level == FATAL}
    if "privileged" in fatal:
        diagnosis.add("ran-mapped", NOTE, f"{found}, which gains no privileges where it is traced")
        return
    if fatal & OWN_CALLS:
        use = " and served calls, not the program's own" if is_used else ""
        diagnosis.add("ran-mapped", NOTE, found + use)
    else:
        diagnosis.add("ran-mapped", FINE, found + (" and gave it memory" if is_used else ""))
    if is_used is False:
        diagnosis.add("ran-unused", WARNING, "ran: the library served no request")


def report_children(diagnosis: Diagnosis, children: list[Program]) -> None:
    """Reports the child processes without the library, with the reason."""
    asked = [child for child in children if not is_linked(child.path)]
    scrubbed = [child.path for child in asked if not child.has_preload]
    refused = [c.path for c in asked if c.has_preload and c.mapped == "unmapped"]
    for code, paths, reason in (
        ("scrubbed", scrubbed, "were started without LD_PRELOAD"),
        ("child-unmapped", refused, "had it in LD_PRELOAD and not mapped"),
    ):
        if paths:
            names = list(dict.fromkeys(paths))
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            diagnosis.add(
                code, WARNING,
                f"ran: {len(paths)} of {len(children)} programs that it started {reason}: "
                f"{', '.join(names[:SHOWN])}{more}",
            )  # fmt: skip
    if children and not scrubbed and not refused:
        count = len(children)
        diagnosis.add("children", FINE, f"ran: so it was in all {count} programs that it started")
