# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What becomes of an object on its way in: restrictions and webhooks come first, policies and quotas last."""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes.standin.admission import policies, restrictions, webhooks
from tests.fakes.kubernetes.standin.admission.way import Way
from tests.fakes.kubernetes.standin.answers import missing
from tests.fakes.kubernetes.standin.resources import RESOURCES
from tests.fakes.kubernetes.standin.selectors import at
from tests.fakes.kubernetes.standin.store import Store

Json = dict[str, Any]


def first(way: Way, store: Store) -> Json | None:
    """Return the object as it is after what changes it. Refused."""
    _namespace(way, store)
    if way.user.node:
        restrictions.check(way)
    _account(way, store)
    return webhooks.changed(way, store)


def last(way: Way, store: Store) -> None:
    """Let policies and quotas look at it. Refused."""
    policies.check(way, store)
    if way.operation == "CREATE" and way.asked.namespace:
        for quota in store.of(RESOURCES["v1", "resourcequotas"], way.asked.namespace):
            _within(way, quota)


def _namespace(way: Way, store: Store) -> None:
    if not way.asked.namespace or way.operation != "CREATE":
        return
    resource = RESOURCES["v1", "namespaces"]
    found = store.get(resource.path("", way.asked.namespace))
    if found is None:
        raise missing(resource, way.asked.namespace)
    if "deletionTimestamp" in found["metadata"]:
        name = way.asked.namespace
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise way.refused(why, [cause])


def _account(way: Way, store: Store) -> None:
    """A pod runs as an account of its namespace."""
    if (way.asked.what, way.operation) != ("pods", "CREATE"):
        return
    name, space = str(at(way.now, "spec.serviceAccountName") or "default"), way.asked.namespace
    if RESOURCES["v1", "serviceaccounts"].path(space, name) not in store:
        missed = f'serviceaccount "{name}" not found'
        raise way.refused(f"error looking up service account {space}/{name}: {missed}")


def _within(way: Way, quota: Json) -> None:
    counted = f"count/{way.asked.resource.named}"
    hard = at(quota, "status.hard") or {}
    used = (at(quota, "status.used") or {}).get(counted, "0")
    if counted in hard and int(used) + 1 > int(hard[counted]):
        amounts = (
            f"requested: {counted}=1, used: {counted}={used}, limited: {counted}={hard[counted]}"
        )
        raise way.refused(f"exceeded quota: {quota['metadata']['name']}, {amounts}")
