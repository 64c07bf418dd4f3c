# SPDX-License-Identifier: MIT
"""`poolshim top`: show what the memory of running processes is."""
