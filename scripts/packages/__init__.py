# SPDX-License-Identifier: MIT
"""What scripts/package is made of."""
