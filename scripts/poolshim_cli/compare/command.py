# SPDX-License-Identifier: MIT
"""`poolshim compare`: reads the command line, measures, shows, writes; see docs/command.md."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .. import files, places
from ..allocators import DEFAULT_TABLE
from ..command_line import Duration, Measuring
from ..errors import BadRequest, OwnFailure, need
from ..launcher import Launch, first_line
from ..launcher import measure as launch_once
from ..tune import profile
from . import plan as planning
from . import results as keeping
from . import table, traced
from .measure import Step, measure
from .results import Results
from .summary import Summary, summarise

OUTPUTS = ("json", "csv", "markdown", "html")
CURVE_S, CURVE_MS_MAX = 0.01, 3600000
STRICT_STATUS = 78  # of a program under poolshim whose settings are wrong
WIDTH_MIN = 100  # of a table that no terminal limits
PATH = click.Path(path_type=Path)


def options(function: Any) -> Any:
    """The command line; the groups are those of the manual."""
    option = click.option
    listed = [
        option("--allocators", metavar="A,B",
               help="Measure only these of the table; also the floor."),
        option("--add", multiple=True, metavar="NAME=LIB", help="Add a library."),
        option("--setting", "settings", multiple=True, metavar="'NAME[@ALLOCATOR]:VAR=VALUE ...'",
               help="Add a column: poolshim, or another allocator, with variables set."),
        option("--tuned", "profiles", multiple=True, metavar="[NAME=]FILE", help="Add a "
               "column: poolshim with the size classes that poolshim tune wrote to FILE."),
        option("--table", type=PATH, default=DEFAULT_TABLE, metavar="FILE",
               help="Read another table of allocators."),
        option("--base", default=planning.DEFAULT_BASE, show_default=True, metavar="NAME",
               help="Compare the others with this one."),
        option("--runs", type=click.IntRange(1, 10000), metavar="N", help="Run N rounds  [as many "
               "as fit into the time budget, 5 to 30]"),
        option("--warmup", type=click.IntRange(0, 1000), default=1, show_default=True,
               metavar="N", help="Run N rounds before them that do not count."),
        option("--time-budget", type=Duration(), metavar="TIME",
               help="Limit all rounds together, such as 30s or 2m  [1m without --runs]"),
        option("--timeout", type=Duration(), default=600.0, metavar="TIME",
               help="Limit one process  [10m]"),
        option("--seed", type=int, default=planning.DEFAULT_SEED, show_default=True,
               help="Seed the order within the rounds."),
        option("--no-noise", is_flag=True, help="Leave out the base's second column."),
        option("--rss-curve", type=Duration("ms"), is_flag=False, flag_value=CURVE_S,
               metavar="[TIME]", help="Sample the RSS over time  [every 10ms]"),
        option("--stdin", type=PATH, metavar="FILE", help="Read standard input from here."),
        option("--cwd", type=PATH, metavar="DIR", help="Run the command in this folder."),
        option("--prepare", metavar="CMD", help="Run CMD by sh before each run, not timed."),
        option("--ignore-failure", is_flag=True, help="Accept a command that fails."),
        option("--discard-output", is_flag=True, help="Send the output to /dev/null, uncompared."),
        option("--server", metavar="CMD",
               help="Start a server; {port}, {dir}: a free port, a folder."),
        option("--load", metavar="CMD", help="Load the server by this; never preloaded."),
        option("--ready", metavar="CMD", help="Wait until CMD succeeds  [until the port accepts]"),
        option("--ready-timeout", type=Duration(), default=30.0, metavar="TIME",
               help="Limit that wait  [30s]"),
        option("--trace", type=PATH, metavar="FILE",
               help="Replay a trace of POOLSHIM_TRACE instead of a command."),
        option("--from", "source", type=PATH, metavar="FILE",
               help="Show what --json wrote before; measure nothing."),
        *(option(f"--{name}", metavar="FILE", help=f"Write the results as {text}; - is stdout.")
          for name, text in zip(OUTPUTS, ("JSON, complete", "CSV", "Markdown", "a report"))),
        option("-q", "--quiet", is_flag=True, help="Print neither table nor progress."),
        option("--no-color", is_flag=True, help="Print without colours, as with NO_COLOR."),
    ]  # fmt: skip
    for one in reversed(listed):
        function = one(function)
    return function


@click.command(name="compare", cls=Measuring, options_metavar="[OPTIONS] --")
@options
@click.argument("words", nargs=-1, metavar="COMMAND...", type=click.UNPROCESSED)
def command(words: tuple[str, ...], **given: Any) -> int:
    """Measure a command under every allocator of this machine, and name the ones that suit it.

    \b
    poolshim compare -- jq . big.json
    poolshim compare --html report.html --rss-curve -- python3 app.py
    poolshim compare --setting 'hard:POOLSHIM_HARDEN=1' -- sqlite3 my.db '.dump'
    poolshim compare --server 'redis-server --port {port}' --load 'redis-benchmark -p {port}'
    poolshim compare --trace server.trace

    Exit status: 0; 1 if a column failed; 2 usage; 125 to 127 if it could not be started.
    """
    outputs = check_outputs(given)
    if given["source"]:
        if words or given["server"] or given["trace"]:
            raise BadRequest("--from measures nothing: leave out the command")
        results = keeping.read(given["source"])
    else:
        with ended_by_signals(), contextlib.ExitStack() as stack:
            plan, missing = make_plan(words, given, stack)
            progress = stack.enter_context(shown_progress(given["quiet"]))
            results = measure(plan, progress)
        results.missing = [(one.name, one.reason) for one in missing]
        results.about["reproduce"] = reproduce(plan)
    summary = summarise(results)
    unwritten = write_all(results, summary, outputs)
    if not given["quiet"] and "-" not in outputs.values():
        show(results, summary, given["no_color"])
    if unwritten:
        raise OwnFailure("; ".join(unwritten))
    return 1 if any(row.failure for row in summary.rows) else 0


def check_outputs(given: dict[str, Any]) -> dict[str, str]:
    """Format -> file. Asked before the measurement, not after: can they be written?"""
    outputs = {name: given[name] for name in OUTPUTS if given[name]}
    if list(outputs.values()).count("-") > 1:
        raise BadRequest("only one of --json, --csv, --markdown and --html can go to -")
    paths = [Path(path) for path in outputs.values() if path != "-"]
    for path in paths:
        files.check_writable(path)
    if len({files.identity(path) for path in paths}) < len(paths):
        raise BadRequest("two of --json, --csv, --markdown and --html go to the same file")
    if "html" in outputs:
        need("jinja2", "plot")
    return outputs


def make_plan(
    words: tuple[str, ...], given: dict[str, Any], stack: contextlib.ExitStack
) -> tuple[planning.Plan, list[Any]]:
    """All that was requested, checked. The stack ends what the work needs."""
    if given["trace"]:
        check_trace(words, given)
    else:
        work: planning.CommandWork | planning.ServerWork = make_work(words, given)
    settings = [planning.parse_setting(text) for text in given["settings"]]
    settings += [profile_setting(text) for text in given["profiles"]]
    only = tuple(name for name in (given["allocators"] or "").split(",") if name)
    if given["allocators"] is not None and given["base"] not in only:
        only = (given["base"], *only)
    build = places.find().build
    columns, missing = planning.find_columns(
        build, given["table"], only, given["add"], tuple(settings)
    )
    for column in columns:
        check_settings(column)
    if given["trace"]:
        work = stack.enter_context(traced.prepared(given["trace"], given["timeout"]))
    plan = planning.Plan(
        tuple(columns), work, given["base"], given["runs"], given["warmup"], given["time_budget"],
        given["seed"], not given["no_noise"], curve_ms(given["rss_curve"]), given["timeout"],
    )  # fmt: skip
    return plan, missing


def check_trace(words: tuple[str, ...], given: dict[str, Any]) -> None:
    """What does not go with --trace."""
    if words:
        raise BadRequest("--trace replays a file: leave out the command")
    for name in ("server", "load", "ready", "stdin", "cwd", "prepare", "ignore_failure",
                 "discard_output", "rss_curve"):  # fmt: skip
        if given[name]:
            raise BadRequest(f"--trace does not go with --{name.replace('_', '-')}")


def curve_ms(interval_s: float | None) -> int:
    """The interval as an argument of the launcher; 0: no curve."""
    return 0 if interval_s is None else max(1, min(round(interval_s * 1000), CURVE_MS_MAX))


def make_work(
    words: tuple[str, ...], given: dict[str, Any]
) -> planning.CommandWork | planning.ServerWork:
    """The command, or the server and its load."""
    cwd = planning.check_folder(given["cwd"])
    stdin = planning.check_input(given["stdin"])
    if not given["server"]:
        if given["load"] or given["ready"]:
            raise BadRequest("--load and --ready go with --server")
        if not words:
            raise BadRequest("no command given; see poolshim compare --help")
        return planning.CommandWork(
            words, cwd, stdin, given["prepare"],
            given["ignore_failure"], not given["discard_output"],
        )  # fmt: skip
    if words or stdin:
        raise BadRequest("--server takes no command and no --stdin")
    if not given["load"]:
        raise BadRequest("--server needs --load")
    for name in ("server", "load", "ready"):
        if given[name] is not None:
            planning.split_command(f"--{name}", given[name])
    if not given["ready"] and "{port}" not in given["server"]:
        raise BadRequest("--server without {port} needs --ready")
    return planning.ServerWork(
        given["server"], given["load"], given["ready"], cwd, given["prepare"],
        given["ready_timeout"], ignore_failure=given["ignore_failure"],
    )  # fmt: skip


def profile_setting(text: str) -> tuple[str, str, dict[str, str]]:
    """A profile of tune as one more setting of poolshim, called like its file."""
    name, separator, file = text.partition("=")
    if not separator or not planning.NAME.fullmatch(name):
        name, file = Path(text).stem, text
    if not planning.NAME.fullmatch(name):
        raise BadRequest(f"--tuned {text}: give it a name: NAME={text}")
    classes = profile.setting(profile.read(Path(file)).table)
    return name, planning.SETTINGS_OF, {profile.VARIABLE: classes}


def check_settings(column: planning.Column) -> None:
    """The library itself checks ours and reports their faults."""
    ours = places.find().library
    if not column.env or column.library is None or not ours.exists():
        return
    if column.library == ours.resolve():
        env = {**column.env, "POOLSHIM_STRICT": "1"}
        done = launch_once(Launch(("true",), column.library, env), timeout_s=60)
        if done.report["exit_status"] == STRICT_STATUS:
            raise BadRequest(f"{column.name}: {first_line(done.stderr)}")


def reproduce(plan: planning.Plan) -> str:
    """The command line that makes these figures again."""
    words = sys.argv[1:] if sys.argv[1:2] == ["compare"] else ["compare"]
    return shlex.join(["poolshim", *words])


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end us as Ctrl-C does, after the processes that we started."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {n: signal.signal(n, leave) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def shown_progress(is_quiet: bool) -> Iterator[Any]:
    """A bar on a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    if is_quiet or not console.is_terminal:
        yield lambda _: None  # rich 13.3 ends a disabled bar by an empty line
        return
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console, transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("warm-up", total=None)

        def step(at: Step) -> None:
            round_text = f"round {at.round}/{at.rounds}" if at.round > 0 else "warm-up"
            text = f"{round_text} {at.column}"
            bar.update(task, description=f"{text:28}", completed=at.done, total=at.total)

        yield step


def show(results: Results, summary: Summary, is_plain: bool) -> None:
    """The table on standard output."""
    console = Console(no_color=is_plain or None, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=WIDTH_MIN, no_color=True)
    console.print(table.title(results), style="bold", highlight=False, markup=False)
    table.print_table(results, summary, console)


def render(name: str, results: Results, summary: Summary) -> str:
    """One of the files."""
    if name == "json":
        return results.to_json()
    if name == "html":
        from . import report  # jinja2 is an extra

        return report.to_html(results, summary)
    return (table.to_csv if name == "csv" else table.to_markdown)(results, summary)


def write_all(results: Results, summary: Summary, outputs: dict[str, str]) -> list[str]:
    """The JSON first: from it the others can be made again. What could not be written."""
    unwritten = []
    for name, path in outputs.items():
        text = render(name, results, summary)
        if path == "-":
            click.echo(text, nl=False)
            continue
        try:
            files.write_whole(Path(path), text.encode("utf-8", "surrogateescape"))
        except OwnFailure as error:
            unwritten.append(str(error))
    return unwritten
