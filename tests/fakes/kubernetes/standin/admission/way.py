# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A request on its way in, as those see it that look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.kubernetes.standin.answers import Refused, not_admitted
from tests.fakes.kubernetes.standin.authorizers import User
from tests.fakes.kubernetes.standin.resources import RESOURCES, Asked
from tests.fakes.kubernetes.standin.selectors import at, matches
from tests.fakes.kubernetes.standin.store import Store

Json = dict[str, Any]
POLICIES = "admissionregistration.k8s.io/v1"
OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
OPERATIONS["deletecollection"] = "DELETE"


@dataclass(frozen=True)
class Way:
    """A request with the object as it was and as it is to be, None where there is none."""

    user: User
    asked: Asked
    before: Json | None
    now: Json | None
    dry: bool = False

    @property
    def operation(self) -> str:
        return OPERATIONS[self.asked.verb]

    @property
    def name(self) -> str:
        return self.asked.name or str(at(self.now, "metadata.name") or "")

    @property
    def one(self) -> Json:
        """The object that it is about."""
        found = self.now or self.before
        assert found is not None
        return found

    def refused(self, why: str, causes: list[Json] | None = None) -> Refused:
        """Say that it is not let in."""
        return not_admitted(self.asked.resource, self.name, why, causes or [])

    def matches(self, rule: Mapping[str, Any]) -> bool:
        """Return whether a rule of a webhook or a policy is about it."""
        group, _slash, version = self.asked.resource.api.rpartition("/")
        return all(
            word in rule[key] or "*" in rule[key]
            for key, word in (
                ("apiGroups", group),
                ("apiVersions", version),
                ("resources", self.asked.what),
                ("operations", self.operation),
            )
        )

    def within(self, selector: Mapping[str, Any] | None, store: Store) -> bool:
        """Return whether its namespace is one that a webhook or a policy selects."""
        space = store.get(RESOURCES["v1", "namespaces"].path("", self.asked.namespace)) or {}
        return matches(at(space, "metadata.labels") or {}, selector)

    def variables(self) -> dict[str, Any]:
        """Return what an expression about it knows."""
        user = {"username": self.user.name, "groups": list(self.user.groups)}
        about = {"operation": self.operation, "userInfo": user, "namespace": self.asked.namespace}
        return {"object": self.now, "oldObject": self.before, "request": about}
