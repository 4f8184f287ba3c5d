# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The HTTPS server of reviews. All that clients can ask of it has a limit, see limits.py.

API servers alone know the path. A review has a deadline of its own, which is shorter than the API server's.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from gpu_plugin.tools import logs

from . import limits, metrics, review
from .admission import Admission
from .budget import AGAIN, Deadline, Late, OverLimit
from .connections import Connections
from .limits import Lane
from .review import ReviewError

QUIET: Final = logging.getLogger(f"{__name__}.aiohttp")  # clients that go away are no news
QUIET.disabled = True


class _Lane:
    """A lane with its threads."""

    def __init__(self, lane: Lane) -> None:
        self.longest = lane.longest
        self.gate = asyncio.Semaphore(lane.at_once)
        self.threads = ThreadPoolExecutor(lane.threads, "review")
        self._of_namespace = lane.of_namespace
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def turn(self, namespace: str) -> Iterator[None]:
        """Count a review of the namespace as under way, an error if there are too many of it already."""
        if self._under_way[namespace] >= self._of_namespace:
            raise OverLimit(
                f"another large pod of namespace {namespace} is being reviewed",
                HTTPStatus.TOO_MANY_REQUESTS,
                cause=f"at most {self._of_namespace} of more than {limits.LANES[0].longest >> 10} KiB at once",
                hint=AGAIN,
            )
        self._under_way[namespace] += 1
        try:
            yield
        finally:
            self._under_way[namespace] -= 1
            if not self._under_way[namespace]:
                del self._under_way[namespace]


class Server:
    """Serves reviews at the paths that ``paths`` returns, without their slash, by what ``context`` returns."""

    def __init__(
        self,
        admission: Admission,
        context: Callable[[], ssl.SSLContext],
        ready: Callable[[], str],
        paths: Callable[[], Iterable[str]],
    ) -> None:
        self._admission, self._context, self._ready = admission, context, ready
        self._paths = paths

    async def start(self, address: tuple[str, int]) -> None:
        """Listen.

        Raises:
            OSError: if the address can't be bound.
        """
        self._lanes = [_Lane(lane) for lane in limits.LANES]
        self._server = web.Server(
            self._review,
            access_log=None,
            logger=QUIET,
            keepalive_timeout=limits.IDLE,
            lingering_time=limits.LINGER,
            auto_decompress=False,
        )
        self._connections = Connections(self._server, self._context)
        self._connections.listen(address)

    async def stop(self) -> None:
        """Accept no more connections, let the reviews under way end, and stop."""
        self._connections.stop()
        self._server.pre_shutdown()
        await self._server.shutdown(limits.GOODBYE)
        for lane in self._lanes:
            lane.threads.shutdown(wait=False, cancel_futures=True)

    async def _review(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = request.path.encode()
        if not any(hmac.compare_digest(asked, f"/{path}".encode()) for path in self._paths()):
            return _refusal(HTTPStatus.NOT_FOUND)
        with self._connections.asking(request.protocol):
            if request.method != "POST":
                return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
            length = request.content_length
            if length is None:
                return _refusal(HTTPStatus.LENGTH_REQUIRED)
            lanes = [lane for lane in self._lanes if length <= lane.longest]
            if not lanes:
                return _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return await self._timed(request, lanes[0], length)

    async def _timed(
        self, request: web.BaseRequest, lane: _Lane, length: int
    ) -> web.StreamResponse:
        began = time.monotonic()
        try:
            answer = await asyncio.wait_for(
                self._answered(request, lane, length, Deadline(limits.DEADLINE)), limits.DEADLINE
            )
        except (TimeoutError, Late):  # asyncio's differs from TimeoutError in 3.10
            metrics.REVIEWS.labels("failed").inc()
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the review took too long")
        except ReviewError as error:
            metrics.REVIEWS.labels("invalid").inc()
            return _refusal(HTTPStatus.BAD_REQUEST, str(error))
        finally:
            metrics.SECONDS.observe(time.monotonic() - began)
        response = web.json_response(answer)
        if self._ready():  # the next one shall go to another replica
            response.force_close()
        return response

    async def _answered(
        self, request: web.BaseRequest, lane: _Lane, length: int, deadline: Deadline
    ) -> dict[str, Any]:
        content = request.content
        body = await content.readexactly(min(length, limits.LONGEST_HEAD)) if length else b""
        uid, namespace = review.read_head(body)
        try:
            with lane.turn(namespace):
                async with lane.gate:
                    if len(body) < length:
                        body += await content.readexactly(length - len(body))
                    loop = asyncio.get_running_loop()
                    return await loop.run_in_executor(lane.threads, self._guarded, body, deadline)
        except OverLimit as error:
            # A client that is still sending when the connection is closed never sees the answer.
            while not content.at_eof():
                await content.readany()
            metrics.REVIEWS.labels("refused").inc()
            return review.denied(uid, str(error), error.status)

    def _guarded(self, body: bytes, deadline: Deadline) -> dict[str, Any]:
        try:
            deadline.look()
            return self._admission.answer(body, deadline.look)
        except (ReviewError, Late):
            raise
        except Exception as error:
            logs.error("a review failed", cause=repr(error))
            raise


def _refusal(status: HTTPStatus, text: str = "") -> web.Response:
    response = web.Response(status=status, text=f"{text or status.phrase.lower()}\n")
    response.force_close()
    return response
