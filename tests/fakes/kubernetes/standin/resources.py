# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What kinds of objects an API server has, and what a request is about."""

from __future__ import annotations

import re
from dataclasses import dataclass

BOUND, FREE = True, False  # to a namespace, or not
KINDS: dict[str, dict[str, bool]] = {
    "v1": {
        "Node": FREE,
        "Namespace": FREE,
        "Pod": BOUND,
        "Event": BOUND,
        "Secret": BOUND,
        "Service": BOUND,
        "ConfigMap": BOUND,
        "ServiceAccount": BOUND,
        "LimitRange": BOUND,
        "ResourceQuota": BOUND,
    },
    "apps/v1": {"DaemonSet": BOUND, "Deployment": BOUND},
    "networking.k8s.io/v1": {"NetworkPolicy": BOUND},
    "policy/v1": {"PodDisruptionBudget": BOUND},
    "resource.k8s.io/v1": {
        "DeviceClass": FREE,
        "ResourceSlice": FREE,
        "ResourceClaim": BOUND,
        "ResourceClaimTemplate": BOUND,
    },
    "rbac.authorization.k8s.io/v1": {
        "ClusterRole": FREE,
        "ClusterRoleBinding": FREE,
        "Role": BOUND,
        "RoleBinding": BOUND,
    },
    "admissionregistration.k8s.io/v1": {
        "MutatingWebhookConfiguration": FREE,
        "ValidatingAdmissionPolicy": FREE,
        "ValidatingAdmissionPolicyBinding": FREE,
    },
    "apiextensions.k8s.io/v1": {"CustomResourceDefinition": FREE},
    "nfd.k8s-sigs.io/v1alpha1": {"NodeFeature": BOUND},
    "authorization.k8s.io/v1": {"SelfSubjectAccessReview": FREE},
}
WORDS = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)/(?P<rest>.+)")
VERBS = {"PATCH": "patch", "PUT": "update", "POST": "create"}


@dataclass(frozen=True)
class Resource:
    """A kind of object, by its group and version and its name in paths."""

    api: str
    kind: str
    bound: bool

    @property
    def plural(self) -> str:
        return plural(self.kind)

    @property
    def group(self) -> str:
        return self.api.rpartition("/")[0]

    @property
    def named(self) -> str:
        """Its name as refusals have it."""
        return ".".join(filter(None, (self.plural, self.group)))

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return where an object is, or all of them."""
        root = "/apis/" if self.group else "/api/"
        within = f"/namespaces/{namespace}" if self.bound and namespace else ""
        return f"{root}{self.api}{within}/{self.plural}{'/' + name if name else ''}"


def plural(kind: str) -> str:
    """Return a kind's name in paths."""
    word = kind.lower()
    if word.endswith("class"):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


RESOURCES = {
    (api, plural(kind)): Resource(api, kind, bound)
    for api, kinds in KINDS.items()
    for kind, bound in kinds.items()
}


def collection(api: str, kind: str, namespace: str = "") -> str:
    """Return the path of the objects of a kind."""
    return RESOURCES[api, plural(kind)].path(namespace)


@dataclass(frozen=True)
class Asked:
    """What a request is about, as an authorizer sees it."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def what(self) -> str:
        """The resource, with the part of it that is asked for."""
        return "/".join(filter(None, (self.resource.plural, self.subresource)))

    @property
    def path(self) -> str:
        """Where the object is, or its collection."""
        return self.resource.path(self.namespace, self.name)


def read(method: str, path: str, watching: bool = False) -> Asked | None:
    """Return what a request is about; None where there is no such page."""
    found = WORDS.fullmatch(path)
    if found is None:
        return None
    api = f"{found['group']}/{found['version']}" if found["group"] else found["version"]
    words = found["rest"].split("/")
    namespace = ""
    if words[0] == "namespaces" and len(words) > 2 and (api, words[2]) in RESOURCES:
        namespace, words = words[1], words[2:]
    resource = RESOURCES.get((api, words[0]))
    if resource is None or len(words) > 3 or (namespace and not resource.bound):
        return None
    name, subresource = (*words[1:], "", "")[:2]
    return Asked(_verb(method, name, watching), resource, namespace, name, subresource)


def _verb(method: str, name: str, watching: bool) -> str:
    if method == "GET":
        return "get" if name else ("watch" if watching else "list")
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return VERBS.get(method, method.lower())
