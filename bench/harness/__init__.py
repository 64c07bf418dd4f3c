# SPDX-License-Identifier: MIT
"""What bench/run.py is made of: allocators, measured processes, sums, tables."""
