# SPDX-License-Identifier: MIT
"""`poolshim doctor`: does a preload take effect in this command, and if not, why not."""
