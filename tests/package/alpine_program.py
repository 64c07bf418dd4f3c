# SPDX-License-Identifier: MIT
"""Run by the Python of Alpine in test_alpine.py: threads that pass blocks on, C++, a fork.

    python3.13 alpine_program.py
"""

from __future__ import annotations

import json
import os
import threading

import zmq  # a library in C++, with the libstdc++ of Alpine

THREADS = 8
MESSAGES = 4000


def address(thread: int) -> bytes:
    """Not a str: pyzmq 26.4 reads the bytes of that after it has freed them."""
    return f"inproc://{thread}".encode()


def text(number: int) -> bytes:
    return json.dumps({"number": number, "text": "x" * (number * 37 % 6000)}).encode()


def receive(context: zmq.Context, thread: int, sums: dict[int, int]) -> None:
    """Frees what another thread has allocated."""
    with context.socket(zmq.PULL) as socket:
        socket.bind(address(thread))
        sums[thread] = sum(len(socket.recv()) for _ in range(MESSAGES))


def send(context: zmq.Context, thread: int) -> None:
    with context.socket(zmq.PUSH) as socket:
        socket.connect(address(thread))
        for number in range(MESSAGES):
            socket.send(text(number))


def main() -> None:
    expected = sum(len(text(number)) for number in range(MESSAGES))
    sums: dict[int, int] = {}
    with zmq.Context() as context:
        threads = [threading.Thread(target=target, args=arguments) for thread in range(THREADS // 2)
                   for target, arguments in ((receive, (context, thread, sums)),
                                             (send, (context, thread)))]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sums == dict.fromkeys(range(THREADS // 2), expected), sums
    child = os.fork()
    if child == 0:
        os._exit(0 if sum(len(text(number)) for number in range(MESSAGES)) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    with open("/proc/self/maps") as maps:
        names = {line.split()[-1] for line in maps if ".so" in line}
    print("libraries:", *sorted(os.path.basename(name) for name in names))


main()
