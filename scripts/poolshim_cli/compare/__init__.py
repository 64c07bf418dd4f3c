# SPDX-License-Identifier: MIT
"""`poolshim compare`: measure a command or a server under every installed allocator."""
