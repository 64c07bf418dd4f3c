# SPDX-License-Identifier: MIT
"""`poolshim explain`: run a command, account for its resident memory, and name the cause."""
