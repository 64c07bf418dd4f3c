# SPDX-License-Identifier: MIT
"""A registry of crates on this machine, as cargo's manual has it: a sparse index, `new`, downloads.

    with serve({"right-token"}) as registry:
        registry.address        # of the index, for CARGO_REGISTRIES_<NAME>_INDEX after "sparse+"
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def row_of(about: dict[str, Any], crate: bytes) -> dict[str, Any]:
    """The line of the index for a published crate."""
    dependencies = [
        {**one, "req": one["version_req"], "name": one.get("explicit_name_in_toml") or one["name"]}
        for one in about["deps"]
    ]
    return {"name": about["name"], "vers": about["vers"], "deps": dependencies,
            "cksum": hashlib.sha256(crate).hexdigest(), "features": about["features"],
            "yanked": False, "links": about.get("links")}  # fmt: skip


@dataclass
class Registry:
    """Its crates by name and version, and the lines of its index by name."""

    tokens: set[str]
    address: str = ""
    crates: dict[tuple[str, str], bytes] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def read(self, path: str) -> bytes | None:
        """The file at a path, or nothing."""
        words = path.strip("/").split("/")
        if words == ["config.json"]:
            return json.dumps({"dl": f"{self.address}dl", "api": self.address.rstrip("/")}).encode()
        if words[0] == "dl":
            return self.crates.get((words[1], words[2]))
        rows = self.rows.get(words[-1])
        return "\n".join(map(json.dumps, rows)).encode() if rows else None

    def publish(self, body: bytes, token: str) -> tuple[int, dict[str, Any]]:
        """The status and the answer to a request `new`."""
        if token not in self.tokens:
            return 403, {"errors": [{"detail": "the token is not valid"}]}
        (length,) = struct.unpack_from("<I", body)
        about = json.loads(body[4 : 4 + length])
        crate = body[8 + length :]
        key = about["name"], about["vers"]
        if key in self.crates:
            return 400, {"errors": [{"detail": f"{key} is there already"}]}
        self.crates[key] = crate
        self.rows.setdefault(about["name"], []).append(row_of(about, crate))
        return 200, {"warnings": {"invalid_categories": [], "invalid_badges": [], "other": []}}


@contextlib.contextmanager
def serve(tokens: set[str]) -> Iterator[Registry]:
    """A registry until the end of the block."""
    registry = Registry(tokens)

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            found = registry.read(self.path)
            self.answer(200 if found is not None else 404, found or b"")

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, said = registry.publish(body, self.headers.get("Authorization", ""))
            self.answer(status, json.dumps(said).encode())

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.address = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
