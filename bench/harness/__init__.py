# SPDX-License-Identifier: MIT
"""What bench/run.py is made of: cases, measured processes, tables. The allocators, the launcher and
the sums are those of the command poolshim."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
