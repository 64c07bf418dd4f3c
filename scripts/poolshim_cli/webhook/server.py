# SPDX-License-Identifier: MIT
"""The HTTPS side of `poolshim webhook`: an API server posts reviews of pods.

    server = Server(("0.0.0.0", 8443), Certificate(cert, key), settings); server.serve_forever()

A certificate that is renewed is read at the next connection. The handshake is made in the thread
of the request, so that a slow client delays no other.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

from .. import http_service
from ..errors import BadRequest
from ..inject import review
from ..inject.wishes import Settings

BODY_MAX = 8 << 20  # bytes: twice what an API server accepts of a client, and the review around it
TEXT = "text/plain; charset=utf-8"
REVIEW, HEALTH = "/inject", "/healthz"


class Certificate:
    """Files that a volume has, and that are replaced when they are renewed."""

    def __init__(self, chain: Path, key: Path) -> None:
        self.chain, self.key = chain, key
        self.lock = threading.Lock()  # of the next two fields
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.stamp: tuple[int, ...] = ()
        self.refresh()

    def refresh(self) -> ssl.SSLContext:
        """The context, of the files as they are now. OSError, where they cannot be read."""
        with self.lock:
            found = [os.stat(path) for path in (self.chain, self.key)]
            stamp = tuple(number for one in found for number in (one.st_ino, one.st_mtime_ns))
            if stamp != self.stamp:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                context.load_cert_chain(self.chain, self.key)
                self.context, self.stamp = context, stamp
            return self.context

    def current(self) -> ssl.SSLContext:
        """The same; the former one while files are being replaced."""
        try:
            return self.refresh()
        except OSError as error:
            print(f"poolshim webhook: {self.chain}: {error.strerror or error}: the former "
                  "certificate remains in use", file=sys.stderr)  # fmt: skip
            return self.context


class Handler(http_service.Answers):
    """Answers one connection, which API servers keep open."""

    server: Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """The handshake."""
        self.request.settimeout(self.timeout)
        context = self.server.certificate.current()
        self.request = context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        """Closes what setup has wrapped."""
        super().finish()
        self.request.close()

    def do_GET(self) -> None:
        """For probes."""
        if self.path == HEALTH:
            self.answer(TEXT, b"ok\n")
        else:
            self.answer(TEXT, f"there are {REVIEW} and {HEALTH}\n".encode(), 404)

    def do_POST(self) -> None:
        """A review; a failure is one line, and the API server admits the pod as it is."""
        try:
            body, said = self.reviewed()
        except BadRequest as error:
            self.close_connection = True  # the body may be unread
            self.answer(TEXT, f"{error}\n".encode(), 400)
            return
        self.answer("application/json", body)
        if said:
            print(said, flush=True)

    def reviewed(self) -> tuple[bytes, str]:
        """The answer, and the line for the log."""
        if self.path.partition("?")[0] != REVIEW:
            raise BadRequest(f"reviews go to {REVIEW}")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or not 0 < int(length) <= BODY_MAX:
            raise BadRequest(f"a body of 1 to {BODY_MAX} bytes is expected")
        return review.answer(self.rfile.read(int(length)), self.server.settings)


class Server(http_service.Server):
    """With what it answers by."""

    def __init__(
        self, place: tuple[str, int], certificate: Certificate, settings: Settings
    ) -> None:
        self.certificate, self.settings = certificate, settings
        super().__init__(place, Handler, "webhook")

    def get_request(self) -> tuple[socket.socket, Any]:
        """A connection, which answers without a delay."""
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address
