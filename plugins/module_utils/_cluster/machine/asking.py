# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Requests to an API server: refused at once before anything is changed, and repeated after that."""

from __future__ import annotations

import time
import typing as t

from ..._base.errors import NodeError
from ..._base.text.json_data import MISREAD
from ..pods import Json
from ..rights import Right, rules
from .api import FORBIDDEN, UNAUTHORIZED, ApiError
from .client import KubernetesApi

T = t.TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds


class Pauses:
    """Waits longer each time, up to a deadline in seconds of time.monotonic()."""

    def __init__(self, deadline: float) -> None:
        self._deadline, self._next = deadline, FIRST_PAUSE

    @property
    def over(self) -> bool:
        """Return whether the deadline has passed."""
        return time.monotonic() >= self._deadline

    def wait(self) -> None:
        """Wait, but not beyond the deadline."""
        time.sleep(max(0.0, min(self._next, self._deadline - time.monotonic())))
        self._next = min(self._next * 2, LONGEST_PAUSE)

    def again(self) -> None:
        """Begin with short pauses again, after progress."""
        self._next = FIRST_PAUSE


def patiently(ask: t.Callable[[], T], deadline: float) -> T:
    """Ask, and again with pauses while the server is away.

    Raises:
        ApiError: if it is still away at the deadline, or refuses.
    """
    pauses = Pauses(deadline)
    while True:
        try:
            return ask()
        except ApiError as error:
            if not error.passing or pauses.over:
                raise
        pauses.wait()


def understood(read: t.Callable[[Json], T], answer: Json) -> T:
    """Return what a function reads from an answer.

    Raises:
        NodeError: if the answer has another shape.
    """
    try:
        return read(answer)
    except MISREAD as error:
        cause = f"{error.__class__.__name__} {error}"
        raise NodeError("an answer of the API server was not understood", cause=cause) from error


def check_rights(api: KubernetesApi, needed: t.Iterable[Right]) -> None:
    """Check that a kubeconfig's user has all rights that are needed.

    Raises:
        NodeError: if some are missing, with their names.
    """
    missing = [right for right in needed if not api.allowed(right)]
    if missing:
        raise missing_rights(api, missing)


def missing_rights(api: KubernetesApi, missing: t.Sequence[Right], cause: str = "") -> NodeError:
    """Return the error for missing rights."""
    named = ", ".join(str(right) for right in missing)
    return NodeError(
        f"kubeconfig (gpu_nodes_kubeconfig): {api.named!r} does not allow this on {api.server}: {named}",
        cause=cause,
        hint=f"add to the ClusterRole of its user: {rules(missing)}",
        missing_rights=[str(right) for right in missing],
    )


def unreached(api: KubernetesApi, error: ApiError) -> NodeError:
    """Return the error of a server that can't be asked before anything was changed, with what to look at."""
    is_refused = error.status in (UNAUTHORIZED, FORBIDDEN)
    check = "auth whoami" if is_refused else "get --raw /readyz"
    hint = (
        f"see kubectl --kubeconfig {api.named} {check} on the controller, and correct gpu_nodes_kubeconfig or "
        "gpu_nodes_context"
    )
    message = f"nothing was changed, since {api.server} can't be asked"
    return NodeError(message, cause=str(error), hint=hint)


def interrupted(api: KubernetesApi, error: ApiError) -> NodeError:
    """Return the error of a server that can't be asked after something was changed, with the next step."""
    again = "and run again, which goes on here"
    hint = f"see that {api.server} answers and takes the kubeconfig's user, {again}"
    return NodeError(error.message, cause=error.cause, hint=hint)
