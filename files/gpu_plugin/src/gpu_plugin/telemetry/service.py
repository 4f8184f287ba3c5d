# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tells what the daemon does, at the address that the configuration has, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .. import logs
from ..mps import listing
from ..observer import Observer, Seen
from .probes import health, readiness

if TYPE_CHECKING:
    from .endpoint import Endpoint, Page

RETRY: Final = 10.0
TEXT: Final = "text/plain; charset=utf-8"


class Telemetry:
    """Serves the observer's numbers, and those of the MPS daemons below ``mps_root``."""

    def __init__(self, observer: Observer, mps_root: Callable[[], str]) -> None:
        self._observer = observer
        self._mps_root = mps_root
        self._address: tuple[str, int] | None = None
        self._server: Endpoint | None = None
        self._retry_at = 0.0
        self._complained = False

    def serve(self, address: tuple[str, int] | None) -> None:
        """Be at this address from now on. One that can't be had is tried again at later calls."""
        if address != self._address:
            self.stop()
            self._address, self._retry_at, self._complained = address, 0.0, False
        if address is None or self._server is not None or time.monotonic() < self._retry_at:
            return
        from .endpoint import Endpoint  # HTTP and the client are loaded where they are wanted

        try:
            self._server = Endpoint(address, self._pages())
        except OSError as error:
            if not self._complained:
                logs.warning(
                    "no metrics are served, trying again", address=_show(address), cause=error
                )
            self._complained, self._retry_at = True, time.monotonic() + RETRY
            return
        serving = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        serving.start()
        logs.info("metrics are served", address=_show(address))

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _pages(self) -> dict[str, Page]:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        from .families import Families

        registry = CollectorRegistry(auto_describe=False)
        registry.register(
            Families(self._observer.seen, lambda: listing.load(Path(self._mps_root())))
        )
        ProcessCollector(registry=registry)
        return {
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
            "/healthz": lambda: self._probe(health),
            "/readyz": lambda: self._probe(readiness),
        }

    def _probe(self, judge: Callable[[Seen, float], str]) -> tuple[HTTPStatus, str, bytes]:
        problem = judge(self._observer.seen(), time.monotonic())
        status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
        return status, TEXT, f"{problem or 'ok'}\n".encode()


def _show(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
