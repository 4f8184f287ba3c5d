# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Evictions: within the budgets that cover a pod, and of the pod that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.kubernetes.standin.admission import order
from tests.fakes.kubernetes.standin.admission.way import Way
from tests.fakes.kubernetes.standin.answers import RECREATED, Refused, conflict, missing
from tests.fakes.kubernetes.standin.resources import RESOURCES
from tests.fakes.kubernetes.standin.selectors import at, matches

if TYPE_CHECKING:
    from tests.fakes.kubernetes.standin.verbs import Doing

Json = dict[str, Any]
SAID = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(doing: Doing) -> tuple[int, Json]:
    """Begin to end a pod. Refused."""
    asked, body = doing.asked, doing.request.object(RESOURCES["v1", "pods"])
    pod = doing.store.get(asked.path)
    if pod is None:
        raise missing(asked.resource, asked.name)
    order.first(Way(doing.request.user, asked, None, {**pod, "kind": "Eviction"}), doing.store)
    options = body.get("deleteOptions") or {}
    for name, needed, healthy in doing.api.budgets_of(pod):
        text = (
            f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        )
        causes = [{"reason": "DisruptionBudget", "message": text}]
        raise Refused(429, SAID, {"causes": causes})
    uid = pod["metadata"]["uid"]
    given = (options.get("preconditions") or {}).get("uid", uid)
    if given != uid:
        raise conflict(asked.resource, asked.name, RECREATED.format(given, uid), "Pod")
    doing.api.evicted(pod, options)
    doing.end(pod, options.get("gracePeriodSeconds"))
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return 201, {**done, "code": 201}


def exhausted(pod: Json, budgets: list[Json]) -> list[tuple[str, int, int]]:
    """Return the budgets that let a pod not go: name, pods that are needed, and pods that are well."""
    ends = at(pod, "metadata.deletionTimestamp") or at(pod, "status.phase") in (
        "Succeeded",
        "Failed",
        "Pending",
    )
    if ends:
        return []
    labels = at(pod, "metadata.labels") or {}
    found = []
    for one in budgets:
        status = one.get("status") or {}
        if matches(labels, one["spec"].get("selector")) and status.get("disruptionsAllowed", 0) < 1:
            name = one["metadata"]["name"]
            found.append((name, status.get("desiredHealthy", 0), status.get("currentHealthy", 0)))
    return found
