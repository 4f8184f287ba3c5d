# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Debian's Chromium without a window, by the DevTools protocol over two pipes: nothing else has to be installed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support import helper_process
from tests.support.waiting import eventually

PROGRAM = "chromium"
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-sandbox",  # tests run as root, where there is none; the pages are our own
    "--disable-dev-shm-usage",
    "--font-render-hinting=none",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


class PageError(Exception):
    """What the browser answers where it can't do what it was asked for."""


class Browser:
    """One browser with one page."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._writes = os.pipe()
        self._reads, from_browser = os.pipe()
        program = shutil.which(PROGRAM)
        if program is None:
            raise PageError(f"{PROGRAM} is not installed. Next step: run tests/setup-host")
        # The browser reads its descriptor 3 and writes 4, which Python can't choose.
        words = [program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        shell = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = helper_process.start(
            ["/bin/bash", "-c", shell, *words],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            ready=helper_process.executed,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._count, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        self._attach()

    def _attach(self) -> None:
        pages = self.ask("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in pages if one["type"] == "page")
        found = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        os.close(self._writes)
        self._process.wait()
        os.close(self._reads)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; events that come meanwhile are kept."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = memoryview(json.dumps(message).encode() + b"\0")
        while data:
            data = data[os.write(self._writes, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._reads, 1 << 20)
            if not more:
                raise PageError("the browser has ended")
            self._rest += more
        message, _end, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page; a promise is waited for."""
        found = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise PageError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true, and return it."""
        return eventually(lambda: self.run(expression))

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, and wait until the report in it shows all of its rows."""
        self.events.clear()
        self.ask("Page.navigate", url="about:blank")  # by which another fragment is another visit
        self.ask("Page.navigate", url=f"{path.as_uri()}{fragment}")
        here = f"location.href.split('#')[0] == {json.dumps(path.as_uri())}"
        self.until(f"document.readyState == 'complete' && {here}")
        self.shown()

    def shown(self) -> int:
        """Return how many rows are shown, once all are that are wanted."""
        return int(self.until("document.documentElement.dataset.shown ?? ''"))

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Give the page a size in CSS pixels."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def media(self, medium: str = "", scheme: str = "light") -> None:
        """Show it as on that medium, to somebody who likes that scheme of colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=medium, features=features)

    def key(self, name: str, text: str = "") -> None:
        """Press a key."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        common = {"key": name, "windowsVirtualKeyCode": codes.get(name, 0)}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        found = self.ask("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        path.write_bytes(base64.b64decode(found["data"]))

    def named(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the events of a name since the page was opened."""
        self.run("0")
        return [one["params"] for one in self.events if one.get("method") == method]
