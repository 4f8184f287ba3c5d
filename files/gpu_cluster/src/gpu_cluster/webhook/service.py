# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The process: a server, the certificate's renewal, the slices, and the end of unused templates."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.rate import Rate, jittered
from gpu_plugin.report.endpoint import Endpoint, Page, probe_page
from gpu_plugin.tools import logs
from gpu_plugin.tools.chores import Chore

from ..hami.settings import Settings
from . import limits, metrics
from .admission import Admission
from .certificates.issue import Pair
from .certificates.serving import Serving
from .namespaces import Namespaces
from .server import Server
from .slices import Slices
from .templates import Templates

RENEWAL: Final = 15.0  # seconds between two looks at the certificate
COLLECTION: Final = 0.1  # of the time-to-live, between two looks for unused templates
LONGEST_COLLECTION: Final = 600.0
SOON: Final = 2.0  # until what failed is tried again
LAME: Final = 3.0  # for which it still serves though it is not ready: until no new connection comes
BEAT, DEAD = 1.0, 30.0  # seconds in which the loop that takes reviews comes round, or does no more
MOST_LOGGED: Final = 3  # namespaces, of a round that could not look at them
SYSTEM: Final = "kube-system"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Sources:
    """The functions that return the certificate and the paths of reviews by the time, retried after an error."""

    certificate: Callable[[float], Pair]
    paths: Callable[[float], tuple[str, ...]]


@dataclass(frozen=True)
class Options:
    """The options of the webhook; ``pages`` is None if no metrics are served, ``namespace`` is its own."""

    listen: tuple[str, int]
    pages: tuple[str, int] | None
    ttl: float
    settings: Settings
    namespace: str


class Service:
    """One replica."""

    def __init__(
        self, options: Options, access: Access, sources: Callable[[Access], Sources]
    ) -> None:
        self._options, self._access = options, access
        self._sources = sources(access)
        self._serving = Serving()
        self._slices = Slices(access)
        self._templates = Templates(access, options.ttl)
        admission = Admission(
            options.settings,
            self._templates,
            self._slices.published,
            Namespaces(access, options.settings).check,
            (SYSTEM, options.namespace),
        )
        self._server = Server(
            admission, lambda: self._serving.context, self.problem, lambda: self._paths
        )
        self._ended = asyncio.Event()
        self._certified, self._beaten = False, time.monotonic()
        self._paths: tuple[str, ...] = ()

    def problem(self) -> str:
        """Return why pods should not be sent here, empty if they may be."""
        if self._ended.is_set():
            return "it is being stopped"
        if not self._certified:
            return "there is no certificate"
        if self._serving.until <= time.time():
            return "the certificate is over"
        if not self._paths:
            return "the API servers were told no path"
        return "" if self._slices.listed.is_set() else "the ResourceSlices were not listed"

    async def run(self) -> int:
        """Serve until a signal. Return the exit status.

        Raises:
            OSError: if an address can't be bound.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ended.set)
        threading.Thread(target=self._slices.follow, name="slices", daemon=True).start()
        period = min(self._options.ttl * COLLECTION, LONGEST_COLLECTION)
        chores = [
            asyncio.create_task(self._again("certificate", self._certify, RENEWAL)),
            asyncio.create_task(self._again("templates", self._collect, period)),
            asyncio.create_task(self._beat()),
        ]
        await self._server.start(self._options.listen)
        pages = self._serve_pages(self._options.pages) if self._options.pages else None
        logs.info("listening", address=":".join(map(str, self._options.listen)))
        await self._ended.wait()
        await asyncio.sleep(LAME)
        for chore in chores:
            chore.cancel()
        self._slices.end()
        await self._server.stop()
        self._access.close()
        if pages:
            pages.end()
        return 0

    def _serve_pages(self, address: tuple[str, int]) -> Endpoint:
        """Serve health and metrics, by a thread that no flood of reviews holds up."""
        pages: dict[str, Page] = {
            "/healthz": lambda: probe_page("" if self._alive() else "no review is taken any more"),
            "/readyz": lambda: probe_page(self.problem()),
            "/metrics": lambda: (HTTPStatus.OK, METRICS, metrics.page()),
        }
        endpoint = Endpoint(address, pages)
        threading.Thread(target=endpoint.serve, name="metrics", daemon=True).start()
        return endpoint

    def _alive(self) -> bool:
        return time.monotonic() - self._beaten < DEAD

    async def _beat(self) -> None:
        while True:
            self._beaten = time.monotonic()
            await asyncio.sleep(BEAT)

    async def _again(self, name: str, work: Callable[[], Any], seconds: float) -> None:
        """Do the work again and again, soon if it failed; a failure is logged once."""
        chore = Chore(name, "a chore of the webhook failed", work)
        while not self._ended.is_set():
            await asyncio.to_thread(chore.run)
            pause = min(SOON, seconds) if chore.error else jittered(seconds)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), pause)

    def _certify(self) -> None:
        if self._serving.load(self._sources.certificate(time.time())):
            logs.info("serving a certificate", until=int(self._serving.until))
        self._certified = True
        self._paths = self._sources.paths(time.time())

    def _collect(self) -> None:
        if removed := self._templates.collect(time.time()):
            metrics.REMOVED.inc(removed)
            logs.info("removed templates that no pod used", count=removed)
        metrics.STUCK.set(len(self._templates.failed))
        for namespace, error in list(self._templates.failed.items())[:MOST_LOGGED]:
            logs.warning("unused templates stay for now", namespace=namespace, cause=error)


def access(kubeconfig: str) -> Access:
    """Return the access to the API, for as many pods as are created at once.

    Raises:
        ApiError: if there is no kubeconfig that can be used.
    """
    rate = Rate(limits.QPS, limits.BURST)
    return Access(kubeconfig, rate, limits.LONGEST_ANSWER).connect()
