# SPDX-License-Identifier: MIT
"""The command poolshim except `run`, which is scripts/native/run.c. Manual: docs/command.md.

Imports nothing of bench/ or tests/; bench/harness and tests import from here.
"""
