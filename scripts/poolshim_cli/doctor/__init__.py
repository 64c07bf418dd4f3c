# SPDX-License-Identifier: MIT
"""`poolshim doctor`: check that a preload takes effect in a command, or give the reason."""
