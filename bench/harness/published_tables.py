# SPDX-License-Identifier: MIT
"""The originals' own tables, row by row under their names, followed by poolshim's rows.

Tempesta's pools for HTTP, foonathan's profiling, Intersec's list of 100 million blocks, and
boost_intrusive_pool's two patterns against the enlarge step, under several mallocs.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from poolshim_cli.allocators import Allocator
from poolshim_cli.errors import RunFailed

from .contests import Contest, Result
from .report import NOTHING, Section, milliseconds
from .runner import Runner

# Groups that a run of ratios leaves out: rows by the hundred, or no contest.
GROUPS = ("profiling", "enlarge")
TEMPESTA_CASES = {
    "small": "(Small)", "small_free": "w/ free (Small)", "big": "(Big)",
    "big_free": "w/ free (Big)", "mix": "w/ free (Mix)", "make_destroy": "cr. & destr.",
}  # fmt: skip
# Contestant, how the article calls it, and where its mixture has another case.
TEMPESTA_POOLS = {
    "boost_pool": "boost::pool", "after_nginx": "ngx_pool",
    "after_nginx_sized": "ngx_pool, no scan", "after_tfwpool": "tfw_pool", "apr": "apr_pool",
    "glib_slice": "g_slice", "malloc": "malloc", "ps_region": "ps_region", "ps_pool": "ps_pool",
}  # fmt: skip
NGX = ("after_nginx", "after_nginx_sized")  # the article frees large objects only with it
PROFILING_COLUMNS = ("Heap", "New", "Small", "Node", "Array", "Stack", "ps_pool", "ps_stack")
ORDERS = ("single", "bulk", "bulk_reversed", "butterfly")
STEPS = (1, 16, 64, 256, 1024, 4096, 16384)
PATTERNS = ("continuous", "mixed")
MALLOCS = ("glibc", "tcmalloc", "jemalloc")
OBJECTS = 100_000
LIST_WHOLE_FROM = 0.3  # the scale from which on the list has all of its blocks
CALLS = ("mmap", "brk")

Curves = dict[str, dict[str, dict[str, dict[int, float]]]]  # malloc, pattern, contestant, step


def measured(runner: Runner, contest: Contest, scale: float, runs: int,
             allocator: Allocator | None = None) -> Result:  # fmt: skip
    """So many processes of one contest."""
    result = Result(contest)
    for _ in range(runs):
        run = runner.run(contest.as_case(scale), allocator or Allocator(name=contest.pool))
        result.cold_ms.append(float(run.report["cold_ms"]))
        result.warm_ms.append(float(run.report["warm_ms"]))
        result.rss_kib.append(run.peak_rss_kib)
    return result


def count_calls(program: Path, arguments: tuple[str, ...]) -> dict[str, int]:
    """The calls of mmap and brk of one process."""
    with tempfile.NamedTemporaryFile(prefix="poolshim-", suffix=".strace") as log:
        command = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", f"trace={','.join(CALLS)}",
                   "-o", log.name, str(program), *arguments]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = Path(log.name).read_text().splitlines()
    if done.returncode != 0:
        raise RunFailed(f"strace {program.name}: status {done.returncode}: {done.stderr[-200:]}")
    return {call: sum(f" {call}(" in line for line in lines) for call in CALLS}


def tempesta(runner: Runner, found: list[Contest], scale: float, runs: int) -> Section:
    """The article's rows; calls are those of the whole process, less those of its start."""
    section = Section("Tempesta: pools for HTTP", ["row", "cold\nms", "warm\nms",
                      "calls of\nmmap", "calls of\nbrk", "peak\nMiB"])  # fmt: skip
    contests = {(one.case, one.pool): one for one in found if one.group == "requests"}
    program = runner.bench_dir / "pools" / "requests"
    start = count_calls(program, ("--list",))
    for pool, name in TEMPESTA_POOLS.items():
        for case, label in TEMPESTA_CASES.items():
            case = "mix_nginx" if case == "mix" and pool in NGX else case
            contest = contests.get((case, pool))
            if contest is None:
                continue
            done = measured(runner, contest, scale, runs)
            calls = count_calls(program, contest.as_case(scale).arguments)
            section.rows.append([
                f"{name} {label}", milliseconds(min(done.cold_ms)), milliseconds(min(done.warm_ms)),
                *(str(calls[call] - start[call]) for call in CALLS),
                f"{median(done.rss_kib) / 1024:.0f}",
            ])  # fmt: skip
    return section


def long_list(runner: Runner, found: list[Contest], scale: float, runs: int) -> Section:
    """Intersec's list at its size, with the memory of each pool."""
    section = Section("Intersec: a list of 100 million blocks of 8 bytes",
                      ["pool", "cold\nms", "warm\nms", "peak\nMiB"])  # fmt: skip
    for contest in found:
        if (contest.group, contest.case) == ("list", "long"):
            whole = max(scale, 1.0) if scale >= LIST_WHOLE_FROM else scale
            done = measured(runner, contest, whole, runs)
            section.rows.append([contest.pool, milliseconds(min(done.cold_ms)),
                                 milliseconds(min(done.warm_ms)),
                                 f"{median(done.rss_kib) / 1024:.0f}"])  # fmt: skip
    return section


def profiling(runner: Runner, found: list[Contest], scale: float, runs: int) -> Iterator[Section]:
    """foonathan's tables: one for nodes, one for arrays; microseconds of a sample."""
    rows: dict[str, dict[str, Contest]] = {}
    for one in found:
        if one.group == "profiling":
            rows.setdefault(one.case, {})[one.pool] = one
    for title, stars in (("nodes, count*size", 1), ("arrays, count*size*length", 2)):
        section = Section(f"foonathan: {title}, microseconds", ["row", *PROFILING_COLUMNS])
        for case, pools in rows.items():
            if case.count("*") != stars:
                continue
            cells = []
            for pool in PROFILING_COLUMNS:
                done = measured(runner, pools[pool], scale, runs) if pool in pools else None
                cells.append(NOTHING if done is None else
                             f"{1000 * min(*done.cold_ms, *done.warm_ms):.2f}")  # fmt: skip
            section.rows.append([case.replace("_", " ").replace("*", "×"), *cells])
        yield section


def enlarge(runner: Runner, found: list[Contest], scale: float, runs: int,
            mallocs: list[Allocator]) -> tuple[Section, Curves]:  # fmt: skip
    """Nanoseconds of an object, first pass, a fresh pool; the best process."""
    section = Section("boost_intrusive_pool: nanoseconds of an object by enlarge step",
                      ["malloc, pattern, pool", *map(str, STEPS)])  # fmt: skip
    curves: Curves = {}
    contests = [one for one in found if one.group == "enlarge"]
    for malloc in mallocs:
        for pattern in PATTERNS:
            for pool in dict.fromkeys(one.pool for one in contests):
                curve = {}
                for step in STEPS:
                    one = next(c for c in contests if c.pool == pool
                               and c.case == f"{pattern}_{step}")  # fmt: skip
                    best = min(measured(runner, one, scale, runs, malloc).cold_ms)
                    curve[step] = best * 1e6 / (OBJECTS * scale)
                curves.setdefault(malloc.name, {}).setdefault(pattern, {})[pool] = curve
                section.rows.append([f"{malloc.name}, {pattern}, {pool}",
                                     *(f"{value:.0f}" for value in curve.values())])  # fmt: skip
    return section, curves
