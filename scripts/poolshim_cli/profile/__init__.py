# SPDX-License-Identifier: MIT
"""`poolshim profile`: run a command and list the call sites that hold its memory."""
