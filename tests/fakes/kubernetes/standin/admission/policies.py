# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Policies that refuse what they are told to, by expressions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fakes.kubernetes.standin.admission import cel
from tests.fakes.kubernetes.standin.admission.way import POLICIES, Way
from tests.fakes.kubernetes.standin.answers import Refused
from tests.fakes.kubernetes.standin.resources import RESOURCES
from tests.fakes.kubernetes.standin.selectors import at
from tests.fakes.kubernetes.standin.store import Store

Json = dict[str, Any]
CODES = {"Forbidden": 403, "Invalid": 422, "Unauthorized": 401}


def check(way: Way, store: Store) -> None:
    """Let all policies look at a request that are bound. Refused."""
    for binding in store.of(RESOURCES[POLICIES, "validatingadmissionpolicybindings"]):
        policy = store.get(_policy(binding["spec"]["policyName"]))
        selector = at(binding, "spec.matchResources.namespaceSelector")
        if policy is not None and way.within(selector, store):
            _policed(way, policy, binding)


def _policy(name: str) -> str:
    return RESOURCES[POLICIES, "validatingadmissionpolicies"].path("", name)


def _policed(way: Way, policy: Json, binding: Json) -> None:
    spec = policy["spec"]
    if not any(way.matches(rule) for rule in spec["matchConstraints"]["resourceRules"]):
        return
    variables = way.variables()
    if not all(
        cel.value(one["expression"], variables) for one in spec.get("matchConditions") or ()
    ):
        return
    named = dict(_named(spec, variables))
    for one in spec["validations"]:
        if not cel.value(one["expression"], {**variables, "variables": named}):
            raise _denied(way, one, policy, binding, {**variables, "variables": named})


def _named(spec: Json, variables: Json) -> Iterator[tuple[str, Any]]:
    known: dict[str, Any] = {}
    for one in spec.get("variables") or ():
        known[one["name"]] = cel.value(one["expression"], {**variables, "variables": known})
        yield one["name"], known[one["name"]]


def _denied(way: Way, one: Json, policy: Json, binding: Json, variables: Json) -> Refused:
    said = one.get("message", f"failed expression: {one['expression']}")
    if "messageExpression" in one:
        said = cel.value(one["messageExpression"], variables)
    names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
    text = f"ValidatingAdmissionPolicy {names} denied request: {said}"
    refused = way.refused(text, [{"message": text}])
    reason = one.get("reason", "Invalid")
    return Refused(CODES[reason], refused.message, refused.details, reason)
