# SPDX-License-Identifier: MIT
"""A server of websockets in Python: 16 threads, each with 40 connections that send frames.

A frame comes in pieces into the connection's buffer, which grows as it must, is unmasked, parsed
and put into the connection's history of 12; connections come and go. When the load ends seven
clients of eight leave, then nothing happens until standard input ends.

    python3 sockets.py FRAMES          (of all threads together)
"""

import json
import random
import sys
import threading
from collections import deque

THREADS, CONNECTIONS, HISTORY = 16, 40, 12
SMALLEST, LARGEST = 6, 17  # powers of two: 64 bytes to 128 KiB
PIECE = 4096
MASK = bytes(value ^ 0x5A for value in range(256))


class Connection:
    def __init__(self) -> None:
        self.buffer = bytearray()
        self.history: deque[dict[str, object]] = deque(maxlen=HISTORY)

    def receive(self, frame: bytes) -> int:
        for begin in range(0, len(frame), PIECE):
            self.buffer += frame[begin : begin + PIECE]
        message = json.loads(bytes(self.buffer).translate(MASK))
        self.buffer.clear()
        self.history.append(message)
        return len(message["text"])


def frame_of(generator: random.Random) -> bytes:
    size = generator.randrange(1 << generator.randint(SMALLEST, LARGEST))
    parts = [{"key": number, "value": "v" * (number % 50)} for number in range(size % 40)]
    return json.dumps({"text": "t" * size, "parts": parts}).encode().translate(MASK)


def serve(seed: int, frames: int, received: list[int]) -> None:
    generator = random.Random(seed)
    connections = [Connection() for _ in range(CONNECTIONS)]
    total = 0
    for _ in range(frames):
        place = generator.randrange(CONNECTIONS)
        if generator.random() < 0.01:
            connections[place] = Connection()
        total += connections[place].receive(frame_of(generator))
    received[seed] = total
    del connections[CONNECTIONS // 8 :]
    finished.wait()
    closing.wait()  # the remaining ones have nothing to say


finished = threading.Barrier(THREADS + 1)
closing = threading.Event()
frames = max(1, int(sys.argv[1]) // THREADS)
received = [0] * THREADS
threads = [
    threading.Thread(target=serve, args=(seed, frames, received), daemon=True)
    for seed in range(THREADS)
]
for thread in threads:
    thread.start()
finished.wait()
if not all(received):
    sys.exit("sockets.py: a thread received nothing")
print("load ended", flush=True)
sys.stdin.read()
