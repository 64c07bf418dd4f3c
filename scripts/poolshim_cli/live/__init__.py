# SPDX-License-Identifier: MIT
"""Reads the figures of a running process from its memory; the process takes no part in it."""
