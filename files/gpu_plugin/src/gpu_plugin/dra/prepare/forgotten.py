# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims that the kubelet has forgotten, as after kubeadm reset: nobody would ever give back what they hold.

The kubelet writes down a claim before it asks for it to be prepared, and drops it after it was unprepared. So what a
claim holds that is neither there nor allocated so in the API is nobody's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..._shared._core.dra.checkpoint import Held
from ..._shared._core.errors import NodeError
from ...tools import bounded, logs
from .checkpoint import Checkpoint

STATE: Final = "dra_manager_state"  # below the kubelet's root folder
PATIENCE: Final = 120.0  # seconds for which it must be so


class Forgotten:
    """``gone`` tells whether the API no longer gives a claim what it holds, ``unprepare`` undoes one by its UID."""

    def __init__(
        self,
        kubelet: Path,
        checkpoint: Checkpoint,
        gone: Callable[[Held], bool],
        unprepare: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state, self._checkpoint = kubelet / STATE, checkpoint
        self._gone, self._unprepare, self._clock = gone, unprepare, clock
        self._since: dict[str, float] = {}

    def look(self) -> None:
        """Unprepare what has been nobody's for a while. NodeError, OSError: one of it is not known, or fails."""
        claims, now = self._checkpoint.claims, self._clock()
        known = self._known() if claims else ""
        lost = [uid for uid in claims if uid not in known]
        self._since = {uid: self._since.get(uid, now) for uid in lost}
        failed: list[Exception] = []
        for uid, since in self._since.items():
            if now - since >= PATIENCE:
                try:
                    self._give_back(claims[uid])
                except (NodeError, OSError) as error:  # it keeps no other from being given back
                    failed.append(error)
        if failed:
            raise failed[0]

    def _give_back(self, held: Held) -> None:
        if self._gone(held):
            logs.warning("the kubelet has forgotten a claim, which is given back", claim=held)
            self._unprepare(held.uid)

    def _known(self) -> str:
        """Return what the kubelet has written down; nothing where it has no claim, or there is no kubelet."""
        try:
            return bounded.read(self._state, 64 << 20).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
