# SPDX-License-Identifier: MIT
"""Machines that qemu emulates, for scripts/dev/machine and scripts/dev/numa.

    machine = Machine(architecture("x86_64"), cpus=16, mib=4096)
    console = machine.boot([Run("glibc", ["/bin/true"])], seconds=300)
    console.result("glibc").status

packages: Debian's packages of either architecture. machines: what boots, and what runs there.
console: what it says. allocators: those that can be preloaded there.
"""

from __future__ import annotations

from emulation.allocators import find_allocators
from emulation.console import Console, Result
from emulation.machines import Machine, Run, Share
from emulation.packages import ARCHITECTURES, PLACE, Architecture

__all__ = [
    "ARCHITECTURES", "PLACE", "Architecture", "Console", "Machine", "Result", "Run",
    "Share", "find_allocators",
]  # fmt: skip
