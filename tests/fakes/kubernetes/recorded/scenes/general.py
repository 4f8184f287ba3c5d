# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What any request meets: no such page, wrong bodies, lists in parts, and a past that is forgotten."""

from __future__ import annotations

from tests.fakes.kubernetes.recorded.steps import ADMIN, JSON, STRATEGIC, YAML
from tests.fakes.kubernetes.recorded.words import (
    DEFAULT,
    NODE,
    delete,
    forget,
    get,
    made,
    named,
    node,
    patch,
    post,
    put,
    space,
    watch,
)

MAPS = f"{DEFAULT}/configmaps"
PARTS = {"limit": "2"}
META = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def settings(name: str, **data: str) -> dict[str, object]:
    return named("ConfigMap", name, space="default", data=data)


REFUSED = [
    *made(settings("a", x="1")),
    get(ADMIN, "/nothing"),
    get(ADMIN, "/apis/none.example/v1/things"),
    get(ADMIN, "/api/v1/nothings"),
    get(ADMIN, "/apis/resource.k8s.io"),
    get(ADMIN, "/apis/resource.k8s.io/v1", "groupVersion"),
    get(ADMIN, f"{MAPS}/none"),
    get("nobody", f"{MAPS}/a"),
    get("nobody", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    get("stranger", MAPS),
    post(ADMIN, MAPS, "{"),
    post(ADMIN, MAPS, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\n", kind=YAML),
    post(ADMIN, MAPS, settings("b"), kind="text/plain"),
    post(ADMIN, MAPS, {"kind": "ConfigMap", "metadata": {"name": "c"}}),
    post(ADMIN, MAPS, {"apiVersion": "v1", "metadata": {"name": "d"}}),
    post(ADMIN, MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
    post(ADMIN, MAPS, settings("Not_valid")),
    post(ADMIN, MAPS, {**settings("e"), "more": {}}, where={"fieldValidation": "Strict"}),
    post(ADMIN, MAPS, settings("a")),
    post(ADMIN, MAPS, {**settings("f"), "metadata": {"name": "f", "namespace": "other"}}),
    post(ADMIN, MAPS, {**settings("g"), "metadata": {"name": "g", "resourceVersion": "7"}}),
    post(ADMIN, f"{MAPS}/a", settings("a")),
    patch(ADMIN, MAPS, {}),
    patch(ADMIN, f"{MAPS}/a", {"data": {"y": "2"}}, "data", kind=STRATEGIC),
    patch(ADMIN, f"{MAPS}/a", {"data": {"x": None}}, "data"),
    patch(ADMIN, f"{MAPS}/a", {"metadata": {"name": "b"}}),
    delete(ADMIN, f"{MAPS}/a", keep="gone"),
    delete(ADMIN, f"{MAPS}/a"),
    post(ADMIN, "/api/v1/namespaces/none/configmaps", named("ConfigMap", "a", space="none")),
]
REPLACED = [
    post(ADMIN, MAPS, settings("a", x="1"), keep="made"),
    put(ADMIN, f"{MAPS}/a", "made", {"data": {"x": "2"}}, "data"),
    put(ADMIN, f"{MAPS}/a", "made", {"data": {"x": "3"}}),
    put(ADMIN, f"{MAPS}/a", "made", {"metadata": {"resourceVersion": None}}, "data"),
    put(ADMIN, f"{MAPS}/b", "made", {}),
    put(ADMIN, f"{MAPS}/a", "made", {"metadata": {"uid": "another", "resourceVersion": None}}),
    put(ADMIN, f"{MAPS}/b", "made", {"metadata": {"name": "b", "uid": None}}),
    put(ADMIN, f"{MAPS}/c", "made", {"metadata": {"name": "c", "uid": None,
                                                  "resourceVersion": None}}),
]  # fmt: skip
LISTED = [
    *made(*(settings(f"m{number}") for number in range(5)), space("other")),
    get(ADMIN, MAPS, where=PARTS, keep="first"),
    get(ADMIN, MAPS, where={**PARTS, "continue": "$first.metadata.continue"}, keep="second"),
    get(ADMIN, MAPS, where={**PARTS, "continue": "$second.metadata.continue"}),
    get(ADMIN, MAPS, where={"labelSelector": "a=b"}),
    get(ADMIN, MAPS, where={"fieldSelector": "metadata.name=m2"}),
    get(ADMIN, MAPS, where={"fieldSelector": "data.x=1"}),
    get(ADMIN, "/api/v1/configmaps", where={"fieldSelector": "metadata.name=m1"}),
    get(ADMIN, "/api/v1/namespaces/other/configmaps"),
    get(ADMIN, "/api/v1/namespaces/none/configmaps"),
]
PAST = [
    *made(*(settings(f"m{number}") for number in range(3)), node(NODE)),
    get(ADMIN, MAPS, where=PARTS, keep="list"),
    watch(ADMIN, MAPS, 0, where={"resourceVersion": "none"}),
    *made(settings("m3")),
    forget(),
    watch(ADMIN, MAPS, 1, where={"resourceVersion": "1"}),
    get(ADMIN, MAPS, where={"resourceVersion": "1", "resourceVersionMatch": "Exact"}),
    get(ADMIN, MAPS, where={**PARTS, "continue": "$list.metadata.continue"}),
    watch(ADMIN, MAPS, 1, where={"resourceVersion": "$list.metadata.resourceVersion"}),
    get(ADMIN, MAPS, keep="now"),
    watch(ADMIN, MAPS, 1, where={"resourceVersion": "$now.metadata.resourceVersion"},
          during=patch(ADMIN, f"{MAPS}/m0", {"data": {"a": "b"}})),
]  # fmt: skip
ONE = {"fieldSelector": f"metadata.name={NODE}", "allowWatchBookmarks": "true"}
SINCE = {**ONE, "resourceVersion": "$list.metadata.resourceVersion", "timeoutSeconds": "5"}
THEIRS = "/api/v1/nodes/node-2"
# What happens to other objects moves the version on from which a watch goes on.
BOOKMARKED = [
    *made(node(NODE), node("node-2")),
    get(ADMIN, "/api/v1/nodes", keep="list"),
    watch(ADMIN, "/api/v1/nodes", 1, where=SINCE,
          during=patch(ADMIN, THEIRS, {"metadata": {"labels": {"a": "b"}}})),
    get(ADMIN, "/api/v1/nodes", keep="list"),
    watch(ADMIN, "/api/v1/nodes", 1, where=SINCE, accept=META,
          during=patch(ADMIN, THEIRS, {"metadata": {"labels": {"a": "c"}}})),
]  # fmt: skip
SCENES = {
    "refused": REFUSED,
    "replaced": REPLACED,
    "listed": LISTED,
    "past": PAST,
    "bookmarked": BOOKMARKED,
}
__all__ = ["JSON", "SCENES"]
