# SPDX-License-Identifier: MIT
"""What scripts/dev/soak asks of redis: phases of changing shape over a bounded set of keys.

Every value is a function of its key and of the turn in which it was written, and the load
compares each answer. A phase leaves as much data as it found, in the mean over a round of all
phases.
"""

from __future__ import annotations

import contextlib
import math
import random
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

KEYS = 8000
SMALLEST_BYTES, LARGEST_BYTES = 16, 64 << 10
BATCH = 200
COLLECTIONS = 60
PATTERN = bytes(range(33, 127)) * (LARGEST_BYTES // 94 + 3)
Answer = bytes | int | list | None  # type: ignore[type-arg]


def value(key: int, turn: int, size: int) -> bytes:
    begin = (key * 7 + turn * 13) % 94
    return PATTERN[begin : begin + size]


class Connection:
    """RESP over a Unix socket, many requests at a time."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.reader = self.socket.makefile("rb", 1 << 16)

    def send(self, requests: list[tuple[bytes, ...]]) -> None:
        parts = []
        for words in requests:
            parts.append(b"*%d\r\n" % len(words))
            parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))

    def answer(self) -> Answer:
        line = self.reader.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        raise RuntimeError(f"redis says {line!r}")

    def ask(self, *requests: tuple[bytes, ...]) -> list[Answer]:
        """Sends requests in pieces whose answers the server can buffer while it reads."""
        answers: list[Answer] = []
        for begin in range(0, len(requests), 20):
            piece = list(requests[begin : begin + 20])
            self.send(piece)
            answers += [self.answer() for _ in piece]
        return answers

    def close(self) -> None:
        self.reader.close()
        self.socket.close()


class RedisLoad:
    """See scripts/dev/soak, Load."""

    name = "redis"
    phases = ("mixed", "small", "large", "expire", "collections", "save", "refill", "connections")

    def __init__(self, folder: Path, generator: random.Random) -> None:
        self.folder, self.random = folder, generator
        self.path = folder / "redis.sock"
        self.command = [
            "redis-server", "--port", "0", "--unixsocket", str(self.path), "--save", "",
            "--dir", str(folder), "--io-threads", "2", "--io-threads-do-reads", "yes",
            "--lazyfree-lazy-expire", "yes", "--lazyfree-lazy-user-del", "no",
        ]  # fmt: skip
        self.requests = 0
        self.notes = {"compared": 0, "saves": 0, "connections": 0, "bursts": 0}
        self.known: dict[int, tuple[int, int]] = {}
        self.turn = 0
        self.steps: dict[str, Callable[[], None]] = {
            phase: getattr(self, phase) for phase in self.phases
        }

    def connect(self) -> bool:
        with contextlib.suppress(OSError):
            self.main = Connection(self.path)
            return self.main.ask((b"PING",)) == [b"PONG"]
        return False

    def ask(self, *requests: tuple[bytes, ...]) -> list[Answer]:
        self.requests += len(requests)
        return self.main.ask(*requests)

    def info(self, name: str) -> int:
        (text,) = self.main.ask((b"INFO",))
        assert isinstance(text, bytes)
        return int(text.split(name.encode() + b":", 1)[1].split(b"\r", 1)[0])

    def size(self) -> int:
        """Draws a size from 16 bytes to 64 KiB, each doubling as likely as the next."""
        low, high = math.log(SMALLEST_BYTES), math.log(LARGEST_BYTES)
        return int(math.exp(self.random.uniform(low, high)))

    def write(self, keys: list[int]) -> None:
        self.turn += 1
        requests = []
        for key in keys:
            self.known[key] = (self.turn, self.size())
            requests.append((b"SET", b"k:%d" % key, value(key, *self.known[key])))
        self.ask(*requests)

    def compare(self, keys: list[int]) -> None:
        answers = self.ask(*((b"GET", b"k:%d" % key) for key in keys))
        for key, answer in zip(keys, answers):
            expected = value(key, *self.known[key]) if key in self.known else None
            if answer != expected:
                raise RuntimeError(f"redis: key k:{key} has another value than was written")
        self.notes["compared"] += len(keys)

    def some_keys(self, count: int) -> list[int]:
        return [self.random.randrange(KEYS) for _ in range(count)]

    def fill(self) -> None:
        for begin in range(0, KEYS, BATCH):
            self.write(list(range(begin, begin + BATCH)))

    def step(self, phase: str) -> None:
        self.steps[phase]()

    def mixed(self) -> None:
        self.write(self.some_keys(BATCH // 2))
        self.compare(self.some_keys(BATCH // 2))

    def small(self) -> None:
        """redis-benchmark with twenty clients; what it made goes away at once."""
        size = str(self.random.choice((16, 40, 100, 250, 700)))
        command = [
            "redis-benchmark", "-s", str(self.path), "-n", "3000", "-c", "20", "-P", "16",
            "-r", "3000", "-d", size, "--csv",
            "-t", "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset",
        ]  # fmt: skip
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if result.returncode != 0 or "rror" in result.stdout:
            raise RuntimeError(f"redis-benchmark: {result.stdout[-500:]}{result.stderr[-500:]}")
        self.notes["bursts"] += 1
        self.notes["connections"] += 20 * (result.stdout.count("\n") - 1)
        self.requests += 3000 * (result.stdout.count("\n") - 1)
        made = [b"mylist", b"myset", b"myhash", b"myzset", b"counter:__rand_int__"]
        made += [b"%b:%012d" % (name, n) for name in (b"key", b"counter") for n in range(3000)]
        self.ask((b"UNLINK", *made))

    def large(self) -> None:
        """Values grow by pieces to 64 KiB and more, as a log that is written, and go."""
        keys = [b"log:%d" % self.random.randrange(40) for _ in range(20)]
        for key in keys:
            pieces = [self.size() for _ in range(10)]
            answers = self.ask(*((b"APPEND", key, PATTERN[:piece]) for piece in pieces))
            self.ask((b"GETRANGE", key, b"-3000", b"-1"), (b"SETRANGE", key, b"100", b"x" * 50))
            if isinstance(answers[-1], int) and answers[-1] > 256 << 10:
                self.ask((b"UNLINK", key))

    def expire(self) -> None:
        requests = []
        for key in self.some_keys(BATCH):
            lifetime = b"%d" % self.random.choice((20, 100, 500, 2000, 4000))
            payload = PATTERN[: self.size() // 8 + 8]
            requests.append((b"SET", b"e:%d" % key, payload, b"PX", lifetime))
        self.ask(*requests)
        self.ask(*((b"GET", b"e:%d" % key) for key in self.some_keys(BATCH // 2)))

    def collections(self) -> None:
        """Lists, hashes, sets and sorted sets that grow out of their small forms, and go."""
        number = b"%d" % self.random.randrange(COLLECTIONS)
        many = [b"%d" % self.random.randrange(5000) for _ in range(40)]
        payloads = [PATTERN[: self.random.choice((3, 20, 70, 300))] for _ in many]
        pairs = [word for pair in zip(many, payloads) for word in pair]
        ranks = [word for name in many for word in (name, b"m" + name)]
        sizes = self.ask(
            (b"RPUSH", b"l:" + number, *payloads), (b"HSET", b"h:" + number, *pairs),
            (b"SADD", b"s:" + number, *many), (b"ZADD", b"z:" + number, *ranks),
            (b"XADD", b"x:" + number, b"MAXLEN", b"~", b"200", b"*", *pairs[:10]),
            (b"LTRIM", b"l:" + number, b"-400", b"-1"), (b"LRANGE", b"l:" + number, b"0", b"50"),
            (b"SORT", b"s:" + number, b"LIMIT", b"0", b"10"), (b"HGETALL", b"h:" + number),
            (b"HLEN", b"h:" + number),
        )  # fmt: skip
        if isinstance(sizes[-1], int) and sizes[-1] > 1000:
            kinds = (b"l:", b"h:", b"s:", b"z:", b"x:")
            self.ask((self.random.choice((b"DEL", b"UNLINK")), *(k + number for k in kinds)))

    def save(self) -> None:
        """A fork with everything in memory, while writing goes on."""
        if self.info("rdb_bgsave_in_progress") == 0 and self.info("aof_rewrite_in_progress") == 0:
            self.ask((self.random.choice((b"BGSAVE", b"BGREWRITEAOF")),))
            self.notes["saves"] += 1
        for _ in range(8):
            self.write(self.some_keys(BATCH // 2))

    def refill(self) -> None:
        """A tenth of the keys goes and comes back, in another order and with other sizes."""
        gone = self.random.sample(range(KEYS), KEYS // 10)
        for begin in range(0, len(gone), BATCH):
            self.ask((b"DEL", *(b"k:%d" % key for key in gone[begin : begin + BATCH])))
        for key in gone:
            del self.known[key]
        self.compare(self.random.sample(gone, 50))
        self.random.shuffle(gone)
        for begin in range(0, len(gone), BATCH):
            self.write(gone[begin : begin + BATCH])

    def connections(self) -> None:
        """Clients that come with much to say, read nothing for a while, and go."""
        clients = [Connection(self.path) for _ in range(30)]
        self.notes["connections"] += len(clients)
        for client in clients:
            keys = self.some_keys(4)
            client.send([(b"MGET", *(b"k:%d" % key for key in keys)), (b"PING", PATTERN[:4000])])
            self.requests += 2
        for client in clients[::3]:
            client.answer()
        for client in clients:
            client.close()
        self.compare(self.some_keys(20))

    def used_bytes(self) -> int:
        return self.info("used_memory")

    def pids(self, server: int) -> list[int]:
        return [server]

    def stop(self, server: subprocess.Popen[bytes]) -> None:
        self.compare(sorted(self.known))
        server.send_signal(signal.SIGTERM)
        if server.wait(60) != 0:
            raise RuntimeError(f"redis has ended with status {server.returncode}")
