# SPDX-License-Identifier: MIT
"""A server of HTTP for clients that are not trusted: exporter, webhook.

    run_until_signal(Server(("127.0.0.1", 9921), Handler, "exporter"), "http", "/metrics")

A request has a thread. The number of threads is bounded, and the time that a client may take.
"""

from __future__ import annotations

import signal
import socket
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

from .errors import BadRequest

ADDRESS = "127.0.0.1"
PORT_MAX = 65535
CLIENT_SECONDS = 30.0
THREADS_MAX = 128


def place_of(text: str) -> tuple[str, int]:
    """ADDRESS:PORT, [ADDRESS]:PORT or PORT."""
    address, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise BadRequest(f"--listen: {text} is not ADDRESS:PORT")
    return (address.strip("[]") if colon and address else ADDRESS), int(port)


class Answers(BaseHTTPRequestHandler):
    """Common to handlers."""

    timeout = CLIENT_SECONDS
    server_version, sys_version = "poolshim", ""

    def answer(self, kind: str, body: bytes, status: int = 200, **headers: str) -> None:
        """Head and body."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *unused: Any) -> None:
        """Requests are not logged."""


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens on an address."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, place: tuple[str, int], handler: type[Answers], command: str) -> None:
        self.address, self.command = place[0], command
        self.room = threading.BoundedSemaphore(THREADS_MAX)
        found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__(found[0][4], handler)  # type: ignore[arg-type]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Closes the connection where too many are open."""
        if self.room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Runs in the thread of the request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One line; none for a client that has gone."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            print(f"poolshim {self.command}: a request failed: {type(error).__name__}: {error}",
                  file=sys.stderr)  # fmt: skip


def run_until_signal(server: Server, scheme: str, path: str) -> int:
    """Prints the address, and serves until SIGINT or SIGTERM."""
    is_over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_over.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    shown = f"[{server.address}]" if ":" in server.address else server.address
    print(f"{scheme}://{shown}:{server.server_address[1]}{path}", flush=True)
    is_over.wait()
    server.shutdown()
    server.server_close()
    return 0
