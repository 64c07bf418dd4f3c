# SPDX-License-Identifier: MIT
"""What tune says on stderr: the recordings, what the table would win, what it did win."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .cost import Account
from .recording import Recording
from .verify import Check, Verdict, interval_text

PROGRAMS_SHOWN = 5
TERMS = (
    ("rounding", "rounding up to a class"),
    ("tails", "ends of slabs"),
    ("part_filled", "part-filled slabs"),
    ("waste", "waste, all three"),
    ("footprint", "live blocks and waste"),
)


def size_text(size_bytes: float) -> str:
    """A size in the largest unit that suits."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(size_bytes) >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes:.0f} bytes"


def plain_table(*headers: str) -> Table:
    """No frames, numbers to the right; on a narrow terminal folded, never cut off."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, header in enumerate(headers):
        table.add_column(header, justify="left" if i == 0 else "right", overflow="fold")
    return table


def show_recordings(console: Console, recordings: Sequence[Recording], runs: int) -> None:
    """Which processes the table is for."""
    count = f"{len(recordings)} process{'es' if len(recordings) != 1 else ''}"
    console.print(Text(f"recorded {count}" + (f" in {runs} runs" if runs > 1 else "")))
    table = plain_table("process", "live at its peak", "peaks kept")
    for one in recordings[:PROGRAMS_SHOWN]:
        table.add_row(
            Text(f"{one.program} ({one.pid})"), size_text(one.peak_live_bytes),
            str(len(one.peaks)),
        )  # fmt: skip
    if len(recordings) > PROGRAMS_SHOWN:
        rest = recordings[PROGRAMS_SHOWN:]
        live = sum(one.peak_live_bytes for one in rest)
        table.add_row(f"{len(rest)} smaller ones", size_text(live), "")
    console.print(table)


def show_prediction(console: Console, top_bytes: int, before: Account, after: Account) -> None:
    """The cost by term."""
    upto = f"predicted for blocks of up to {top_bytes / 1024:g} KiB"
    table = plain_table(upto, "before", "tuned", "less")
    for name, label in TERMS:
        values = getattr(before, name), getattr(after, name)
        table.add_row(label, *(size_text(value) for value in (*values, values[0] - values[1])))
    console.print(table)


def show_classes(console: Console, before: Sequence[int], after: Sequence[int]) -> None:
    """What changes in the table."""
    added, dropped = sorted({*after} - {*before}), sorted({*before} - {*after})
    console.print(Text(f"{len(before)} classes before, {len(after)} tuned"))
    for word, sizes in (("added", added), ("dropped", dropped)):
        if sizes:
            console.print(Text(f"  {word}: {', '.join(map(str, sizes))}"))


def show_checks(console: Console, checks: Sequence[Check]) -> None:
    """The table of the measurements."""
    time = "CPU time" if any(check.speed == "cpu" for check in checks) else "time"
    table = plain_table("measured, tuned / before", "rounds", "peak RSS", time)
    labels = []
    for check in checks:
        label = check.label if len(check.label) <= 40 else check.label[:39] + "…"
        labels.append(label + (" (held out)" if check.is_held_out else ""))
        table.add_row(
            Text(labels[-1]), str(check.rounds), interval_text(check.rss),
            interval_text(check.time),
        )  # fmt: skip
    if console.measure(table, options=console.options.update(width=10000)).maximum > console.width:
        table = plain_table("measured, tuned / before", "")
        for label, check in zip(labels, checks):
            for line in ((label, ""), ("  rounds", str(check.rounds)),
                         ("  peak RSS", interval_text(check.rss)),
                         (f"  {time}", interval_text(check.time))):  # fmt: skip
                table.add_row(*map(Text, line))
    console.print(table)
    for warning in dict.fromkeys(w for check in checks for w in check.warnings):
        console.print(Text(f"note: {warning}"))


def show_verdict(
    console: Console, verdict: Verdict, checks: Sequence[Check], predicted_bytes: float | None
) -> None:
    """The last lines. predicted_bytes: what the largest process should save."""
    if predicted_bytes is not None and checks:
        first = checks[0]
        saved = first.before_rss_bytes * (1 - first.rss.ratio)
        console.print(
            Text(
                f"largest process: {size_text(predicted_bytes)} less predicted, "
                f"{size_text(saved)} of {size_text(first.before_rss_bytes)} measured"
            )
        )
    if verdict.is_worthwhile:
        console.print(Text(f"worthwhile: {verdict.reason}"))
    elif checks:
        console.print(Text(f"no worthwhile change: {verdict.reason}"))
    else:
        console.print(Text(f"nothing to gain: {verdict.reason}"))


