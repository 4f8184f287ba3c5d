# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the admission policies of our manifests refuse, and what they let through."""

from __future__ import annotations

from tests.fakes.kubernetes.recorded.scenes.accounts import (
    DRA,
    EVENTS,
    FEATURE,
    FEATURES,
    LABELS,
    crd,
    event,
)
from tests.fakes.kubernetes.recorded.scenes.slices import slice_of
from tests.fakes.kubernetes.recorded.steps import ADMIN, Json
from tests.fakes.kubernetes.recorded.words import (
    KUBELET,
    NEIGHBOUR,
    NODE,
    OTHER,
    SLICES,
    delete,
    get,
    made,
    manifest,
    node,
    patch,
    post,
    put,
    space,
)

OURS = {"name": f"gpu.node/{NODE}", "generation": 1, "resourceSliceCount": 1}
POOL = {"spec": {"pool": {"name": "elsewhere"}}}
NEWER = {"spec": {"pool": {"generation": 2}}}


def elsewhere(name: str) -> Json:
    pool = {"name": "elsewhere", "generation": 1, "resourceSliceCount": 1}
    return slice_of(name, pool=pool)


SLICES_OF_OURS = [
    *made(node(NODE), node(OTHER), *manifest("dra/node-rbac"), *manifest("dra/node-policy")),
    post(ADMIN, SLICES, slice_of("admins"), until=403, where={"dryRun": "All"}),
    post(ADMIN, SLICES, slice_of("admins")),
    post(ADMIN, SLICES, slice_of("example", driver="gpu.example.com"), keep="example"),
    post(KUBELET, SLICES, slice_of("mine"), keep="mine"),
    post(KUBELET, SLICES, elsewhere("wrong")),
    post(KUBELET, SLICES, slice_of("named", pool=OURS)),
    post(KUBELET, SLICES, slice_of("wrong", OTHER)),
    put(KUBELET, f"{SLICES}/mine", "mine", NEWER, keep="newer", until=200),
    put(KUBELET, f"{SLICES}/mine", "newer", POOL),
    put(DRA, f"{SLICES}/mine", "newer", {"metadata": {"labels": {"a": "b"}}}, until=200),
    put(ADMIN, f"{SLICES}/mine", "newer", {"metadata": {"resourceVersion": None}}),
    post(DRA, SLICES, slice_of("accounts")),
    post(DRA, SLICES, slice_of("wrong", OTHER)),
    post(DRA, SLICES, elsewhere("wrong")),
    post(DRA, SLICES, slice_of("wrong", driver="gpu.example.com")),
    put(DRA, f"{SLICES}/example", "example", {"spec": {"devices": []}}),
    delete(DRA, f"{SLICES}/example"),
    post(NEIGHBOUR, SLICES, slice_of("theirs", OTHER), keep="theirs"),
    put(DRA, f"{SLICES}/theirs", "theirs", {"spec": {"devices": []}}),
    delete(DRA, f"{SLICES}/theirs"),
    delete(KUBELET, f"{SLICES}/theirs"),
    delete(KUBELET, f"{SLICES}/accounts", until=200),
    delete(ADMIN, f"{SLICES}/theirs"),
    delete(ADMIN, f"{SLICES}/example"),
    get(ADMIN, SLICES),
]
AT = {"metadata": {"labels": {"nfd.node.kubernetes.io/node-name": OTHER}}}
LABELS_OF_A_NODE = [
    *made(node(NODE), node(OTHER), space("node-feature-discovery"), crd(), until=201),
    *made(*(one for one in manifest("node-labels-rbac") if one["kind"] != "NodeFeature")),
    *made(
        *(one for one in manifest("node-labels-rbac") if one["kind"] == "NodeFeature"), until=201
    ),
    get(LABELS, FEATURE, keep="feature", until=200),
    put(LABELS, FEATURE, "feature", AT, until=422),
    put(LABELS, FEATURE, "feature", {"metadata": {"labels": None}}),
    put(LABELS, FEATURE, "feature", {"spec": {"labels": {"a": "b"}}}, "spec"),
    post(ADMIN, FEATURES, {**manifest("node-labels-rbac", OTHER)[1], **AT}),
    post(ADMIN, EVENTS, event("theirs", OTHER)),
    post(LABELS, EVENTS, event("a", OTHER), until=422),
    post(LABELS, EVENTS, event("b", kind="Pod")),
    post(LABELS, EVENTS, event("ours")),
    patch(LABELS, f"{EVENTS}/theirs", {"message": "y"}),
    patch(LABELS, f"{EVENTS}/theirs", {"involvedObject": {"name": NODE}}),
    patch(LABELS, f"{EVENTS}/ours", {"involvedObject": {"name": OTHER}}),
    patch(LABELS, f"{EVENTS}/ours", {"count": 2}, "count"),
]
SCENES = {"policy-of-slices": SLICES_OF_OURS, "policies-of-labels": LABELS_OF_A_NODE}
