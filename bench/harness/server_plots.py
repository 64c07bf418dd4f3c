# SPDX-License-Identifier: MIT
"""Draws memory over time of the programs that bench/servers.py measured, and the means.

    PYTHONPATH=bench:scripts python3 -m harness.server_plots bench/results/servers

Needs matplotlib.
"""

from __future__ import annotations

from pathlib import Path

from .picture import draw_argument, pyplot, save
from .server_cases import Table, read_servers
from .server_figures import METRICS, means, ratios, typical
from .server_report import BASE, HEADS, MIB, SUBJECT, Stored, order, read_stored

COLORS = {"glibc": "0.45", "poolshim": "tab:red", "jemalloc": "tab:blue", "tcmalloc": "tab:green",
          "tcmalloc-percpu": "tab:olive", "mimalloc": "tab:orange", "mimalloc3": "tab:brown",
          "snmalloc": "tab:purple"}  # fmt: skip


def draw_course(title: str, stored: Stored, path: Path) -> None:
    """Memory over time; the load's end is where each line has its dot."""
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for allocator in order([stored]):
        curve = stored.content["curves"].get(allocator)
        if not curve:
            continue
        is_subject = allocator == SUBJECT
        run = typical([run for run in stored.runs if run.allocator == allocator])
        points = [(at / 1000, kib / MIB) for at, kib in curve]
        color = COLORS.get(allocator)
        (line,) = axes.plot(*zip(*points), label=allocator, color=color,
                            linewidth=2.5 if is_subject else 1.2,
                            zorder=3 if is_subject else 2)  # fmt: skip
        at, mib = min(points, key=lambda point: abs(point[0] - run.ended_ms / 1000))
        axes.plot([at], [mib], "o", color=line.get_color(), markersize=5, zorder=4)
    axes.set(title=title, xlabel="seconds; the dot: the load has ended",
             ylabel="resident MiB")  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)


def draw_means(table: Table, stored: dict[str, Stored], path: Path) -> bool:
    """Bars of the geometric means; False if no allocator has all of them."""
    counted = [server.name for server in table.servers
               if server.is_in_means and server.name in stored]  # fmt: skip
    found = [ratios(stored[name].runs, BASE) for name in counted]
    known = {name: own for name in order(stored[name] for name in counted)
             if (own := means(found, name)) is not None}  # fmt: skip
    if not known:
        return False
    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    width = 0.8 / len(known)
    for place, (name, own) in enumerate(known.items()):
        lefts = [number + (place - len(known) / 2 + 0.5) * width for number in range(len(METRICS))]
        axes.bar(lefts, [own[metric] for metric in METRICS], width, label=name,
                 color=COLORS.get(name))  # fmt: skip
    for number, metric in enumerate(METRICS):
        if metric in table.goals:
            goal = table.goals[metric]
            label = "goal" if number == 0 else None
            axes.plot([number - 0.45, number + 0.45], [goal, goal], "k--", linewidth=1, label=label)
    axes.set_xticks(range(len(METRICS)), [HEADS[metric] for metric in METRICS])
    axes.set(title=f"Threaded programs ({len(counted)}): geometric means to glibc",
             ylabel="less is better")  # fmt: skip
    axes.grid(alpha=0.3, axis="y")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)
    return True


def draw_all(folder: Path) -> list[Path]:
    """A picture per program and the one of the means; returns their paths."""
    table = read_servers()
    stored = read_stored(folder, [server.name for server in table.servers])
    made = []
    for server in table.servers:
        if server.name in stored:
            made.append(folder / f"{server.name}.svg")
            draw_course(server.title, stored[server.name], made[-1])
    if draw_means(table, stored, folder / "means.svg"):
        made.append(folder / "means.svg")
    return made


if __name__ == "__main__":
    draw_argument(draw_all)
