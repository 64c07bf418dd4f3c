# SPDX-License-Identifier: MIT
"""`poolshim exporter`: serve the figures of running processes as OpenMetrics."""
