# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The refusal of a change that would take a GPU from its users, and what may be done about them."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError

FAIL, SKIP, WAIT, PROCEED = "fail", "skip", "wait", "proceed"
DRAIN = "stop them, for example by draining the node, and run again"


class Busy(NodeError):
    """Processes or pods use a device that a change needs.

    Unlike any other refusal this one is temporary: the same change can be made once they have ended.
    """


def refuse_if_busy(
    message: str, users: t.Iterable[t.Any], *, hint: str = DRAIN, **details: t.Any
) -> None:
    """Refuse a change while there are users.

    Args:
        message: The change that is refused.
        users: Processes, pods and containers.
        hint: The next step.
        details: Details of the error.

    Raises:
        Busy: if there are users, with their names.
    """
    names = list(dict.fromkeys(map(str, users)))
    if names:
        cause = f"in use by {', '.join(names)}"
        raise Busy(message, cause=cause, hint=hint, blocked_by=names, refused=True, **details)
