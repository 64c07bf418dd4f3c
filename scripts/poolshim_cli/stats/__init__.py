# SPDX-License-Identifier: MIT
"""`poolshim stats`: print the statistics of a running process."""
