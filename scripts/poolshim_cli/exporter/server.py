# SPDX-License-Identifier: MIT
"""The HTTP side of `poolshim exporter`: metrics, heap profiles, and a list of the processes.

    server = Server(("127.0.0.1", 9921), collector, sampler); server.serve_forever()

Clients are not trusted: the time of a profile is bounded, too.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from urllib.parse import parse_qs

from .. import http_service, pprof_write
from ..errors import CANNOT_EXECUTE, GIVING_UP, NOT_FOUND, BadRequest, Failed, OwnFailure
from ..foreign import patience
from ..foreign.text import printable
from ..live import options, targets
from . import exposition
from .metrics import Collector
from .profiles import SECONDS, SECONDS_MAX, Busy, Sampler

SEARCH_SECONDS = 10.0  # for the processes of a container
QUERY_FIELDS_MAX = 16
GZIP_LEVEL = 4
TEXT = "text/plain; charset=utf-8"
STATUSES = {NOT_FOUND: 404, CANNOT_EXECUTE: 403}  # of the command's exit statuses
PROFILE = "/debug/pprof/heap"


def status_of(error: Exception) -> int:
    """The status of HTTP for a failure."""
    if isinstance(error, BadRequest):
        return 400
    if isinstance(error, Busy):
        return 429
    if isinstance(error, patience.Stuck):
        return 504
    if isinstance(error, Failed):
        return 409
    return STATUSES.get(error.status, 500) if isinstance(error, OwnFailure) else 500


def pid_in(query: dict[str, list[str]]) -> int:
    """The process that a request names: pid=N or container=ID."""
    pids, names = query.get("pid", []), query.get("container", [])
    if len(pids) + len(names) != 1:
        raise BadRequest("which process? pid=N or container=ID")
    if names:
        return targets.pid_of(targets.PREFIX + printable(names[0]), "container")
    return int(options.number(printable(pids[0]), "pid"))


def seconds_in(query: dict[str, list[str]]) -> float:
    """How long to sample."""
    text = printable(query.get("seconds", [str(SECONDS)])[-1])
    seconds = options.number(text, "seconds", float)
    if seconds > SECONDS_MAX:
        raise BadRequest(f"seconds: {text} is more than {SECONDS_MAX:g}")
    return seconds


class Handler(http_service.Answers):
    """Answers one request."""

    server: Server

    def do_GET(self) -> None:
        """Any path; a failure is one line."""
        path, _, query = self.path.partition("?")
        routes: dict[str, Callable[[str], None]] = {
            "/": self.metrics, "/metrics": self.metrics, PROFILE: self.profile,
            "/debug/pprof/allocs": self.profile, "/targets": self.targets,
        }  # fmt: skip
        try:
            if path not in routes:
                raise OwnFailure("there are /metrics, /targets and " + PROFILE, NOT_FOUND)
            routes[path](query)
        except ConnectionError:
            pass  # the client has gone
        except GIVING_UP as error:
            self.answer(TEXT, f"{error}\n".encode(), status_of(error))

    def metrics(self, _query: str) -> None:
        """In the format that the client asks for."""
        is_open = exposition.is_open_accepted(self.headers.get("Accept", ""))
        body = exposition.text_of(self.server.collector.families(), is_open).encode()
        kind = exposition.OPEN_TYPE if is_open else exposition.PLAIN_TYPE
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, GZIP_LEVEL)
            self.answer(kind, body, Content_Encoding="gzip")
        else:
            self.answer(kind, body)

    def profile(self, text: str) -> None:
        """The heap profile of a process."""
        try:
            query = parse_qs(text, max_num_fields=QUERY_FIELDS_MAX)
        except ValueError:
            raise BadRequest("too many fields") from None
        seconds = seconds_in(query)
        pid = patience.Call(pid_in, query).result(SEARCH_SECONDS)
        found = self.server.sampler.sample(pid, seconds)
        if self.path.startswith("/debug/pprof/allocs"):
            found.profile.default_type = "alloc_space"
        body = pprof_write.encode(found.profile, found.names)
        self.answer("application/octet-stream", body,
                    Content_Disposition='attachment; filename="heap.pb.gz"')  # fmt: skip

    def targets(self, _query: str) -> None:
        """The processes as targets of profiles, in the form of Prometheus's HTTP discovery."""
        host = printable(self.headers.get("Host", ""))
        found = [
            {"targets": [host], "labels": {"__param_pid": labels["pid"],
                                           **{name: one for name, one in labels.items() if one}}}
            for labels in self.server.collector.labels()
        ]  # fmt: skip
        self.answer("application/json", json.dumps(found).encode())


class Server(http_service.Server):
    """With what it serves."""

    def __init__(self, place: tuple[str, int], collector: Collector, sampler: Sampler) -> None:
        self.collector, self.sampler = collector, sampler
        super().__init__(place, Handler, "exporter")
