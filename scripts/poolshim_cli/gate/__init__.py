# SPDX-License-Identifier: MIT
"""`poolshim gate`: fail where live memory grows from round to round, and name the call site."""
