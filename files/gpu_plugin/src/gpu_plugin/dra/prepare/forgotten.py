# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims that the kubelet has forgotten, as after kubeadm reset: nobody would ever give back what they hold.

The kubelet writes down a claim before it asks for it to be prepared, and drops it after it was unprepared. So what a
claim holds that is neither there nor allocated so in the API is nobody's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ..._shared._base.dra.checkpoint import PreparedClaim
from ...tools import logs
from ...tools.chores import Tries
from ..users import Users
from .checkpoint import Checkpoint

PATIENCE: Final = 120.0  # seconds for which it must be so


class Forgotten:
    """``gone`` tells whether the API no longer gives a claim what it holds, ``unprepare`` undoes one by its UID."""

    def __init__(
        self,
        users: Users,
        checkpoint: Checkpoint,
        gone: Callable[[PreparedClaim], bool],
        unprepare: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users, self._checkpoint = users, checkpoint
        self._gone, self._unprepare, self._clock = gone, unprepare, clock
        self._since: dict[str, float] = {}

    def look(self) -> None:
        """Unprepare what has been nobody's for a while. NodeError, OSError: one of it is not known, or fails."""
        claims, now, tries = self._checkpoint.claims, self._clock(), Tries()
        known = self._users.read() if claims else {}
        lost = [uid for uid in claims if uid not in known]
        self._since = {uid: self._since.get(uid, now) for uid in lost}
        for held in (claims[uid] for uid, since in self._since.items() if now - since >= PATIENCE):
            with tries:
                if self._gone(held):
                    logs.warning(
                        "the kubelet has forgotten a claim, which is given back", claim=held
                    )
                    self._unprepare(held.uid)
        tries.check()
