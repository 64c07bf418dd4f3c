# SPDX-License-Identifier: MIT
"""`poolshim trim`: have a running process release its free memory to the system."""
