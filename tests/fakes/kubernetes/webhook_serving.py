# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The webhook's server of reviews without an API server, and reviews for it."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import threading
from collections.abc import Callable
from typing import Any

from gpu_cluster.webhook.admission import Admission
from gpu_cluster.webhook.certificates import issue
from gpu_cluster.webhook.certificates.serving import Serving
from gpu_cluster.webhook.server import Server

from tests.fakes.cluster.hami_pods import MPS_NODES, SETTINGS, Json, limits, pod
from tests.fakes.daemon import scraping
from tests.fakes.kubernetes import reviews
from tests.support.waiting import LIMIT

LOCAL = scraping.HOST
SHARE = pod(limits(gpu=1, gpumem=3000))
PATH = "unguessable"


NOW = 1_800_000_000.0
NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, for which ssl has no name


class Templates:
    """Takes for each template until the gate is open: that of its namespace in ``gates``, else ``gate``.

    ``waiting`` are those that wait for it.
    """

    def __init__(self) -> None:
        self.gate, self.ensured, self.waiting = threading.Event(), 0, 0
        self.gates: dict[str, threading.Event] = {}
        self.gate.set()

    def ensure(self, space: str, _template: Any, _now: float, look: Callable[[], None]) -> bool:
        self.waiting += 1
        self.gates.get(space, self.gate).wait(LIMIT)
        self.waiting -= 1
        look()
        self.ensured += 1
        return True


class Running:
    """A server in a thread of its own."""

    def __init__(self) -> None:
        self.templates, self.problem = Templates(), ""
        made = issue.authority("ca", NOW)
        serving = Serving()
        serving.load(issue.serving(made, (LOCAL,), NOW))
        self.context = ssl.create_default_context(cadata=made.certificate)
        self.context.verify_flags |= NO_CHECK_TIME
        admission = Admission(SETTINGS, self.templates, lambda: MPS_NODES, reviews.unlimited)  # type: ignore[arg-type]
        self.paths: tuple[str, ...] = (PATH,)
        self._server = Server(
            admission, lambda: serving.context, lambda: self.problem, lambda: self.paths
        )
        self._loop = asyncio.new_event_loop()
        self.port = scraping.free_address()[1]
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._do(self._server.start((LOCAL, self.port)))

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    def stop(self) -> None:
        self._do(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(LOCAL, self.port, timeout=LIMIT, context=self.context)

    def ask(self, body: bytes, method: str = "POST", path: str = f"/{PATH}") -> tuple[int, bytes]:
        connection = self.connection()
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found


def asked(one: Json | None = None, **more: Any) -> bytes:
    """Return a review as an API server sends it."""
    return reviews.asked(SHARE if one is None else one, **{"object": one or SHARE, **more})
