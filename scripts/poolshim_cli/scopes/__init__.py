# SPDX-License-Identifier: MIT
"""`poolshim scopes`: find functions that leave memory of a frame or a pool to their caller."""
