# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What to do about a change that would take a GPU from somebody, and the refusal of it."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError

FAIL, SKIP, WAIT, PROCEED = "fail", "skip", "wait", "proceed"
DRAIN = "stop them, for example by draining the node, and run again"


class Busy(NodeError):
    """Processes, or pods that were given a device, are where a change has to be made.

    Unlike any other refusal it is one for now: the same change is made once they have ended.
    """


def refuse_if_busy(
    message: str, users: t.Iterable[t.Any], *, hint: str = DRAIN, **details: t.Any
) -> None:
    """Raise Busy when there are users, naming processes, pods and containers; ``details`` are those of the error."""
    names = list(dict.fromkeys(map(str, users)))
    if names:
        cause = f"in use by {', '.join(names)}"
        raise Busy(message, cause=cause, hint=hint, blocked_by=names, refused=True, **details)
