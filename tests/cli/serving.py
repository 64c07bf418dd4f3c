# SPDX-License-Identifier: MIT
"""An exporter for tests, and servers that take what it sends.

    def test_x(serve: Serve) -> None: process, address = serve("--pss", str(pid))
"""

from __future__ import annotations

import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any

import pytest
from conftest import SLOWNESS
from running import POOLSHIM

Serve = Callable[..., "tuple[subprocess.Popen[str], str]"]
Samples = dict[str, list[tuple[dict[str, str], float]]]
LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@pytest.fixture
def serve() -> Iterator[Serve]:
    """An exporter on a free port, and its address; it ends with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> tuple[subprocess.Popen[str], str]:
        command = [POOLSHIM, "exporter", "--listen", "127.0.0.1:0", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)  # fmt: skip
        running.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def get(address: str, **headers: str) -> tuple[int, bytes, Any]:
    """Status, body and headers of an answer."""
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60 * SLOWNESS) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def samples_in(text: str) -> Samples:
    """Name -> labels and value of each sample."""
    found: Samples = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match is not None, line
            labels = dict(LABEL.findall(match[2] or ""))
            found.setdefault(match[1], []).append((labels, float(match[3])))
    return found


def value_of(samples: Samples, name: str, **labels: str) -> float:
    """The one sample that has these labels."""
    (value,) = (value for found, value in samples.get(name, [])
                if all(found.get(key) == one for key, one in labels.items()))  # fmt: skip
    return value


@dataclass
class Receiver:
    """A server that takes requests; `status` is its answer."""

    url: str = ""
    status: int = 200
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    changed: Condition = field(default_factory=Condition)

    def wait_for(self, count: int) -> list[tuple[str, dict[str, str], bytes]]:
        """The requests, once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, 60 * SLOWNESS)
            return list(self.requests)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """On a free port; it ends with the test."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with found.changed:
                found.requests.append((self.path, dict(self.headers), body))
                found.changed.notify_all()
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *unused: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
