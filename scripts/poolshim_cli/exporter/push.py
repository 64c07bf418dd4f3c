# SPDX-License-Identifier: MIT
"""Sends heap profiles to a server again and again: to Pyroscope, or to an OpenTelemetry collector.

    Pusher(destination_of("http://127.0.0.1:4040"), collector.rows, sampler, 60.0).start()

The path of the address tells the protocol. Nothing is stored: a profile that the server does not
take is lost, and one line says so when that begins and when it ends.
"""

from __future__ import annotations

import http.client
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from .. import pprof_write
from ..errors import GIVING_UP, BadRequest
from ..live import containers
from ..live.processes import Row
from ..profile.live import Found
from . import otlp
from .profiles import SECONDS, Sampler

OTLP_PATH = "/v1development/profiles"
INGEST_PATHS = ("/ingest", "/pyroscope/ingest")
SEND_SECONDS = 15.0
EVERY_SECONDS, EVERY_LEAST = 60.0, 1.0
WORKERS = 16  # processes that are sampled at once
PROCESSES_MAX = 500  # in a period
ANSWER_BYTES = 1 << 16
LABEL_ESCAPES = str.maketrans({letter: "_" for letter in '{},="\\\n'})


@dataclass(frozen=True)
class Destination:
    """Where profiles go."""

    url: str
    is_otlp: bool


def destination_of(text: str) -> Destination:
    """An address with the path of one of the protocols; without a path: Pyroscope's."""
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or parts.query or parts.fragment or parts.username is not None:
        raise BadRequest(f"--push: {text} is not an address such as http://127.0.0.1:4040")
    path = parts.path.rstrip("/")
    if path.endswith(OTLP_PATH):
        return Destination(text, True)
    if not path or path.endswith(INGEST_PATHS):
        return Destination(parts._replace(path=path or INGEST_PATHS[0]).geturl(), False)
    raise BadRequest(f"--push: {path} is the path of no protocol: {INGEST_PATHS[0]} is "
                     f"Pyroscope's, {OTLP_PATH} OpenTelemetry's")  # fmt: skip


def identity_of(pid: int, program: str) -> dict[str, str]:
    """What the server knows a process by."""
    found = containers.identity_in(containers.paths_of(pid))
    return {"pid": str(pid), "program": program, "container": found.container, "pod": found.pod}


def name_of(labels: dict[str, str]) -> str:
    """The name of an application of Pyroscope: redis-server{pid=12,pod=...}."""
    clean = {name: value.translate(LABEL_ESCAPES) for name, value in labels.items() if value}
    program = clean.pop("program", "unknown")
    return f"{program}{{{','.join(f'{name}={value}' for name, value in clean.items())}}}"


def resource_of(labels: dict[str, str]) -> dict[str, str | int]:
    """The same by OpenTelemetry's names of attributes."""
    return {"service.name": labels["program"], "process.pid": int(labels["pid"]),
            "process.executable.name": labels["program"], "container.id": labels["container"],
            "k8s.pod.uid": labels["pod"]}  # fmt: skip


def request_of(
    destination: Destination, found: Found, labels: dict[str, str]
) -> urllib.request.Request:
    """One profile in the form of the protocol."""
    if destination.is_otlp:
        body = otlp.encode(found.profile, found.names, resource_of(labels))
        return urllib.request.Request(
            destination.url, body, {"Content-Type": "application/x-protobuf"}
        )
    until = found.profile.time_nanos // 10**9
    query = urlencode({"name": name_of(labels), "from": until - max(1, round(found.seconds)),
                       "until": until, "format": "pprof", "spyName": "poolshim"})  # fmt: skip
    body = pprof_write.encode(found.profile, found.names)
    return urllib.request.Request(
        f"{destination.url}?{query}", body, {"Content-Type": "application/octet-stream"}
    )


def send(request: urllib.request.Request) -> str:
    """Why the server did not take it; "" if it did."""
    try:
        with urllib.request.urlopen(request, timeout=SEND_SECONDS) as answer:
            answer.read(ANSWER_BYTES)
        return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"it answered {error.code}"
    except urllib.error.URLError as error:
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__


class Pusher(threading.Thread):
    """Samples processes in each period, and sends their profiles."""

    def __init__(
        self, destination: Destination, rows: Callable[[], list[Row]], sampler: Sampler,
        every: float,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        self.destination, self.rows, self.sampler = destination, rows, sampler
        self.every, self.seconds = every, min(SECONDS, every / 2)
        self.failure = ""  # of the last profile
        self.lock = threading.Lock()  # of the failure, and of the processes of a period

    def run(self) -> None:
        """One period after the other; a late one begins at once."""
        while True:
            begin = time.monotonic()
            self.period()
            time.sleep(max(0.0, begin + self.every - time.monotonic()))

    def period(self) -> None:
        """Each process once. The end of the command does not wait for the threads."""
        try:
            rows = self.rows()[:PROCESSES_MAX]
        except (OSError, *GIVING_UP):
            return
        left = iter(rows)
        workers = [threading.Thread(target=self.work, args=(left,), daemon=True)
                   for _ in range(min(WORKERS, len(rows)))]  # fmt: skip
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def work(self, left: Iterator[Row]) -> None:
        """Takes processes until none is left."""
        while True:
            with self.lock:
                row = next(left, None)
            if row is None:
                return
            self.push(row)

    def push(self, row: Row) -> None:
        """One process. One that cannot be sampled now is left out."""
        try:
            found = self.sampler.sample(row.pid, self.seconds)
        except GIVING_UP:
            return
        if found.profile.samples:
            labels = identity_of(row.pid, found.program)
            self.note(send(request_of(self.destination, found, labels)))

    def note(self, failure: str) -> None:
        """Reports a change."""
        with self.lock:
            before, self.failure = self.failure, failure
        if failure and not before:
            print(f"poolshim exporter: {self.destination.url}: no profile is taken: {failure}",
                  file=sys.stderr, flush=True)  # fmt: skip
        elif before and not failure:
            print(f"poolshim exporter: {self.destination.url}: profiles are taken again",
                  file=sys.stderr, flush=True)  # fmt: skip
