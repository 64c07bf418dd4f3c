# SPDX-License-Identifier: MIT
"""Asks the process beside pytest that reads pytest's memory: reader.py.

    with Client() as client: client.ask("look")

A process of its own, since a reader would change what it reads. pytest sends a line, and does
nothing until the answer is there: meanwhile no call of malloc is in progress in this thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from typing import Any

from .. import places
from ..errors import OwnFailure
from ..launcher import clean_environment

PR_SET_PTRACER = 0x59616D61
ANSWER_BYTES = 1 << 16
END_S = 5.0


class Client:
    """The reader, started at the first question."""

    def __init__(self) -> None:
        self.process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> "subprocess.Popen[bytes]":
        """Not on the library, and with the right to read this process."""
        env = clean_environment()
        paths = [str(places.PACKAGE.parent), env.get("PYTHONPATH", "")]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        env.pop("PYTHONMALLOC", None)
        process = subprocess.Popen(
            [sys.executable, "-m", "poolshim_cli.pytest_plugin.reader", str(os.getpid())],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        # Where Yama is there, a child may read its parent only if that says so.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, process.pid, 0, 0, 0)
        return process

    def ask(self, *words: str | int) -> Any:
        """The answer. OwnFailure: the reader cannot read, or has ended."""
        if self.process is None:
            self.process = self.start()
        assert self.process.stdin is not None and self.process.stdout is not None
        answer = b""
        with contextlib.suppress(OSError):
            self.process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
            while not answer.endswith(b"\n"):
                part = os.read(self.process.stdout.fileno(), ANSWER_BYTES)
                if not part:
                    break
                answer += part
        if not answer.endswith(b"\n"):
            raise OwnFailure("the process that reads pytest's memory has ended")
        found = json.loads(answer)
        if "refusal" in found:
            raise OwnFailure(found["refusal"])
        return found

    def close(self) -> None:
        """The reader ends with its input."""
        process, self.process = self.process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            process.kill()
            process.wait()
