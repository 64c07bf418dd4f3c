# SPDX-License-Identifier: MIT
"""`poolshim set`: change a setting of a running process."""
