# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The rights that a kubeconfig's user needs, and the rules of RBAC that grant them."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Right:
    """A verb on a resource of the whole cluster or of a namespace, or on the object of this name alone."""

    verb: str
    resource: str
    group: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{place}"

    @property
    def attributes(self) -> t.Dict[str, str]:
        """Return the resourceAttributes of a SelfSubjectAccessReview."""
        resource, _slash, subresource = self.resource.partition("/")
        attributes = {**vars(self), "resource": resource, "subresource": subresource}
        return {key: value for key, value in attributes.items() if value}


def of_cordon(node: str) -> t.Tuple[Right, ...]:
    """Return the rights to cordon and uncordon a node."""
    return Right("get", "nodes", name=node), Right("patch", "nodes", name=node)


OF_DRAIN = (Right("list", "pods"), Right("create", "pods/eviction"))


def of_trial(node: str, namespace: str) -> t.Tuple[Right, ...]:
    """Return the rights to run pods on a node; pods that have its resources are in all namespaces."""
    verbs = ("create", "get", "delete")
    looks = (Right("get", "nodes", name=node), Right("list", "pods"))
    return looks + tuple(Right(verb, "pods", namespace=namespace) for verb in verbs)


OF_CLAIMS = (Right("get", "resourceclaims", "resource.k8s.io"),)
OF_DAEMONSETS = (Right("get", "daemonsets", "apps"),)


def rules(missing: t.Iterable[Right]) -> str:
    """Return the rules to add to a ClusterRole, as YAML."""
    verbs: t.Dict[t.Tuple[str, str], t.List[str]] = {}
    for right in missing:
        verbs.setdefault((right.group, right.resource), []).append(right.verb)
    return " ".join(
        f'- {{apiGroups: ["{group}"], resources: [{resource}], verbs: [{", ".join(verb)}]}}'
        for (group, resource), verb in verbs.items()
    )
