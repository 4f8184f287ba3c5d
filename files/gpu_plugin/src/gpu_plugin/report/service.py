# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tells what the daemon does, at the address that the configuration has, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .. import logs
from ..observer import Observer

if TYPE_CHECKING:
    from .endpoint import Endpoint

RETRY: Final = 10.0


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
        try:
            from .endpoint import Endpoint  # HTTP and the client are loaded where they are wanted
            from .pages import pages

            self._server = Endpoint(address, pages(self._observer, self._mps_root))
        except OSError as error:
            if not self._complained:
                logs.warning(
                    "no metrics are served, trying again", address=_show(address), cause=error
                )
            self._complained, self._retry_at = True, time.monotonic() + RETRY
            return
        serving = threading.Thread(target=self._server.serve, name="metrics", daemon=True)
        serving.start()
        logs.info("metrics are served", address=_show(address))

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.end()
            self._server = None


def _show(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
