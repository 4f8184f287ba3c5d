# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Evictions from a node, which are requested until all chosen pods are gone."""

from __future__ import annotations

import time
import typing as t

from ..._base.errors import NodeError
from ..machine.api import CONFLICT, FORBIDDEN, MISSING, ApiError
from ..machine.asking import Pauses, missing_rights
from ..machine.client import KubernetesApi
from ..pods import Pod
from ..rights import OF_DRAIN
from .triage import Triage

NAMESPACE_ENDS = "NamespaceTerminating"  # its pods are removed with it
ENDING = "was asked to end, and the kubelet has not ended it yet"
Look = t.Callable[[bool], Triage]


class Evictions:
    """The evictions from a node: pods that were evicted or ran to completion, and why others are still there.

    Args:
        api: The API server.
        look: Returns the pods that are there, by rules that let pods finish or do not.
        grace: In seconds; below 0 each pod has its own.
        stays: The state of the node after an error, for the hint.
    """

    def __init__(self, api: KubernetesApi, look: Look, grace: int, stays: str) -> None:
        self._stays = stays
        self._api, self._look = api, look
        self._grace = None if grace < 0 else grace
        self._evicted: t.Dict[str, str] = {}
        self._waited: t.Dict[str, str] = {}
        self._reasons: t.Dict[str, str] = {}
        self._away = ""

    @property
    def evicted(self) -> t.List[str]:
        """Return the pods whose eviction was granted."""
        return sorted(self._evicted.values())

    @property
    def waited(self) -> t.List[str]:
        """Return the pods that ran to completion during the wait for them."""
        return sorted(self._waited.values())

    def let_finish(self, seconds: float) -> None:
        """Wait at most so many seconds until the pods that run to completion have done so."""
        pauses = Pauses(time.monotonic() + seconds)
        seen: t.Dict[str, str] = {}
        while not pauses.over:
            triage = self._looked(finish=True)
            if triage is not None:
                running = {pod.uid: str(pod) for pod in triage.finishing}
                seen.update(running)
                self._waited = {uid: pod for uid, pod in seen.items() if uid not in running}
                if not running:
                    return
            pauses.wait()

    def run(self, deadline: float) -> None:
        """Evict until no chosen pod is left.

        Raises:
            NodeError: if some are left at the deadline, in time.monotonic(), or would be lost.
        """
        pauses, before = Pauses(deadline), frozenset[str]()
        while True:
            triage = self._looked(finish=False)
            if triage is not None:
                if triage.refused:
                    raise refusal(triage, evicted=self.evicted, waited=self.waited)
                if not triage.to_go:
                    return
                for pod in triage.evict:
                    self._evict(pod)
                uids = frozenset(pod.uid for pod in triage.to_go)
                if uids != before:
                    pauses.again()
                before = uids
            if pauses.over:
                raise self._too_late(triage)
            pauses.wait()

    def _looked(self, *, finish: bool) -> t.Optional[Triage]:
        """Return the pods that are there, None while the server is away."""
        try:
            result = self._look(finish)
        except ApiError as error:
            if not error.passing:
                raise
            self._away = str(error)
            return None
        self._away = ""
        return result

    def _evict(self, pod: Pod) -> None:
        """Ask for an eviction, and note why it is not granted; raise the error if it never will be."""
        try:
            self._api.evict(pod.namespace, pod.name, pod.uid, self._grace)
        except ApiError as error:
            if error.status in (MISSING, CONFLICT):
                return  # it is gone, or was replaced: the next look shows which
            ends = any(reason == NAMESPACE_ENDS for reason, _message in error.causes)
            if error.status == FORBIDDEN and not ends:
                raise missing_rights(self._api, OF_DRAIN[1:], error.cause) from error
            if not error.passing and not ends:
                raise
            messages = (error.cause, *(message for _reason, message in error.causes))
            self._reasons[pod.uid] = " ".join(filter(None, messages))
            return
        self._evicted[pod.uid] = str(pod)
        self._reasons.pop(pod.uid, None)

    def _too_late(self, triage: t.Optional[Triage]) -> NodeError:
        details: t.Dict[str, t.Any] = {"evicted": self.evicted, "waited": self.waited}
        if triage is None:
            cause, remedy = (
                f"the API server is away: {self._away}",
                "see that the API server answers",
            )
        else:
            reasons = {str(pod): self._reasons.get(pod.uid, ENDING) for pod in triage.to_go}
            details["blocked"] = [{"pod": pod, "reason": reason} for pod, reason in reasons.items()]
            cause = "; ".join(f"{pod} ({reason})" for pod, reason in reasons.items())
            remedy = (
                "let its disruption budget allow the eviction (kubectl get pdb -A) or end the pod,"
                " or raise gpu_nodes_drain_timeout"
            )
        evicted = ", ".join(self.evicted) or "none"
        stays = f"{self._stays} (evicted so far: {evicted})"
        hint = f"{stays}; {remedy}, and run again, which goes on here"
        return NodeError("the drain has not ended in time", cause=cause, hint=hint, **details)


def refusal(triage: Triage, **details: t.Any) -> NodeError:
    """Return the error for pods that may not be evicted, of which none was."""
    reasons = {str(pod): reason for pod, reason in triage.refused}
    return NodeError(
        "the node is not drained, since pods would be lost",
        cause="; ".join(f"{pod} {reason}" for pod, reason in reasons.items()),
        hint="move or end them, or set bare_pods (gpu_nodes_drain_bare_pods) or"
        " emptydir (gpu_nodes_drain_emptydir) to delete",
        blocked=[{"pod": pod, "reason": reason} for pod, reason in reasons.items()],
        **details,
    )
