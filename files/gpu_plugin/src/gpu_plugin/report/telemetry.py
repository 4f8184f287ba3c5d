# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Metrics and health over HTTP while a service runs, whose libraries are loaded on their first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..observer import Observer
from ..tools import logs
from ..tools.chores import Chore
from ..tools.process import Last

if TYPE_CHECKING:
    from .endpoint import Endpoint, Page


def daemons_pages(
    observer: Observer, last: Last, mps_root: Callable[[], str]
) -> Mapping[str, Page]:
    """Return the daemon's pages: the observer's numbers, its last state, and the MPS daemons below ``mps_root``."""
    from .pages import pages  # the client is loaded on its first use

    return pages(observer, last, mps_root)


class Telemetry:
    """Serves ``pages``, which are made on their first use.

    ``chore`` has to be run with the configured address again and again; without an address nothing is served.
    """

    def __init__(self, pages: Callable[[], Mapping[str, Page]]) -> None:
        self._pages = pages
        self._address: tuple[str, int] | None = None
        self._server: Endpoint | None = None
        self.chore = Chore("metrics", "no metrics are served, trying again", self._serve)

    def _serve(self, address: tuple[str, int] | None) -> None:
        """Serve at this address from now on. If it can't be bound, later calls try again."""
        if address != self._address:
            self.stop()
            self._address = address
        if address is None or self._server is not None:
            return
        from .endpoint import Endpoint  # HTTP is loaded on its first use

        self._server = Endpoint(address, self._pages())
        serving = threading.Thread(target=self._server.serve, name="metrics", daemon=True)
        serving.start()
        host, port = address
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        logs.info("metrics are served", address=shown)

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.end()
            self._server = None
