# SPDX-License-Identifier: MIT
"""Samples the memory of a process and all that descend from it, while they run.

    watch = Watch(pid); watch.sample(); watch.moments

A sample costs time that grows with the memory: the pause after it is several times as long, so that
the watching takes a fifth of one core at most. When there are many samples, every second one is
dropped and the pause is doubled.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from .. import pprof, symbols
from ..callsites import Frame
from ..compare.processes import descendants, read_family
from ..errors import Failed, OwnFailure
from ..folds import Folds
from ..foreign.perf_map import owned_by
from ..live.roots import Root, root_of
from ..profile.live import perf_map_of
from .account import Account, Book, copied_bytes
from .mappings import command_of

PAUSE_S = 0.1
COST_SHARE = 0.2  # of one core
ASK_S = 0.1  # between two requests for samples
MOMENTS_MAX = 1000
FAMILY_MAX = 64  # processes; more are not looked at


@dataclass
class Moment:
    """All processes at one time."""

    at_s: float
    accounts: dict[int, Account] = field(default_factory=dict)

    @property
    def pss(self) -> int:
        """Memory of all of them, each page once."""
        return sum(one.pss for one in self.accounts.values())

    @property
    def copied(self) -> int:
        """Private copies of pages that were inherited."""
        return sum(one.copied for one in self.accounts.values())


class Watch:
    """Samples one command and its children."""

    def __init__(
        self, root: int = 0, pause_s: float = PAUSE_S, starter: int = 0, interval: int = 0
    ) -> None:
        self.root = root  # 0: the starter has not begun it
        self.starter = starter  # the launcher, whose only child is the root
        self.interval = interval  # to sample at, of a process that was running before
        self.pause_s = pause_s
        self.start_s = time.monotonic()
        self.moments: list[Moment] = []
        self.books: dict[int, Book] = {}
        self.commands: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.code: dict[tuple[int, int], pprof.Mapping] = {}  # by process and address
        self.roots: dict[int, Root] = {}
        self.lines: dict[tuple[int, int], pprof.Line] = {}  # by process and site
        self.refusal = ""  # why a process could not be read
        self.folds = Folds()
        self.has_ended = False  # a process of --pid, while it was watched
        self.kernel_peak = 0  # bytes resident of the largest process of a command that has ended
        self.notes: list[str] = []  # on processes not watched, and on missing names

    def wait_s(self, cost_s: float) -> float:
        """Seconds until the next sample."""
        return max(self.pause_s, cost_s / COST_SHARE)

    def sample(self) -> float:
        """One moment; what it cost in CPU seconds."""
        before = time.process_time()
        moment = Moment(time.monotonic() - self.start_s)
        family = read_family()
        self.root = self.root or self.find_root(family)
        pids = {self.root} | descendants(self.root, family) if self.root else set()
        alive = sorted(pid for pid in pids if pid in family and not family[pid][1])
        for pid in alive[:FAMILY_MAX]:
            self.parents[pid] = family[pid][0]
            account = self.take(pid)
            if account is not None and account.rss:
                moment.accounts[pid] = account
        self.add_copies(moment)
        for pid in set(self.books) - set(alive):
            self.books.pop(pid).close()
        if moment.accounts:
            self.moments.append(moment)
            self.thin()
        return time.process_time() - before

    def find_root(self, family: dict[int, tuple[int, bool]]) -> int:
        """The command, once the launcher's child has become it; 0 before."""
        for pid, (parent, _) in family.items():
            with contextlib.suppress(OSError):
                if parent == self.starter and has_begun(pid, parent):
                    return pid
        return 0

    def rest(self, seconds: float) -> None:
        """Sleeps until the next sample, while the sampling goes on."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            for book in self.books.values():
                book.ask()
            time.sleep(min(left_s, ASK_S))

    @property
    def is_command(self) -> bool:
        """Whether it was started here, and has ended."""
        return self.starter != 0

    @property
    def is_attached(self) -> bool:
        """Whether the process was running before."""
        return self.interval != 0

    @property
    def span_s(self) -> float:
        """Seconds from the first sample to the last."""
        return self.moments[-1].at_s - self.moments[0].at_s if self.moments else 0.0

    def take(self, pid: int) -> Account | None:
        """One process; None where it ends meanwhile."""
        book = self.books.setdefault(pid, Book(pid, self.interval))
        try:
            account = book.take()
        except (Failed, OwnFailure, OSError) as error:
            self.refusal = str(error)
            return None
        self.commands[pid] = command_of(pid) or self.commands.get(pid, "")
        self.lines.update(((pid, site), line) for site, line in account.lines.items())
        for one in book.mappings:
            if "x" in one.permissions and one.is_file:
                self.code.setdefault(
                    (pid, one.start),
                    pprof.Mapping(one.start, one.end, one.offset, self.inside(pid, one.path), ""),
                )
        return account

    def add_copies(self, moment: Moment) -> None:
        """Adds private copies in processes whose parent runs, and which run themselves."""
        for pid, account in sorted(moment.accounts.items()):
            parent = self.books.get(self.parents.get(pid, 0))
            if parent is None or parent.pid not in moment.accounts:
                continue
            try:
                account.copied = copied_bytes(self.books[pid], parent)
            except (Failed, OwnFailure, OSError):
                del moment.accounts[pid]

    def thin(self) -> None:
        """Half as many, twice as far apart."""
        if len(self.moments) > MOMENTS_MAX:
            self.moments = self.moments[::2]
            self.pause_s *= 2

    def inside(self, pid: int, path: str) -> str:
        """A path as the process sees it, whose root is looked up while it runs."""
        if pid not in self.roots:
            self.roots[pid] = root_of(pid) if os.path.exists(f"/proc/{pid}") else Root()
        return self.roots[pid].inside(path)

    def code_of(self, pid: int) -> list[pprof.Mapping]:
        """The mappings of code in a process."""
        return sorted(
            (one for (owner, _), one in self.code.items() if owner == pid),
            key=lambda one: one.start,
        )

    def frames(
        self, pid: int, stacks: set[tuple[int, ...]]
    ) -> dict[tuple[int, ...], list[Frame]]:
        """The functions of each stack, innermost first."""
        mappings = self.code_of(pid)
        locations = {
            address: pprof.Location(address, mapping_at(mappings, address))
            for address in {address for stack in stacks for address in stack}
            if (pid, address) not in self.lines
        }
        locations |= {
            site: pprof.location_of(line) for (owner, site), line in self.lines.items()
            if owner == pid
        }
        profile = pprof.Profile(samples=[pprof.Sample(tuple(locations.values()), ())])
        root = self.roots.get(pid, Root())
        perf_map = owned_by(pid, Path(f"/tmp/perf-{pid}.map"))
        if root != Root():
            perf_map = perf_map_of(pid, root.folder)
        found = symbols.names_of(profile, perf_map, root.folder)
        self.notes += [note for note in found.notes if note not in self.notes]
        return {stack: found.frames_of(locations[one] for one in stack) for stack in stacks}


def has_begun(pid: int, starter: int) -> bool:
    """Whether a child runs another program than its parent; also where that is not ours to see."""
    try:
        return not os.path.samefile(f"/proc/{pid}/exe", f"/proc/{starter}/exe")
    except PermissionError:
        return True


def mapping_at(mappings: list[pprof.Mapping], address: int) -> pprof.Mapping | None:
    """The one that has it."""
    return next((one for one in mappings if one.start <= address < one.limit), None)


