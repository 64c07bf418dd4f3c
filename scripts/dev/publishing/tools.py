# SPDX-License-Identifier: MIT
"""Programs and addresses that publishing needs. Each failure is one line.

No program asks anything: stdin is empty, and ssh and git are told so. Callers: all of publishing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from packages.staging import ROOT

SECONDS = 900  # of one program
REPLY_SECONDS = 30  # of one address
SILENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
          "RSYNC_RSH": "ssh -oBatchMode=yes", "LC_ALL": "C.UTF-8", "COLUMNS": "240"}  # fmt: skip
PATH = f"{ROOT / '.venv' / 'bin'}:{os.environ.get('PATH', '')}"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PROBLEMS = (re.compile(r"(?i)^(error|fatal|e:)"),
            re.compile(r"(?i)\b(error|fatal|refused|denied|fail(ed|ure)?|cannot|exists?)\b"),
            re.compile(r""))  # fmt: skip
LOGGED = re.compile(r'\bmsg="((?:[^"\\]|\\.)*)"')  # as skopeo prints its errors

CAUSE = "Caused by:"  # cargo: the next lines are nearer to it


class PublishError(Exception):
    """One line for the user."""


def missing(names: tuple[str, ...]) -> list[str]:
    """Those of the programs that are not installed."""
    return [name for name in names if shutil.which(name, path=PATH) is None]


def reason(text: str) -> str:
    """The last line of a program's output that begins with an error, names one, or is the last."""
    plain = COLOUR.sub("", text).splitlines()
    lines = [line.strip() for line in plain if line.strip()] or ["nothing said"]
    (line, *_) = (line for problem in PROBLEMS for line in reversed(lines) if problem.search(line))
    message = LOGGED.search(line)
    if CAUSE in lines:
        line = f"{line}: {lines[-1]}"
    return " ".join((message[1].replace('\\"', '"') if message else line).split())[:240]


def run(
    *words: str | Path, cwd: Path | None = None, text: str = "",
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """A program to its end, whatever its status."""
    own = {**os.environ, "PATH": PATH, **SILENT, **(environment or {})}
    command = [str(word) for word in words]
    command[0] = shutil.which(command[0], path=PATH) or command[0]
    try:
        return subprocess.run(command, cwd=cwd, env=own, input=text, capture_output=True,
                              text=True, errors="replace", check=False,
                              timeout=SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PublishError(f"{words[0]} takes longer than {SECONDS} s") from None
    except OSError as error:
        raise PublishError(f"{words[0]}: {error.strerror}") from None


def output(
    *words: str | Path, cwd: Path | None = None, text: str = "",
    environment: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """A program's stdout; a PublishError with its reason if it fails."""
    done = run(*words, cwd=cwd, text=text, environment=environment)
    if done.returncode != 0:
        name = " ".join(str(word) for word in words[:2])
        raise PublishError(f"{name}: {reason(done.stdout + chr(10) + done.stderr)}")
    return done.stdout


def fetch(address: str) -> str | None:
    """The text at an address; None if it answers that nothing is there."""
    try:
        request = urllib.request.Request(address, headers={"User-Agent": "poolshim-publish"})
        with urllib.request.urlopen(request, timeout=REPLY_SECONDS) as reply:
            return str(reply.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            return None
        raise PublishError(f"{address}: status {error.code}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise PublishError(f"{address} is not reached: {why}") from None
