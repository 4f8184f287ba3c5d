# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a drain does with each pod of a node."""

from __future__ import annotations

import dataclasses
import typing as t

from ..pods import DAEMONSET, Pod

ELSEWHERE, FINISHED, MIRROR, NO_GPU = "on another node", "finished", "static pod", "no GPU"
NOT_NAMED = "not named"
ALL, GPU = CHOICES = ("all", "gpu")
REFUSE, DELETE = ANSWERS = ("refuse", "delete")


@dataclasses.dataclass(frozen=True)
class Rules:
    """The user's choices, and the node that is drained; ``finish`` lets pods run to completion first.

    If there are ``names`` of pods or claims, as namespace/name, only those pods are chosen.
    """

    node: str
    pods: str = GPU
    bare_pods: str = REFUSE
    emptydir: str = REFUSE
    finish: bool = False
    names: t.FrozenSet[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Triage:
    """The pods of a node, each in one list.

    Attributes:
        evict: Pods to evict.
        finishing: Pods to evict if they don't run to completion first.
        ending: Pods that are terminating.
        refused: Pods that may not be evicted, each with the reason.
        left: Pods that stay, each with the reason.
    """

    evict: t.Tuple[Pod, ...] = ()
    finishing: t.Tuple[Pod, ...] = ()
    ending: t.Tuple[Pod, ...] = ()
    refused: t.Tuple[t.Tuple[Pod, str], ...] = ()
    left: t.Tuple[t.Tuple[Pod, str], ...] = ()

    @property
    def to_go(self) -> t.Tuple[Pod, ...]:
        """Return the pods that have to be gone at the end, in the order of their names."""
        chosen = self.evict + self.finishing + self.ending
        return tuple(sorted(chosen, key=str))

    @property
    def holders(self) -> t.Tuple[Pod, ...]:
        """Return the pods that stay and have GPUs, or may have some open."""
        here = (pod for pod, reason in self.left if reason not in (ELSEWHERE, FINISHED))
        return tuple(pod for pod in here if pod.gpus or pod.opens)


def triage(pods: t.Iterable[Pod], rules: Rules) -> Triage:
    """Return what a drain does with each pod."""
    evict: t.List[Pod] = []
    finishing: t.List[Pod] = []
    ending: t.List[Pod] = []
    refused: t.List[t.Tuple[Pod, str]] = []
    left: t.List[t.Tuple[Pod, str]] = []
    for pod in pods:
        stays, against = why_left(pod, rules), why_refused(pod, rules)
        if stays:
            left.append((pod, stays))
        elif pod.terminating:
            ending.append(pod)
        elif pod.runs_to_completion and rules.finish:
            finishing.append(pod)
        elif against:
            refused.append((pod, against))
        else:
            evict.append(pod)
    return Triage(tuple(evict), tuple(finishing), tuple(ending), tuple(refused), tuple(left))


def why_left(pod: Pod, rules: Rules) -> str:
    """Return why a drain leaves a pod, empty if it doesn't."""
    chosen = {str(pod), *(f"{pod.namespace}/{claim}" for claim in pod.claims)}
    reasons = (
        (pod.node != rules.node, ELSEWHERE),
        (pod.finished, FINISHED),
        (pod.mirror, MIRROR),
        (pod.controller == DAEMONSET, DAEMONSET),
        (bool(rules.names) and rules.names.isdisjoint(chosen), NOT_NAMED),
        (not rules.names and rules.pods == GPU and not pod.gpus, NO_GPU),
    )
    return next((reason for holds, reason in reasons if holds), "")


def why_refused(pod: Pod, rules: Rules) -> str:
    """Return what would be lost for good with a pod, empty if nothing is or the user accepts it."""
    bare = not pod.controller and rules.bare_pods == REFUSE
    data = pod.emptydirs and rules.emptydir == REFUSE
    reasons = (
        (bare, "has no controller that makes it again"),
        (data, f"has data in emptyDir ({', '.join(pod.emptydirs)})"),
    )
    return " and ".join(reason for holds, reason in reasons if holds)
