# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who may ask for what: the Node authorizer, and RBAC by the roles that there are.

As in Kubernetes, a node is told nothing of objects that have nothing to do with it, whether they are there or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.kubernetes.standin.resources import RESOURCES, Asked
from tests.fakes.kubernetes.standin.selectors import at
from tests.fakes.kubernetes.standin.store import Store

Json = dict[str, Any]
RBAC = "rbac.authorization.k8s.io/v1"
READ = {"get", "list", "watch"}
# What a node may do whatever its name is; admission bounds it further.
OF_NODES = {
    ("services", *READ),
    ("events", "create", "update", "patch"),
    ("pods/status", "update", "patch"),
    ("pods/eviction", "create"),
}


@dataclass(frozen=True)
class User:
    """Who asks, and the groups."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """The name of the node whose kubelet it is."""
        return self.name.removeprefix("system:node:") if "system:nodes" in self.groups else ""


ADMIN = User("admin", ("system:masters",))


def kubelet(node: str) -> User:
    """Return the kubelet of a node."""
    return User(f"system:node:{node}", ("system:nodes",))


def account(name: str, namespace: str) -> User:
    """Return a ServiceAccount."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def refusal(user: User, asked: Asked, fields: Mapping[str, str], store: Store) -> str | None:
    """Return why somebody may not ask for something, None where it is allowed."""
    if "system:masters" in user.groups or asked.what == "selfsubjectaccessreviews":
        return None
    said = ""
    if user.node:
        said = _of_node(user.node, asked, fields, store)
        if said == "allowed":
            return None
    return None if any(allows(rule, asked) for rule in _rules(user, asked, store)) else said


# --- the Node authorizer ---


def _of_node(node: str, asked: Asked, fields: Mapping[str, str], store: Store) -> str:
    special = {
        "resourceclaims": _of_claim,
        "resourceslices": _of_slice,
        "nodes": _of_own,
        "pods": _of_pod,
        "secrets": _of_reading,
        "configmaps": _of_reading,
    }.get(asked.resource.plural)
    if special is not None:
        return special(node, asked, fields, store)
    rules = [rule for rule in OF_NODES if rule[0] == asked.what]
    return "allowed" if any(asked.verb in rule[1:] for rule in rules) else ""


def _no_relation(node: str) -> str:
    return f"no relationship found between node '{node}' and this object"


def _of_claim(node: str, asked: Asked, _fields: Mapping[str, str], store: Store) -> str:
    if asked.verb != "get":
        return "can only get individual resources of this type"
    if asked.subresource:
        return "cannot get subresource"
    used = asked.name in {name for pod in _pods(node, asked, store) for name in _claims(pod)}
    return "allowed" if used else _no_relation(node)


def _pods(node: str, asked: Asked, store: Store) -> list[Json]:
    every = store.of(RESOURCES["v1", "pods"], asked.namespace)
    return [one for one in every if at(one, "spec.nodeName") == node]


def _claims(pod: Json) -> Iterator[str]:
    """Yield the names of a pod's claims; of a template's its status knows the name."""
    made = {one["name"]: one for one in at(pod, "status.resourceClaimStatuses") or ()}
    for one in at(pod, "spec.resourceClaims") or ():
        found = one.get("resourceClaimName") or made.get(one["name"], {}).get("resourceClaimName")
        if found:
            yield found
    if extended := at(pod, "status.extendedResourceClaimStatus.resourceClaimName"):
        yield extended


def _of_slice(node: str, asked: Asked, fields: Mapping[str, str], store: Store) -> str:
    if asked.verb == "create":
        return "allowed"
    if asked.verb in ("get", "update", "patch", "delete"):
        mine = at(store.get(asked.path), "spec.nodeName") == node
        return "allowed" if mine else _no_relation(node)
    if fields.get("spec.nodeName") == node:
        return "allowed"
    return "can only list/watch/deletecollection resourceslices with nodeName field selector"


def _of_own(node: str, asked: Asked, _fields: Mapping[str, str], _store: Store) -> str:
    verbs = {"update", "patch"} if asked.subresource == "status" else {"create", "update", "patch"}
    if asked.verb in verbs:
        return "allowed"  # and admission looks at the name
    if asked.subresource or asked.verb not in READ:
        return ""
    if asked.name == node:
        return "allowed"
    whose = f"'{asked.name}'" if asked.name else "all nodes"
    return f"node '{node}' cannot read {whose}, only its own Node object"


def _of_pod(node: str, asked: Asked, fields: Mapping[str, str], store: Store) -> str:
    if asked.subresource:
        rules = [rule for rule in OF_NODES if rule[0] == asked.what]
        return "allowed" if any(asked.verb in rule[1:] for rule in rules) else ""
    if asked.verb == "get" or (asked.verb in READ and asked.name):
        mine = at(store.get(asked.path), "spec.nodeName") == node
        return "allowed" if mine else _no_relation(node)
    if asked.verb in READ:
        if fields.get("spec.nodeName") == node:
            return "allowed"
        return "can only list/watch pods with spec.nodeName field selector"
    return "allowed" if asked.verb in ("create", "delete") else ""


def _of_reading(node: str, asked: Asked, _fields: Mapping[str, str], _store: Store) -> str:
    if asked.verb not in READ:
        return "can only read resources of this type"
    if not asked.namespace:
        return "can only read namespaced object of this type"
    return _no_relation(node) if asked.name else "No Object name found"


# --- roles ---


def allows(rule: Json, asked: Asked) -> bool:
    """Return whether a rule of a role allows something; a name that is not known is none."""
    return (
        _has(rule.get("verbs"), asked.verb)
        and _has(rule.get("apiGroups"), asked.resource.group)
        and _has(rule.get("resources"), asked.what)
        and ("resourceNames" not in rule or asked.name in rule["resourceNames"])
    )


def _has(words: list[str] | None, word: str) -> bool:
    return word in (words or ()) or "*" in (words or ())


def _rules(user: User, asked: Asked, store: Store) -> Iterator[Json]:
    """Yield the rules of the roles that somebody has, where it is asked."""
    for one in store.of(RESOURCES[RBAC, "clusterrolebindings"]):
        if _bound(user, one):
            yield from _role(one["roleRef"], "", store)
    if asked.namespace:
        for one in store.of(RESOURCES[RBAC, "rolebindings"], asked.namespace):
            if _bound(user, one):
                yield from _role(one["roleRef"], asked.namespace, store)


def _bound(user: User, binding: Json) -> bool:
    return any(_subject(one) in (user.name, *user.groups) for one in binding.get("subjects", ()))


def _subject(one: Json) -> str:
    if one["kind"] == "ServiceAccount":
        return account(one["name"], one["namespace"]).name
    return str(one["name"])


def _role(ref: Json, namespace: str, store: Store) -> list[Json]:
    plural = f"{ref['kind'].lower()}s"
    within = "" if ref["kind"] == "ClusterRole" else namespace
    found = store.get(RESOURCES[RBAC, plural].path(within, ref["name"])) or {}
    return list(found.get("rules") or ())
