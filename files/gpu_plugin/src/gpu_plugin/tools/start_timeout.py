# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Limits how long the start of a machine waits for a service that hangs."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final

from . import logs

READY: Final = "READY=1"


class StartTimeout:
    """Notifies the service manager that the service has started if nothing happens for some seconds.

    Later services go on then, and so does this one: a driver that does not answer may
    only be slow. Another thread notifies it, since a call into a driver may never return.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer = threading.Timer(0, self._give_up)

    def __enter__(self) -> StartTimeout:
        self.renew()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()

    def renew(self) -> None:
        """Begin anew, since something has happened."""
        self._timer.cancel()
        self._timer = threading.Timer(self._seconds, self._give_up)
        self._timer.daemon = True
        self._timer.start()

    def _give_up(self) -> None:
        logs.warning("the GPUs are not waited for any longer; this goes on", seconds=self._seconds)
        logs.notify(READY)
