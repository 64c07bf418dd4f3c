# SPDX-License-Identifier: MIT
"""A plugin of pytest: limits of the memory of tests, and tests that must not leak.

    pytest --poolshim
    pytest -p poolshim_cli.pytest_plugin --poolshim     # of a checkout: PYTHONPATH=scripts

Without --poolshim it only checks the arguments of its markers. docs/pytest.md is its manual.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ..errors import GIVING_UP, BadRequest
from . import markers, start
from .markers import Plan
from .measure import Session
from .summary import PEAK, Summary

INTERVAL, TOP = "64KiB", 10
SESSION = pytest.StashKey[Session]()
PLAN = pytest.StashKey[Plan]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("poolshim", "memory of tests, by poolshim")
    group.addoption("--poolshim", action="store_true",
                    help="run the tests on poolshim, measure their memory, and check their markers "
                         f"{markers.LIMIT} and {markers.NO_GROWTH}")  # fmt: skip
    group.addoption("--poolshim-interval", default=INTERVAL, metavar="SIZE",
                    help=f"mean bytes between two samples of allocations [{INTERVAL}]")  # fmt: skip
    group.addoption("--poolshim-top", type=int, default=TOP, metavar="N",
                    help=f"list the N tests with the highest peaks; 0: none [{TOP}]")  # fmt: skip


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Before anything else is loaded, and output is captured: pytest may have to start again."""
    options = early_config.known_args_namespace
    if options.poolshim:
        try:
            interval = markers.bytes_of("--poolshim-interval", options.poolshim_interval, 1)
            session = Session(start.ensure(str(interval)), interval)
        except GIVING_UP as error:
            raise pytest.UsageError(f"--poolshim: {error}") from None
        early_config.stash[SESSION] = session
    yield


def pytest_configure(config: pytest.Config) -> None:
    """The markers, and the list at the end."""
    for line in markers.LINES:
        config.addinivalue_line("markers", line)
    if SESSION in config.stash and config.option.poolshim_top > 0:
        config.pluginmanager.register(Summary(config.option.poolshim_top))


def pytest_unconfigure(config: pytest.Config) -> None:
    """The reader ends."""
    session = config.stash.get(SESSION, None)
    if session is not None:
        session.close()


def pytest_report_header(config: pytest.Config) -> str | None:
    """A line about the measurements."""
    if SESSION not in config.stash:
        return None
    return f"poolshim: live memory of tests, a sample every {config.option.poolshim_interval}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Wrong arguments of a marker are an error, also where nothing is measured."""
    try:
        item.stash[PLAN] = markers.plan_of(item)
    except BadRequest as error:
        pytest.fail(str(error), pytrace=False)


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Around the body alone: fixtures have been made, other plugins' wrappers are outside."""
    session = item.config.stash.get(SESSION, None)
    if session is None:
        yield
        return
    plan = item.stash[PLAN]
    why = begin(session, plan)
    outcome: Any = yield
    peak = session.heap.peak_bytes()
    item.user_properties.append((PEAK, peak))
    try:
        if outcome.excinfo is None and why is not None:
            raise why
        if outcome.excinfo is None:
            session.check(item, plan, peak)
    except GIVING_UP as error:
        outcome.force_exception(pytest.fail.Exception(f"poolshim: {error}", pytrace=False))
    except BaseException as error:
        outcome.force_exception(error)
    finally:
        session.rest()


def begin(session: Session, plan: Plan) -> Exception | None:
    """The period of a test. Why it cannot be measured: the test runs all the same, and fails."""
    try:
        session.begin(plan)
    except GIVING_UP as error:
        return error
    return None
