# SPDX-License-Identifier: MIT
"""Reads of other processes and of their files: hostile input, bounded in size and in time.

Commands that root runs read processes of other users. Such a process chooses the contents of its
memory, of its files and of the paths that lead to them, and may change all of it meanwhile.
"""
