# SPDX-License-Identifier: MIT
"""`poolshim advise`: find call sites that a pool serves better than malloc, and by how much."""
