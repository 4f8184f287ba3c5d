# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tells what the daemon does, at the address that the configuration has, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..observer import Observer
from ..tools import logs
from ..tools.chores import Chore

if TYPE_CHECKING:
    from .endpoint import Endpoint


class Telemetry:
    """Serves the observer's numbers, and those of the MPS daemons below ``mps_root``.

    ``chore`` is to be run with the address again and again.
    """

    def __init__(self, observer: Observer, mps_root: Callable[[], str]) -> None:
        self._observer = observer
        self._mps_root = mps_root
        self._address: tuple[str, int] | None = None
        self._server: Endpoint | None = None
        self.chore = Chore("metrics", "no metrics are served, trying again", self._serve)

    def _serve(self, address: tuple[str, int] | None) -> None:
        """Be at this address from now on. OSError: it can't be had, and later calls try again."""
        if address != self._address:
            self.stop()
            self._address = address
        if address is None or self._server is not None:
            return
        from .endpoint import Endpoint  # HTTP and the client are loaded where they are wanted
        from .pages import pages

        self._server = Endpoint(address, pages(self._observer, self._mps_root))
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
