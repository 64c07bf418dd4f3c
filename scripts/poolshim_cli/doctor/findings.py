# SPDX-License-Identifier: MIT
"""What the doctor says: findings, and all of them about one command."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FATAL, WARNING, NOTE, FINE = "fatal", "warning", "note", "fine"


@dataclass(frozen=True)
class Finding:
    """One thing that was noticed. The code is for programs and never changes; the message may."""

    code: str
    level: str  # fatal: the preload has no effect; warning: not everywhere, or not as meant
    message: str
    advice: str = ""


@dataclass(frozen=True)
class Setting:
    """A setting in force, as the library lists it."""

    name: str
    value: str
    origin: str


@dataclass
class Diagnosis:
    """Everything about one command."""

    command: tuple[str, ...]
    library: str
    program: str = ""
    findings: list[Finding] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)

    def add(self, code: str, level: str, message: str, advice: str = "") -> None:
        """Once each."""
        finding = Finding(code, level, message, advice)
        if finding not in self.findings:
            self.findings.append(finding)

    @property
    def takes_effect(self) -> bool:
        """No finding is fatal."""
        return all(finding.level != FATAL for finding in self.findings)

    def has(self, *codes: str) -> bool:
        """Is one of these among the findings?"""
        return any(finding.code in codes for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {"poolshim_doctor": 1, "takes_effect": self.takes_effect, **asdict(self)}
