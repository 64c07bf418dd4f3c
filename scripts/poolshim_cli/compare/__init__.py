# SPDX-License-Identifier: MIT
"""`poolshim compare`: one command, or one server, under every allocator of this machine."""
