# SPDX-License-Identifier: MIT
"""What scripts/dev/soak asks of nginx: files of all sizes, gzip, a proxy to itself, bodies,
reloads.

Its configuration serves tests/programs/test_real_servers.py too.

Its memory is that of the master and its workers. Its memory between requests is constant.
"""

from __future__ import annotations

import contextlib
import getpass
import gzip
import http.client
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

CONFIGURATION = """
user {user};
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 8m;
    client_body_buffer_size 512k;
    keepalive_requests 100000;
    gzip on;
    gzip_types text/plain;
    types {{ text/plain txt; }}
    server {{
        listen 127.0.0.1:{port};
        root {folder}/files;
        location /again/ {{ proxy_pass http://127.0.0.1:{port}/; }}
        location /take/ {{ proxy_pass http://127.0.0.1:{port}/taken; }}
        location /taken {{ return 200 "taken"; }}
    }}
}}
"""
SIZES = (16, 300, 4000, 30_000, 250_000, 1_000_000)


def children_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class NginxLoad:
    """See scripts/dev/soak, Load."""

    name = "nginx"
    phases = ("small", "packed", "proxied", "bodies", "many", "reload")

    def __init__(self, folder: Path, generator: random.Random) -> None:
        self.random = generator
        self.requests = 0
        self.notes = {"connections": 0, "reloads": 0}
        (folder / "files").mkdir()
        self.contents = {}
        for size in SIZES:
            words = bytes(generator.choices(b"abcdefgh \n", k=size))
            (folder / "files" / f"{size}.txt").write_bytes(words)
            self.contents[size] = words
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        configuration = folder / "nginx.conf"
        text = CONFIGURATION.format(folder=folder, port=self.port, user=getpass.getuser())
        configuration.write_text(text)
        self.command = ["nginx", "-c", str(configuration), "-p", str(folder)]
        self.server = 0

    def open(self) -> http.client.HTTPConnection:
        self.notes["connections"] += 1
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def connect(self) -> bool:
        with contextlib.suppress(OSError):
            self.get(self.open(), "/", 16)
            return True
        return False

    def get(
        self, client: http.client.HTTPConnection, way: str, size: int, packed: bool = False
    ) -> None:
        coding = "gzip" if packed else "identity"
        client.request("GET", f"{way}{size}.txt", headers={"Accept-Encoding": coding})
        answer = client.getresponse()
        body = answer.read()
        if answer.getheader("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if answer.status != 200 or body != self.contents[size]:
            raise RuntimeError(f"nginx: another answer than {way}{size}.txt")
        self.requests += 1

    def fill(self) -> None:
        """Does nothing: no data lives between requests."""

    def step(self, phase: str) -> None:
        with contextlib.closing(self.open()) as client:
            if phase == "small":
                for _ in range(100):
                    self.get(client, "/", self.random.choice(SIZES[:4]))
            elif phase == "packed":
                for _ in range(4):
                    self.get(client, "/", self.random.choice(SIZES), packed=True)
            elif phase == "proxied":
                for _ in range(20):
                    self.get(client, "/again/", self.random.choice(SIZES))
            elif phase == "bodies":
                self.send_bodies(client)
            elif phase == "many":
                self.many()
            else:
                self.reload(client)

    def send_bodies(self, client: http.client.HTTPConnection) -> None:
        for _ in range(10):
            client.request("POST", "/take/", body=bytes(self.random.randrange(2 << 20)))
            if client.getresponse().read() != b"taken":
                raise RuntimeError("nginx: a body was not taken")
            self.requests += 1

    def many(self) -> None:
        clients = [self.open() for _ in range(60)]
        for client in clients:
            client.request("GET", f"/again/{self.random.choice(SIZES)}.txt")
            self.requests += 1
        for client in clients[::2]:  # the others go without their answers
            client.getresponse().read()
        for client in clients:
            client.close()

    def reload(self, client: http.client.HTTPConnection) -> None:
        """New workers, and the old ones have ended when this comes back."""
        old = children_of(self.server)
        os.kill(self.server, signal.SIGHUP)
        client.close()
        until = time.monotonic() + 60
        while set(old) & set(children_of(self.server)) or len(children_of(self.server)) < 2:
            if time.monotonic() > until:
                raise RuntimeError("nginx: the old workers do not end")
            time.sleep(0.05)
        self.notes["reloads"] += 1
        for phase in self.phases[:5]:
            self.step(phase)

    def used_bytes(self) -> int:
        return 0

    def pids(self, server: int) -> list[int]:
        self.server = server
        return [server, *children_of(server)]

    def stop(self, server: subprocess.Popen[bytes]) -> None:
        server.send_signal(signal.SIGQUIT)
        if server.wait(60) != 0:
            raise RuntimeError(f"nginx has ended with status {server.returncode}")
