# SPDX-License-Identifier: MIT
"""The rules of scripts/dev/lint. A module registers its rules when it is imported."""

from __future__ import annotations

from linting import (
    code,
    contributing,
    counterparts,
    declarations,
    documents,
    external,
    guides,
    language,
    layering,
    phrases,
    product,
    settings,
)
from linting.rules import RULES, Finding, Rule, findings, register
from linting.tree import Tree

__all__ = [
    "RULES", "Finding", "Rule", "Tree", "code", "contributing", "counterparts", "declarations",
    "documents", "external", "findings", "guides", "language", "layering", "phrases", "product",
    "register", "settings",
]  # fmt: skip
