# SPDX-License-Identifier: MIT
"""`poolshim tune`: the size classes for one program, or that there is nothing to gain."""
