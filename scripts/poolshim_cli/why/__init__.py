# SPDX-License-Identifier: MIT
"""`poolshim why`: say why the memory of a process or container is resident."""
