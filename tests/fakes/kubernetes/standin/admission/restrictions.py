# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NodeRestriction: what keeps a kubelet to the objects of its node."""

from __future__ import annotations

import re

from tests.fakes.kubernetes.standin.admission.way import Way
from tests.fakes.kubernetes.standin.selectors import at

RESTRICTED = re.compile(r"(.*\.)?node-restriction\.kubernetes\.io/.*")
KUBERNETES = re.compile(r"(.*\.)?(kubernetes\.io|k8s\.io)/.*")
FREE = re.compile(r"(.*\.)?(kubelet|node)\.kubernetes\.io/.*|kubernetes\.io/(hostname|arch|os)")


def check(way: Way) -> None:
    """Refuse what is not the node's. Refused."""
    node, plural = way.user.node, way.asked.resource.plural
    if plural == "nodes":
        _node(way, node)
    elif plural == "resourceslices" and way.operation in ("CREATE", "DELETE"):
        if at(way.one, "spec.nodeName") != node:
            doing = way.operation.lower()
            raise way.refused(
                f"can only {doing} ResourceSlice with the same NodeName as the requesting node"
            )
    elif way.asked.what == "pods" and at(way.one, "spec.nodeName") != node:
        raise way.refused(f'node "{node}" can only delete pods with spec.nodeName set to itself')


def _node(way: Way, node: str) -> None:
    if way.name != node:
        raise way.refused(f'node "{node}" is not allowed to modify node "{way.name}"')
    if way.before is None or way.now is None:
        return
    if (at(way.before, "spec.taints") or []) != (at(way.now, "spec.taints") or []):
        raise way.refused(f'node "{node}" is not allowed to modify taints')
    was, now = (at(one, "metadata.labels") or {} for one in (way.before, way.now))
    changed = {key for key in {*was, *now} if was.get(key) != now.get(key)}
    if bad := sorted(filter(_reserved, changed)):
        raise way.refused(f"is not allowed to modify labels: {', '.join(bad)}")


def _reserved(label: str) -> bool:
    kubernetes = KUBERNETES.fullmatch(label) and not FREE.fullmatch(label)
    return bool(RESTRICTED.fullmatch(label) or kubernetes)
