# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Deployments on their way, and webhooks that ask nobody until those are there. Pure."""

from __future__ import annotations

import typing as t

from ..._base.text.shown import cut
from .state import Json

DEPLOYMENT = "Deployment"
HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
PATIENCE = 600  # seconds, where a Deployment does not say it
NOBODY = ({"name": "not-yet", "expression": "false"},)
COUNTS = ("observedGeneration", "replicas", "updatedReplicas", "availableReplicas")
MOST_CAUSES = 3


def asks_nobody(hook: Json) -> Json:
    """Return a webhook's configuration of which API servers ask for no object."""
    made = [{**one, "matchConditions": list(NOBODY)} for one in hook.get("webhooks") or ()]
    return {**hook, "webhooks": made}


def progress(deployment: Json) -> t.Tuple[int, ...]:
    """Return how far a Deployment is, by COUNTS."""
    status = deployment.get("status") or {}
    return tuple(int(status.get(one) or 0) for one in COUNTS)


def rolled_out(deployment: Json) -> bool:
    """Tell whether all pods of a Deployment are of its template, and available."""
    seen, there, updated, available = progress(deployment)
    wanted = deployment["spec"].get("replicas", 1)
    known = seen >= int(deployment["metadata"].get("generation") or 0)
    return known and updated >= wanted and there <= updated <= available


def patience(deployment: Json) -> int:
    """Return for how many seconds nothing may move."""
    return int(deployment["spec"].get("progressDeadlineSeconds") or PATIENCE)


def selector(deployment: Json) -> t.Tuple[str, str]:
    """Return one of the labels that its pods have."""
    labels = deployment["spec"]["selector"].get("matchLabels") or {"": ""}
    return t.cast(t.Tuple[str, str], next(iter(labels.items())))


def causes(pods: t.Iterable[Json]) -> str:
    """Return what pods wait for, in the words of the kubelet and the scheduler; empty where they don't say."""
    found = dict.fromkeys(said for one in pods for said in _causes(one.get("status") or {}))
    return "; ".join(list(found)[:MOST_CAUSES])


def _causes(status: Json) -> t.Iterator[str]:
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            yield cut(f"{one.get('reason', '')}: {one.get('message', '')}")
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        ended = (one.get("lastState") or {}).get("terminated") or {}
        if reason := waiting.get("reason"):
            yield cut(f"{reason}: {ended.get('message') or waiting.get('message', '')}")
