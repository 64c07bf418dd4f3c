# SPDX-License-Identifier: MIT
"""redis and nginx under the shim: started, loaded, forked, reloaded and stopped in good order.

    scripts/test tests/programs/test_real_servers.py
"""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from under_shim import assert_served, is_mapped, need, read_reports

sys.path.insert(0, str(ROOT / "tests" / "programs" / "soak"))
from nginx_load import CONFIGURATION, children_of  # noqa: E402

pytestmark = pytest.mark.preload

SERVER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_SECONDS = 30
STOP_SECONDS = 60


@contextlib.contextmanager
def serve(
    command: list[str], folder: Path, preload: Path | None, stop: signal.Signals
) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a server in the foreground; at the end it must stop by itself, with status 0."""
    environment = {"PATH": SERVER_PATH, "LC_ALL": "C", "HOME": str(folder)}
    if preload:
        environment["LD_PRELOAD"] = str(preload)
        environment["POOLSHIM_STATS"] = str(folder / "%p.json")
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            yield server
            server.send_signal(stop)
            status = server.wait(STOP_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    text = (folder / "server.log").read_text(errors="replace")
    assert status == 0, text[-3000:]
    assert "poolshim:" not in text


def wait_until(ready: object, server: "subprocess.Popen[bytes]", log: Path) -> None:
    assert callable(ready)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError):
            if ready():
                return
        time.sleep(0.05)
    pytest.fail(f"the server does not answer: {log.read_text(errors='replace')[-2000:]}")


class Redis:
    """A redis server on a socket of its own, and its command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.command = [
            "redis-server", "--port", "0", "--unixsocket", str(self.socket), "--save", "",
            "--dir", str(folder), "--enable-debug-command", "yes",
            "--io-threads", "2", "--io-threads-do-reads", "yes",
        ]  # fmt: skip

    def ask(self, *words: str) -> str:
        command = ["redis-cli", "-s", str(self.socket), *words]
        return run_captured(command, 60, env={"PATH": SERVER_PATH}).stdout.strip()

    def load(self) -> None:
        """Thousands of requests of every kind; a failing one prints an error."""
        command = [
            "redis-benchmark", "-s", str(self.socket), "-n", "5000", "-c", "20", "-P", "16",
            "-r", "5000", "-d", "200", "--csv",
            "-t", "set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset",
        ]  # fmt: skip
        result = run_captured(command, 120, env={"PATH": SERVER_PATH})
        assert result.returncode == 0 and "rror" not in result.stdout, result.stdout[-1000:]
        assert result.stdout.count('"') > 60

    def fill(self) -> str:
        """The same data every time; returns redis' own digest of it."""
        script = (
            "redis.call('flushall') for i = 1, 20000 do "
            "redis.call('set', 'key:' .. i, string.rep('v', i % 700)) "
            "redis.call('hset', 'hash:' .. i % 300, i, string.rep('h', i % 90)) "
            "redis.call('rpush', 'list:' .. i % 50, 'item' .. i) "
            "redis.call('zadd', 'set:' .. i % 20, i, 'member' .. i) end "
            "for i = 1, 20000, 3 do redis.call('del', 'key:' .. i) end return redis.sha1hex('x')"
        )
        assert len(self.ask("eval", script, "0")) == 40
        return self.ask("debug", "digest")

    def save_and_reload(self) -> None:
        """Forks twice with the data in memory, then reads the dump back."""
        for save in ("bgsave", "bgrewriteaof"):
            assert "started" in self.ask(save)
            until = time.monotonic() + START_SECONDS
            while "in_progress:1" in self.ask("info", "persistence"):
                assert time.monotonic() < until
                time.sleep(0.05)
        assert "rdb_last_bgsave_status:ok" in self.ask("info", "persistence")
        assert "aof_last_bgrewrite_status:ok" in self.ask("info", "persistence")
        assert self.ask("debug", "reload") == "OK"


def run_redis(folder: Path, preload: Path | None) -> str:
    folder.mkdir()
    redis = Redis(folder)
    with serve(redis.command, folder, preload, signal.SIGTERM) as server:
        wait_until(lambda: redis.ask("ping") == "PONG", server, folder / "server.log")
        if preload:
            assert is_mapped(server.pid, preload)
        redis.load()
        digest = redis.fill()
        redis.save_and_reload()
        assert redis.ask("debug", "digest") == digest
        redis.load()
    return digest


def test_redis(shim: Path, tmp_path: Path) -> None:
    need("redis-server", "redis-cli", "redis-benchmark")
    shimmed = tmp_path / "shimmed"
    assert run_redis(shimmed, shim) == run_redis(tmp_path / "plain", None)
    reports = read_reports(shimmed)
    assert_served(reports, ["redis-server"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return bytes(answer.read())


def fetch_all(port: int, contents: dict[str, bytes]) -> None:
    """Some hundred requests by four clients, direct and through the proxy, all answers checked."""
    jobs = [(f"http://127.0.0.1:{port}/{way}{name}", body)
            for name, body in contents.items() for way in ("", "again/")] * 10  # fmt: skip
    with ThreadPoolExecutor(4) as clients:
        answers = clients.map(fetch, [url for url, _ in jobs])
        for answer, (url, body) in zip(answers, jobs):
            assert answer == body, url


def test_nginx(shim: Path, tmp_path: Path) -> None:
    need("nginx")
    tmp_path.chmod(0o755)
    contents = {f"file{size}.txt": b"0123456789abcde\n" * size for size in (1, 10, 1000, 40000)}
    (tmp_path / "files").mkdir()
    for name, body in contents.items():
        (tmp_path / "files" / name).write_bytes(body)
    port = free_port()
    configuration = tmp_path / "nginx.conf"
    text = CONFIGURATION.format(folder=tmp_path, port=port, user=getpass.getuser())
    configuration.write_text(text)
    command = ["nginx", "-c", str(configuration), "-p", str(tmp_path)]
    with serve(command, tmp_path, shim, signal.SIGQUIT) as server:
        url = f"http://127.0.0.1:{port}/file1.txt"
        wait_until(lambda: fetch(url), server, tmp_path / "server.log")
        fetch_all(port, contents)
        workers = children_of(server.pid)
        assert len(workers) == 2
        assert all(is_mapped(pid, shim) for pid in [server.pid, *workers])
        server.send_signal(signal.SIGHUP)
        wait_until(
            lambda: not set(workers) & set(children_of(server.pid)) and fetch(url), server,
            tmp_path / "server.log",
        )  # fmt: skip
        fetch_all(port, contents)
    reports = read_reports(tmp_path)
    assert_served(reports, ["nginx"])
    processes = sum(len(found) for name, found in reports.items() if name.startswith("nginx"))
    assert processes >= 5, "one master, two workers before the reload and two after it"
