# SPDX-License-Identifier: MIT
"""Sizes as the subcommands print them in lines that are all in MiB."""

from __future__ import annotations

MIB = 1 << 20


def mib(nbytes: int) -> str:
    """In MiB, without the unit: "40.2"; "0.004" of what would else be nothing."""
    return f"{nbytes / MIB:.1f}" if nbytes >= MIB / 10 or nbytes == 0 else f"{nbytes / MIB:.3f}"
