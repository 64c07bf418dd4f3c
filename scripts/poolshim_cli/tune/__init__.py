# SPDX-License-Identifier: MIT
"""`poolshim tune`: find size classes for a program and measure what they save."""
