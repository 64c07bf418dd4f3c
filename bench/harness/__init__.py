# SPDX-License-Identifier: MIT
"""What bench/run.py is made of: which allocators, how a process is measured, the sums, the tables."""
