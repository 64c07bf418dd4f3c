# SPDX-License-Identifier: MIT
"""`poolshim tune`: record, optimise, verify. Thin: the work is done by the modules beside it.

    scripts/poolshim tune -- python3 app.py
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from .. import files
from ..command_line import Duration, Measuring
from ..compare.measure import Step
from ..compare.plan import CommandWork, ServerWork, check_folder, check_input, split_command
from ..errors import BadRequest, need
from . import picture, profile, recorder, report, verify
from .cost import Account, Workload, grid_points
from .optimise import CLASS_LIMIT, Solution, candidates, choose, least_class_count, optimise
from .recording import Recording, load_all

DEFAULT_PROFILE = "poolshim-profile.toml"
SMALL_MAX_BYTES = 8192  # built-in: larger requests take whole pages, which all threads share
SMALL_MAX_LEAST_BYTES = 1024
JSON_VERSION = 1
SMALL_SHARE = 1 / 16  # of the largest process: below, it does not count
WIDTH_PIPED = 120


@dataclass(frozen=True)
class Request:
    """The command line, checked."""

    work: CommandWork | ServerWork | None
    label: str
    held_out: tuple[str, ...]
    runs: int
    recordings: tuple[Path, ...]
    profile: Path | None
    output: Path
    picture: Path | None
    max_classes: int
    rounds: int | None
    least_gain: float
    timeout_s: float
    is_verified: bool
    is_json: bool
    is_checked: bool
    is_quiet: bool
    is_plain: bool


@dataclass(frozen=True)
class Found:
    """A table, and where it came from."""

    table: tuple[int, ...]
    before: tuple[int, ...] | None  # None: not known, the table is a profile's
    recordings: tuple[Recording, ...] = ()
    workload: Workload | None = None
    costs: tuple[tuple[int, float], ...] = ()  # by number of classes
    is_recorded_here: bool = True

    @property
    def settings(self) -> dict[str, str]:
        """The variables to set."""
        result = {profile.VARIABLE: profile.setting(self.table)}
        if self.table[-1] < SMALL_MAX_BYTES:
            result["POOLSHIM_SMALL_MAX"] = str(self.table[-1])
        return result

    @property
    def settings_before(self) -> dict[str, str]:
        """What the runs to compare with get: nothing, where the recording was made the same way."""
        if self.is_recorded_here or self.before is None:
            return {}
        return {profile.VARIABLE: profile.setting(self.before)}

    def accounts(self) -> tuple[Account, Account] | None:
        """The predicted cost before and after."""
        if self.workload is None or self.before is None:
            return None
        return self.workload.account(self.before), self.workload.account(self.table)

    def predicted_bytes(self) -> float | None:
        """What the largest process should save at its highest peak."""
        if not self.recordings or self.before is None:
            return None
        largest = self.recordings[0]
        highest = max(largest.peaks, key=lambda peak: peak.live_bytes, default=None)
        if highest is None:
            return None
        alone = Workload(
            [replace(largest, peaks=(highest,))], grid_points(self.table[-1]), largest.page_bytes
        )
        return alone.account(self.before).footprint - alone.account(self.table).footprint


def tune(request: Request) -> int:
    """All of it; the exit status."""
    console = Console(
        stderr=True, quiet=request.is_quiet, highlight=False, soft_wrap=True,
        no_color=request.is_plain or None,
    )  # fmt: skip
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_PIPED)
    found = take_profile(request) if request.profile else find_table(request, console)
    checks: list[verify.Check] = []
    verdict = None
    if found.table == found.before:
        verdict = verify.Verdict(False, already_best())
        report.show_verdict(console, verdict, checks, None)
    elif request.is_verified and request.work is not None:
        checks = run_checks(request, found, console)
        report.show_checks(console, checks)
        verdict = verify.judge(checks, request.least_gain)
        report.show_verdict(console, verdict, checks, found.predicted_bytes())
    is_given_out = verdict is None or verdict.is_worthwhile
    if request.is_json:
        print(json.dumps(to_json(request, found, checks, verdict), indent=1, ensure_ascii=False))
    elif is_given_out:
        for name, value in found.settings.items():
            print(f"{name}={value}")
    sys.stdout.flush()  # a file that cannot be written takes nothing of it away
    if is_given_out and request.profile is None:
        content = profile.to_toml(to_profile(request, found, checks))
        files.write_whole(request.output, content.encode())
        console.print(f"profile: {request.output}", markup=False)
    if request.picture is not None and found.workload is not None:
        draw(request, found)
    return 1 if request.is_checked and not is_given_out else 0


def already_best() -> str:
    """Why no other table is given out."""
    whose = "present" if os.environ.get(profile.VARIABLE) else "built-in"
    return f"the {whose} size classes already fit this program"


def take_profile(request: Request) -> Found:
    """A table that was found earlier."""
    assert request.profile is not None
    return Found(profile.read(request.profile).table, None)


def find_table(request: Request, console: Console) -> Found:
    """Records, unless recordings are given, and optimises."""
    runs = 1
    if request.recordings:
        recordings = load_all(request.recordings)
    else:
        assert request.work is not None
        runs = request.runs
        recordings = []
        for number in range(1, runs + 1):
            with console.status(f"recording, run {number} of {runs}"):
                recordings += recorder.record(request.work, request.timeout_s)
        recordings.sort(key=lambda one: one.peak_live_bytes, reverse=True)
    top_bytes = max(SMALL_MAX_LEAST_BYTES, recordings[0].usual_max_bytes)
    check_class_count(request.max_classes, top_bytes)
    report.show_recordings(console, recordings, runs)
    recordings = important(recordings)
    before = tuple(size for size in recordings[0].size_classes if size <= top_bytes)
    points = candidates(live_sizes(recordings), before, top_bytes)
    workload = Workload(recordings, points, recordings[0].page_bytes, runs)
    if workload.live_bytes == 0:
        return Found(before, before, tuple(recordings))
    with console.status("optimising"):
        solutions = optimise(workload, limit=request.max_classes, before=before)
    if not solutions:  # the classes before, preserved where nothing is live, are too many
        workload = Workload(recordings, grid_points(top_bytes), recordings[0].page_bytes, runs)
        solutions = optimise(workload, limit=request.max_classes, before=before)
    found = Found(
        choose(solutions).table, before, tuple(recordings), workload, costs_of(solutions),
        not request.recordings,
    )  # fmt: skip
    accounts = found.accounts()
    assert accounts is not None
    report.show_prediction(console, top_bytes, *accounts)
    report.show_classes(console, before, found.table)
    return found


def important(recordings: list[Recording]) -> list[Recording]:
    """The recordings without a tree's small processes, which may be many, but seldom at once."""
    least = recordings[0].peak_live_bytes * SMALL_SHARE
    return [one for one in recordings if one.peak_live_bytes >= least]


def live_sizes(recordings: list[Recording]) -> set[int]:
    """Whatever has a block at a peak."""
    return {
        size
        for one in recordings
        for peak in one.peaks
        for size, count in peak.sizes
        if count > 0
    }


def costs_of(solutions: dict[int, Solution]) -> tuple[tuple[int, float], ...]:
    """What the best table of each number of classes costs."""
    return tuple((count, round(one.cost, 1)) for count, one in sorted(solutions.items()))


def run_checks(request: Request, found: Found, console: Console) -> list[verify.Check]:
    """The command itself, then every one that was held out."""
    assert request.work is not None
    works = [(request.work, request.label, False)]
    for text in request.held_out:
        if isinstance(request.work, ServerWork):
            works.append((replace(request.work, load=text), text, True))
        else:
            words = tuple(split_command("--held-out", text))
            works.append((replace(request.work, command=words), text, True))
    checks = []
    with console.status("verifying") as status:

        def progress(step: Step) -> None:
            status.update(f"verifying: {step.done} of about {step.total} runs")

        for work, label, is_held_out in works:
            checks.append(
                verify.verify(
                    work, label, (found.settings_before, found.settings), request.rounds,
                    request.timeout_s, is_held_out, progress,
                )
            )  # fmt: skip
    return checks


def draw(request: Request, found: Found) -> None:
    """The picture's file."""
    assert request.picture is not None and found.workload is not None and found.before is not None
    live = report.size_text(found.workload.live_bytes)
    title = f"{request.label}: {live} live at the peak"
    kind = request.picture.suffix[1:].lower()
    content = picture.draw(found.workload, (found.before, found.table), title, kind)
    files.write_whole(request.picture, content)


def predicted(found: Found) -> dict[str, Any]:
    """The prediction, for files."""
    accounts = found.accounts()
    if accounts is None:
        return {}
    before, after = accounts
    return {
        "live_bytes": round(before.live),
        "waste_before_bytes": round(before.waste),
        "waste_bytes": round(after.waste),
    }


def to_profile(request: Request, found: Found, checks: list[verify.Check]) -> profile.Profile:
    """What the file will say."""
    verified: dict[str, float | int | str] = {}
    if checks:
        for name, figure in (("rss", checks[0].rss), ("time", checks[0].time)):
            verified[f"{name}_ratio"] = round(figure.ratio, 4)
            verified[f"{name}_ratio_low"] = round(figure.low or figure.ratio, 4)
            verified[f"{name}_ratio_high"] = round(figure.high or figure.ratio, 4)
        verified["rounds"] = checks[0].rounds
    command = found.recordings[0].command if request.work is None else tuple(label_words(request))
    return profile.Profile(command, found.settings, predicted(found), verified)


def label_words(request: Request) -> list[str]:
    """The command as words; a server's, with its places still open."""
    if isinstance(request.work, ServerWork):
        return shlex.split(request.work.server)
    assert request.work is not None
    return list(request.work.command)


def to_json(
    request: Request, found: Found, checks: list[verify.Check], verdict: verify.Verdict | None
) -> dict[str, Any]:
    """All that was found, for programs."""
    accounts = found.accounts()
    return {
        "poolshim_tune": JSON_VERSION,
        "command": request.label,
        "settings": found.settings,
        "size_classes": found.table,
        "size_classes_before": found.before,
        "recordings": [
            {"pid": one.pid, "program": one.program, "peak_live_bytes": one.peak_live_bytes}
            for one in found.recordings
        ],
        "predicted": None
        if accounts is None
        else {"before": asdict(accounts[0]), "tuned": asdict(accounts[1])},
        "predicted_saving_bytes": found.predicted_bytes(),
        "cost_by_class_count": found.costs,
        "verified": [check.to_json() for check in checks],
        "is_worthwhile": None if verdict is None else verdict.is_worthwhile,
        "reason": None if verdict is None else verdict.reason,
    }


def check_class_count(count: int, top_bytes: int) -> None:
    """Refuses fewer classes than a table up to top_bytes needs."""
    least = least_class_count(top_bytes)
    if count < least:
        raise BadRequest(f"--max-classes: {least} is the least with which no size wastes a quarter")


def check_request(request: Request) -> Request:
    """Everything that can be refused before the work."""
    if request.work is None and not request.recordings:
        raise BadRequest("no command given: poolshim tune [options] -- command ...")
    if request.work is None and (request.held_out or request.profile):
        raise BadRequest("--held-out and --tuned measure: they need the command itself")
    if request.profile and (request.recordings or request.picture or not request.is_verified):
        raise BadRequest("--tuned only measures a table: no recordings, picture or --no-verify")
    if request.is_checked and (request.work is None or not request.is_verified):
        raise BadRequest("--check needs a command and its verification")
    for text in request.held_out:
        split_command("--held-out", text)
    check_class_count(request.max_classes, SMALL_MAX_BYTES)
    if request.profile is None:
        files.check_writable(request.output)
    if request.picture is not None:
        if request.picture.suffix[1:].lower() not in picture.FORMATS:
            raise BadRequest(f"--picture: {request.picture}: .svg or .png")
        need("matplotlib", "plot")
        files.check_writable(request.picture)
        if files.identity(request.picture) == files.identity(request.output):
            raise BadRequest("-o and --picture are the same file")
    return request


def work_of(
    words: tuple[str, ...], options: dict[str, Any]
) -> tuple[CommandWork | ServerWork | None, str]:
    """The work, and what to call it."""
    server, load = options["server"], options["load"]
    cwd, stdin = check_folder(options["cwd"]), check_input(options["stdin"])
    if (server is None) != (load is None):
        raise BadRequest("--server and --load go together")
    if server is not None:
        if words:
            raise BadRequest("--server is the command: nothing may follow --")
        for option, text in (("--server", server), ("--load", load)):
            split_command(option, text)
        if stdin is not None:
            raise BadRequest("--server takes no --stdin")
        return ServerWork(server, load, options["ready"], cwd), server
    if options["ready"] is not None:
        raise BadRequest("--ready goes with --server")
    if not words:
        return None, " ".join(str(path) for path in options["recording"])
    work = CommandWork(words, cwd, stdin, ignore_failure=options["ignore_failure"])
    return work, shlex.join(words)


FILE = click.Path(path_type=Path)


@click.command(cls=Measuring, options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--runs", type=click.IntRange(1, 100), default=1, show_default=True,
              metavar="N", help="Record N runs.")
@click.option("--recording", type=FILE, multiple=True,
              help="Use a file of POOLSHIM_RECORD instead of recording; may be repeated.")
@click.option("--tuned", "profile", type=FILE, help="Measure the table of an earlier profile only.")
@click.option("-o", "--output", type=FILE, default=Path(DEFAULT_PROFILE), show_default=True,
              help="Write the profile here.")
@click.option("--picture", type=FILE, help="Draw sizes, classes and waste: .svg or .png.")
@click.option("--held-out", multiple=True, metavar="COMMAND",
              help="Require that another command (or load) does not lose; may be repeated.")
@click.option("--server", metavar="COMMAND", help="Start a server; {port} and {dir} are filled in.")
@click.option("--load", metavar="COMMAND", help="Load the server by this command.")
@click.option("--ready", metavar="COMMAND", help="Wait until this command succeeds.")
@click.option("--stdin", type=FILE, help="Read standard input from here; else /dev/null.")
@click.option("--cwd", type=FILE, help="Run the command in this folder.")
@click.option("--ignore-failure", is_flag=True, help="Accept a command that fails.")
@click.option("--max-classes", type=click.IntRange(1, CLASS_LIMIT), default=CLASS_LIMIT,
              show_default=True, help="Limit the number of classes.")
@click.option("--rounds", type=click.IntRange(5, 1000),
              help="Verify in so many rounds; else as many as fit into a minute, 5 to 30.")
@click.option("--least-gain", type=click.FloatRange(0, 100), default=1.0, show_default=True,
              metavar="PERCENT", help="Require this saving of memory.")
@click.option("--timeout", type=Duration(), default=600.0, metavar="TIME",
              help="Limit one run, such as 30s or 2m  [10m]")
@click.option("--no-verify", is_flag=True, help="Print the table unmeasured.")
@click.option("--check", is_flag=True, help="Exit with status 1 if no change is worthwhile.")
@click.option("--json", "is_json", is_flag=True, help="Print all results as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Print no explanation on stderr.")
@click.option("--no-color", is_flag=True, help="Print without colours, as with NO_COLOR.")
def command(words: tuple[str, ...], **options: Any) -> int:
    """Find the size classes with which a command wastes least memory, and verify the saving.

    Records the live blocks of one run under poolshim, computes the best table, and measures the
    command with and without it. Prints the setting on stdout if it is worthwhile.

    \b
    poolshim tune -- python3 app.py
    poolshim tune --held-out 'app other.input' -- app this.input
    poolshim tune --server 'redis-server --port {port}' --load 'redis-benchmark -p {port}'
    """
    work, label = work_of(words, options)
    request = Request(
        work, label, options["held_out"], options["runs"], options["recording"],
        options["profile"], options["output"], options["picture"], options["max_classes"],
        options["rounds"], options["least_gain"] / 100, options["timeout"],
        not options["no_verify"], options["is_json"], options["check"], options["quiet"],
        options["no_color"],
    )  # fmt: skip
    sys.stdout.flush()
    return tune(check_request(request))
