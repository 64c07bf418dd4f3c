# SPDX-License-Identifier: MIT
"""A headless Chromium driven over its own pipe: no driver, no port, no package but the browser.

    with Browser() as browser:
        page = browser.open(path, width=375, height=812)
        page.evaluate("document.title")
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
ANSWER_S = 90


def find_browser() -> str | None:
    """The first of them that is installed."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One browser with a profile of its own; requests for anything but files fail."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        program = find_browser()
        assert program
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()
        # The browser reads from 3 and writes to 4.
        words = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
            "--proxy-server=127.0.0.1:9", f"--user-data-dir={self.folder.name}", "about:blank",
        ]  # fmt: skip
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        env = {"PATH": os.environ["PATH"], "HOME": self.folder.name, "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            ["bash", "-c", script, "browser", *words], pass_fds=(to_read, to_write), env=env,
            start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number = b"", 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for end in (self.read, self.write):
            os.close(end)
        self.folder.cleanup()

    def message(self, until: float) -> dict[str, Any]:
        """The next message; they end with a zero byte."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], max(0, until - time.monotonic()))
            part = os.read(self.read, 1 << 20) if ready else b""
            assert part, "the browser does not answer"
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def call(self, method: str, session: str | None = None, **values: Any) -> dict[str, Any]:
        """One command and its answer; events on the way are stored."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": values}
        if session is not None:
            request["sessionId"] = session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + ANSWER_S
        while True:
            answer = self.message(until)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, path: Path, width: int, height: int) -> "Page":
        """A page of that size, loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page.call("Page.enable")
        page.call("Network.enable")
        page.call("Log.enable")
        page.resize(width, height)
        self.events.clear()
        page.call("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + ANSWER_S
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.events.append(self.message(until))
        return page


class Page:
    """One loaded page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **values)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=2 if width < 600 else 1, mobile=width < 600,
        )  # fmt: skip

    def prefer(self, scheme: str, media: str = "") -> None:
        """light or dark; media: "print" shows the page as it would be printed."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        answer = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])

    def requests(self) -> list[str]:
        """All addresses that were asked for."""
        return [
            one["params"]["request"]["url"]
            for one in self.browser.events
            if one.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """What the browser logged: refused styles, blocked requests."""
        return [
            one["params"]["entry"]["text"]
            for one in self.browser.events
            if one.get("method") == "Log.entryAdded"
        ]
