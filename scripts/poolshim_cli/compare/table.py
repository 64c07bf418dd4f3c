# SPDX-License-Identifier: MIT
"""The comparison as a table: for the terminal (rich), as Markdown, as CSV. Computes nothing.

All three are made from the same cells, so that they cannot disagree.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .. import machine
from .results import Results
from .summary import WORTHWHILE, Figure, Row, Summary, percent, spread

LESS, MORE, EQUAL, UNKNOWN = "▼", "▲", "=", "?"
LEGEND = (
    f"{LESS} less, {MORE} more, {EQUAL} no difference of {percent(WORTHWHILE)} or more, "
    f"{UNKNOWN} cannot tell"
)
UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
COLOURS = {LESS: "green", MORE: "red", EQUAL: "dim", UNKNOWN: "dim"}
CSV_HEADS = {"time": "time_s", "cpu": "cpu_s", "rss": "rss_bytes"}
HEADS = {"time": "time", "cpu": "CPU time", "rss": "peak RSS"}


def three_digits(value: float) -> str:
    """At a length that is still readable."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def time_text(seconds: float) -> str:
    """ "504 ms"."""
    if seconds >= 1:
        return f"{three_digits(seconds)} s"
    return f"{three_digits(seconds * 1e3)} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def size_text(size_bytes: float) -> str:
    """ "40.2 MiB"."""
    for name, unit in UNITS:
        if size_bytes >= unit:
            return f"{three_digits(size_bytes / unit)} {name}"
    return f"{size_bytes:.0f} B"


def value_text(metric: str, value: float) -> str:
    """A figure with its unit."""
    return size_text(value) if metric == "rss" else time_text(value)


def ratio_text(ratio: float) -> str:
    """Three digits below ten."""
    return f"{ratio:.3f}" if ratio < 1.0995 else three_digits(ratio)


def mark(figure: Figure) -> str:
    """The sign of the difference that is called."""
    if figure.is_different is None:
        return UNKNOWN
    return EQUAL if not figure.is_different else LESS if figure.ratio < 1 else MORE


def interval_text(figure: Figure) -> str:
    """ "[0.89, 0.91]", "" without one."""
    if figure.low is None or figure.high is None:
        return ""
    return f"[{ratio_text(figure.low)}, {ratio_text(figure.high)}]"


def plus_minus_text(figure: Figure) -> str:
    """ "± 0.9 %" of the base, where width is scarce; "" without an interval."""
    return f"± {percent(spread(figure))}" if figure.low is not None else ""


def ratio_cell(row: Row, metric: str, is_short: bool = False) -> str:
    """A ratio, its interval, and the sign of the difference that is called."""
    figure = row.figure(metric)
    if figure is None:
        return ""
    if row.is_base:
        return "1"
    interval = plus_minus_text(figure) if is_short else interval_text(figure)
    return " ".join(part for part in (ratio_text(figure.ratio), interval, mark(figure)) if part)


def value_cell(row: Row, metric: str) -> str:
    """A median."""
    figure = row.figure(metric)
    return value_text(metric, figure.median) if figure else ""


def shown_rows(summary: Summary) -> Iterator[Row]:
    """The rows in the order of the table, without the base's second column, which is the noise."""
    return (row for row in summary.rows if not row.is_again)


def noise_line(summary: Summary) -> str:
    """What the base differs from itself."""
    if summary.noise is None:
        return ""
    what = " in CPU time" if summary.speed == "cpu" else ""
    if summary.noise.low is None:
        return f"noise: {summary.base} against itself{what} {ratio_text(summary.noise.ratio)}"
    return (
        f"noise: {summary.base} against itself{what} {ratio_text(summary.noise.ratio)} "
        f"{interval_text(summary.noise)}, ± {percent(spread(summary.noise))}"
    )


def clock_line(summary: Summary) -> str:
    """Whose time it is, and what it includes."""
    if "time" not in summary.metrics:
        return "CPU time: the replayed calls, each with the first use of its block"
    if summary.overhead_s is None:
        return "time: the launcher's clock"
    extra = f"hyperfine and the launcher around the command take {time_text(summary.overhead_s)}"
    if summary.clock == "hyperfine":
        return f"time: hyperfine's, including {time_text(summary.overhead_s)} of the launcher"
    return f"time: the launcher's clock, for {extra}, more than 1 % of this command's time"


def notes(results: Results, summary: Summary) -> list[str]:
    """The lines below the table."""
    rounds = f"{summary.rounds} round{'s' if summary.rounds != 1 else ''}"
    failed = [f"{row.name}: FAILED: {row.failure}" for row in summary.rows if row.failure]
    lines = [
        *failed,
        *(f"warning: {text}" for text in summary.warnings),
        *(f"{name}: {reason}" for name, reason in results.missing),
        *(f"{row.name}: {row.note}" for row in shown_rows(summary) if row.note),
        f"{rounds}, order by seed {results.about.get('seed')}; medians; ratios to "
        f"{summary.base} with 95 % intervals, which hold together; {LEGEND}",
        noise_line(summary),
        clock_line(summary),
        outside_line(results),
        machine_line(results),
    ]
    return [line for line in lines if line]


def outside_line(results: Results) -> str:
    """The part of a traced program's memory that no allocator has."""
    outside = results.about.get("outside_bytes")
    if outside is None:
        return ""
    less = "less" if outside < 0 else "more"
    return (
        f"peak RSS: the replay's and what the traced program had beyond it, "
        f"{size_text(abs(outside))} {less}"
    )


def machine_line(results: Results) -> str:
    """Processor, memory, system and versions."""
    about = results.about
    versions = ", ".join(f"{name} {v}" for name, v in about.get("versions", {}).items() if v)
    try:
        return f"{machine.one_line(about['machine'])}; {versions}"
    except (KeyError, TypeError):
        return versions


def title(results: Results) -> str:
    """The command, or the server and its load, as a line."""
    about = results.about
    if about.get("mode") == "server":
        return f"{about.get('server')}  under  {about.get('load')}"
    if about.get("mode") == "trace":
        calls, threads = about.get("calls", 0), about.get("threads", 1)
        return (f"trace {about.get('trace')}: {calls} calls of "
                f"{threads} thread{'s' if threads != 1 else ''}")  # fmt: skip
    return shell_line(about.get("command") or [])


def shell_line(words: list[str]) -> str:
    """The words as a line for a shell."""
    return shlex.join(str(word) for word in words)


def styled(row: Row, metric: str) -> tuple[Text, Text]:
    """A metric's two cells: the median, and the ratio in the colour of its mark."""
    figure = row.figure(metric)
    if figure is None:
        return Text("failed"), Text()
    colour = COLOURS[mark(figure)] if not row.is_base else ""
    return Text(value_cell(row, metric)), Text(ratio_cell(row, metric, is_short=True), style=colour)


def wide_table(summary: Summary) -> Table:
    """A line for each column."""
    table = Table(box=box.SIMPLE_HEAD, title=None, pad_edge=False)
    table.add_column("allocator", no_wrap=True)
    for metric in summary.metrics:
        table.add_column(HEADS[metric], justify="right", no_wrap=True)
        table.add_column(f"× {escape(summary.base)}", no_wrap=True)
    for row in shown_rows(summary):
        cells = (cell for metric in summary.metrics for cell in styled(row, metric))
        table.add_row(Text(row.name), *cells)
    return table


def narrow_table(summary: Summary, has_names_apart: bool) -> Table:
    """A line for each metric of each column; its name beside the first of them, or above them."""
    table = Table(box=box.SIMPLE_HEAD, title=None, pad_edge=False, show_edge=False)
    heads = [] if has_names_apart else ["allocator"]
    for head in (*heads, "", "median", f"× {escape(summary.base)}"):
        table.add_column(head, justify="right" if head == "median" else "left", overflow="fold")
    for at, row in enumerate(shown_rows(summary)):
        if at:
            table.add_section()
        if has_names_apart:
            table.add_row(Text(row.name, style="bold"))
        metrics = summary.metrics
        for metric in metrics if row.failure is None else metrics[:1]:
            is_named = not has_names_apart and metric == metrics[0]
            names = [] if has_names_apart else [Text(row.name if is_named else "")]
            table.add_row(*names, HEADS[metric], *styled(row, metric))
    return table


def fitting_table(summary: Summary, console: Console) -> Table:
    """The widest one in which nothing is cut off."""
    endless = console.options.update(width=10000)
    for table in (wide_table(summary), narrow_table(summary, False)):
        if console.measure(table, options=endless).maximum <= console.width:
            return table
    return narrow_table(summary, True)


def print_table(results: Results, summary: Summary, console: Console) -> None:
    """For the terminal."""
    table = fitting_table(summary, console)
    console.print(table)
    if not table.show_edge:
        console.print()
    console.print(f"[bold]{escape(summary.verdict)}[/]", highlight=False)
    for line in notes(results, summary):
        style = "yellow" if line.startswith("warning:") or ": FAILED:" in line else "dim"
        console.print(f"[{style}]{escape(line)}[/]", highlight=False)


def markdown_text(text: str) -> str:
    """Nothing in it starts a column, a tag or an emphasis."""
    for special in "\\|<*_`":
        text = text.replace(special, "\\" + special)
    return text


def to_markdown(results: Results, summary: Summary) -> str:
    """A table as GitHub shows it."""
    fence = "````" if "```" in title(results) else "```"
    heads = ["allocator"]
    for metric in summary.metrics:
        heads += [HEADS[metric], f"× {markdown_text(summary.base)}"]
    lines = [
        f"**{markdown_text(summary.verdict)}**", "",
        "| " + " | ".join(heads) + " |",
        "|---|" + "---:|---|" * len(summary.metrics),
    ]  # fmt: skip
    for row in shown_rows(summary):
        cells = [markdown_text(row.name)]
        for metric in summary.metrics:
            has_figure = row.figure(metric) is not None
            cells += [value_cell(row, metric) if has_figure else "failed", ratio_cell(row, metric)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(f"- {markdown_text(line)}" for line in notes(results, summary)), ""]
    reproduce = results.about.get("reproduce") or title(results)
    return "\n".join([*lines, f"{fence}sh", reproduce, fence, ""])


def to_csv(results: Results, summary: Summary) -> str:
    """One line per column, the noise among them, numbers unrounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = ["allocator", "library", "version", "environment", "rounds", "failure"]
    for name in (CSV_HEADS[metric] for metric in summary.metrics):
        heads += [name] + [f"{name.partition('_')[0]}_{x}" for x in ("ratio", "low", "high")]
        heads.append(f"{name.partition('_')[0]}_is_different")
    writer.writerow(heads)
    for row, column in zip(summary.rows, results.columns):
        env = " ".join(f"{key}={value}" for key, value in column.env.items())
        cells = [row.name, column.library, column.version, env, row.rounds, row.failure]
        for metric in summary.metrics:
            figure = row.figure(metric)
            cells += (
                [None] * 5 if figure is None else
                [figure.median, figure.ratio, figure.low, figure.high, figure.is_different]
            )  # fmt: skip
        writer.writerow(round(cell, 6) if isinstance(cell, float) else cell for cell in cells)
    return out.getvalue()
