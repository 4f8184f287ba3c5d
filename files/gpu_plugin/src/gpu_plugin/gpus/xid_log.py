# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tells of XIDs: the first of its kind at once, what follows it in short order as a number."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .._shared._nvml.readings import Xid
from ..tools import logs

PAUSE: Final = 5.0


@dataclass
class _Said:
    at: float
    since: int = 0


class XidLog:
    """``pause`` is how long, in seconds, XIDs that are alike are gathered before they are logged."""

    def __init__(self, pause: float = PAUSE, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._said: dict[Xid, _Said] = {}

    def heard(self, xid: Xid) -> None:
        """Take note of an XID."""
        said = self._said.get(xid)
        if said is None:
            self._said[xid] = _Said(self._clock())
            _log(xid, 1)
        else:
            said.since += 1

    def tick(self) -> None:
        """Tell of what was gathered for long enough."""
        now = self._clock()
        for xid, said in list(self._said.items()):
            if now - said.at < self._pause:
                continue
            if said.since:
                _log(xid, said.since)
                self._said[xid] = _Said(now)
            else:
                del self._said[xid]


def _log(xid: Xid, times: int) -> None:
    where = {"gpu": xid.gpu_uuid, "xid": xid.number, "gi": xid.gi_id, "ci": xid.ci_id}
    logs.warning("XID", **where, **({"times": times} if times > 1 else {}))
