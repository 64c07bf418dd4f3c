# SPDX-License-Identifier: MIT
"""`poolshim why`: say why the memory of any process or container is resident, and what to do."""
