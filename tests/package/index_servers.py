# SPDX-License-Identifier: MIT
"""Registries of this machine, each the program that others run in public, with one user.

    with Servers(folder, programs) as servers:
        servers.python() -> its address
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from bare_system import run_ok

USER, PASSWORD = "pusher", "right"  # noqa: S105
SECONDS = 60
HASHES = """
from passlib.apache import HtpasswdFile
for name, scheme, user in (("pypi", "apr_md5_crypt", "__token__"), ("image", "bcrypt", "{user}")):
    file = HtpasswdFile("{folder}/" + name, new=True, default_scheme=scheme)
    file.set_password(user, "{password}")
    file.save()
"""
IMAGES = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: test, path: {folder}/image}}}}
"""
CONAN = """\
[server]
jwt_secret: {secret}
jwt_expire_minutes: 120
ssl_enabled: False
port: {port}
host_name: 127.0.0.1
authorize_timeout: 1800
disk_storage_path: {folder}/recipes
disk_authorize_timeout: 1800
updown_secret: {secret}
[write_permissions]
*/*@*/*: {user}
[read_permissions]
*/*@*/*: *
[users]
{user}: {password}
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Servers:
    """Servers that end with the block. `programs` is the bin/ of an environment of Python."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.programs = programs
        self.running: list[subprocess.Popen[bytes]] = []
        folder.mkdir()
        script = HASHES.format(folder=folder, user=USER, password=PASSWORD)
        run_ok(programs / "python", "-c", script)

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for process in self.running:
            process.terminate()
            process.wait()

    def start(self, port: int, *command: str | Path) -> str:
        """Its address, once it answers."""
        with (self.folder / f"{port}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       cwd=self.folder,
                                       env={**os.environ, "HOME": str(self.folder)})  # fmt: skip
        self.running.append(process)
        end = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return f"127.0.0.1:{port}"
            time.sleep(0.1)
        raise AssertionError((self.folder / f"{port}.log").read_text()[-3000:])

    def python(self) -> str:
        """An index of Python packages, empty."""
        port = free_port()
        (self.folder / "packages").mkdir()
        return self.start(port, self.programs / "pypi-server", "run", "-p", str(port),
                          "-i", "127.0.0.1", "-P", "pypi", "-a", "update", "packages")  # fmt: skip

    def images(self) -> str:
        """A registry of images."""
        port = free_port()
        (self.folder / "images.yml").write_text(IMAGES.format(folder=self.folder, port=port))
        return self.start(port, "docker-registry", "serve", "images.yml")

    def conan(self) -> str:
        port = free_port()
        place = self.folder / "conan" / ".conan_server"
        place.mkdir(parents=True)
        (place / "server.conf").write_text(CONAN.format(
            folder=place, port=port, secret="0123456789" * 4, user=USER, password=PASSWORD))
        return self.start(port, self.programs / "conan_server", "--server_dir", place)

    def files(self, folder: Path) -> str:
        """A web server of a folder."""
        port = free_port()
        return self.start(port, "python3", "-m", "http.server", "-b", "127.0.0.1",
                          "-d", folder, str(port))  # fmt: skip
