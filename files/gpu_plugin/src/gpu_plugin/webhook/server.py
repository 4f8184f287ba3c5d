# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The HTTPS server of reviews, and the plain one of health pages and metrics.

Whoever reaches the address may connect and say nothing: a connection that has not asked within a few
seconds is ended, as is the oldest of too many such ones. A review has a deadline of its own, which
is shorter than the API server's.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from ..tools import logs
from . import metrics
from .admission import Admission
from .review import LONGEST, ReviewError

PATH: Final = "/mutate"
FIRST: Final = 5.0  # seconds until a connection has asked something, its TLS handshake apart
DEADLINE: Final = 9.0  # of a review, body included; the API server waits for ten seconds
IDLE: Final = 120.0  # that a connection may be kept without a review
GOODBYE: Final = 10.0  # for reviews that are under way at the end
THREADS: Final = 16
MOST_SILENT: Final = 256
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Serves reviews at one address and pages at another one."""

    def __init__(
        self, admission: Admission, context: ssl.SSLContext, ready: Callable[[], str]
    ) -> None:
        self._admission, self._context, self._ready = admission, context, ready
        self._threads = ThreadPoolExecutor(THREADS, "review")
        self._silent: dict[int, tuple[asyncio.TimerHandle, Any]] = {}
        self._runners: list[web.AppRunner] = []
        self._listeners: list[asyncio.Server] = []

    async def start(self, address: tuple[str, int], pages: tuple[str, int] | None) -> None:
        """Listen. OSError: an address can't be had."""
        reviews = web.Application(client_max_size=LONGEST, middlewares=[self._heard])
        reviews.router.add_post(PATH, self._review)
        await self._listen(reviews, address, self._context)
        if pages:
            shown = web.Application(middlewares=[self._heard])
            shown.router.add_get("/healthz", self._healthz)
            shown.router.add_get("/readyz", self._readyz)
            shown.router.add_get("/metrics", self._metrics)
            await self._listen(shown, pages, None)

    async def stop(self) -> None:
        """Take no more connections, let the reviews under way end, and go."""
        for listener in self._listeners:
            listener.close()
        for runner in self._runners:
            await runner.cleanup()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _listen(
        self, app: web.Application, address: tuple[str, int], context: ssl.SSLContext | None
    ) -> None:
        runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=IDLE,
            auto_decompress=False,
            shutdown_timeout=GOODBYE,
        )
        await runner.setup()
        assert runner.server is not None
        made = runner.server
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            lambda: self._bounded(made()),
            *address,
            ssl=context,
            ssl_handshake_timeout=FIRST if context else None,
        )
        self._runners.append(runner)
        self._listeners.append(listener)

    def _bounded(self, connection: Any) -> Any:
        """Return a connection that is ended where it asks nothing for too long."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(2 * FIRST, self._drop, id(connection))
        self._silent[id(connection)] = (timer, connection)
        if len(self._silent) > MOST_SILENT:
            self._drop(next(iter(self._silent)))
        return connection

    def _drop(self, number: int) -> None:
        timer, connection = self._silent.pop(number)
        timer.cancel()
        if connection.transport is not None:
            connection.transport.abort()

    @web.middleware
    async def _heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        timer, _connection = self._silent.pop(id(request.protocol), (None, None))
        if timer is not None:
            timer.cancel()
        return await handler(request)

    async def _review(self, request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        try:
            answer = await asyncio.wait_for(self._answered(request), DEADLINE)
        except asyncio.TimeoutError:  # noqa: UP041 - another one than TimeoutError in 3.10
            metrics.REVIEWS.labels("failed").inc()
            raise web.HTTPServiceUnavailable(text="the review took too long\n") from None
        except ReviewError as error:
            metrics.REVIEWS.labels("invalid").inc()
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        finally:
            metrics.SECONDS.observe(time.monotonic() - began)
        response = web.json_response(answer)
        if self._ready():  # the next one shall go to another replica
            response.force_close()
        return response

    async def _answered(self, request: web.Request) -> dict[str, Any]:
        body = await request.read()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._guarded, body)

    def _guarded(self, body: bytes) -> dict[str, Any]:
        try:
            return self._admission.answer(body)
        except ReviewError:
            raise
        except Exception as error:
            logs.error("a review failed", cause=repr(error))
            raise

    async def _healthz(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.StreamResponse:
        if problem := self._ready():
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{problem}\n")
        return web.Response(text="ok\n")

    async def _metrics(self, _request: web.Request) -> web.StreamResponse:
        kind = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=metrics.page(), headers=kind)
