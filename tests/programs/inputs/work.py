# SPDX-License-Identifier: MIT
"""What Python programs do: text, JSON, compression, threads, processes. Prints results only."""

from __future__ import annotations

import collections
import hashlib
import json
import multiprocessing
import re
import threading
import zlib


def records(count: int) -> list[dict[str, object]]:
    return [
        {"id": i, "name": f"name {i * 7919 % 1000}", "parts": [i % k for k in range(1, 20)]}
        for i in range(count)
    ]


def summarize(number: int) -> str:
    text = json.dumps(records(2000 + number), sort_keys=True)
    found = re.findall(r'"name": "name (\d+)"', text)
    packed = zlib.compress(text.encode())
    restored = json.loads(zlib.decompress(packed))
    counts = collections.Counter(found).most_common(3)
    return f"{len(restored)} {counts} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def run_threads() -> list[str]:
    results: dict[int, str] = {}

    def work(number: int) -> None:
        results[number] = summarize(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in sorted(results)]


def main() -> None:
    print("threads:", *run_threads(), sep=" ")
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print("processes:", *pool.map(summarize, range(8)), sep=" ")
    grown: list[bytes] = []
    for i in range(3000):
        grown.append(bytes(i % 251 for _ in range(i)))
        if i % 3 == 0:
            grown.pop(i // 6)
    print("grown:", hashlib.sha256(b"".join(grown)).hexdigest())
    print("big:", len(str(3**200_000 * 7**10_000)))


if __name__ == "__main__":
    import sys

    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    main()
