# SPDX-License-Identifier: MIT
"""The two ways in which the harness gives up."""


class BadRequest(Exception):
    """The user asked for something that cannot be: one line, exit status 2."""


class RunFailed(Exception):
    """One measured process did not do its job: its row says why, exit status 1 at the end."""
