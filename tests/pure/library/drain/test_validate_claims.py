# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A pod with a claim of each class that a node with DRA publishes, one after the other."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.validate_pods import (
    capability as validate_pods,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate_pods.capability import (
    ValidatePodsCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine import asking
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.api import ApiError
from ansible_collections.gpu.node.plugins.module_utils._cluster.rights import Right
from ansible_collections.gpu.node.plugins.module_utils._generated.validate_pods import SPEC

from tests.fakes.clock import Clock

Json = t.Dict[str, t.Any]
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
UNPLACED = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 cannot allocate all claims.",
        }
    ],
}


def device(kind: str) -> Json:
    return {"name": f"gpu-0-{kind}", "attributes": {"type": {"string": kind}}}


def piece(*kinds: str, driver: str = "gpu.node") -> Json:
    return {"spec": {"driver": driver, "devices": [device(kind) for kind in kinds]}}


class Api:
    """A cluster of one node: what it has, what is asked of it, and how pods fare by the class of their claims."""

    server, named = "https://here", "admin.conf"
    warnings = ()

    def __init__(self, *slices: Json, labelled: bool = True) -> None:
        self.labels = {"gpu.node/allocation": "dra"} if labelled else {}
        self.slices, self.claims, self.found = list(slices), {}, {}  # type: ignore[var-annotated]
        self.fates: t.Dict[str, Json] = {}
        self.others: t.List[Json] = []
        self.log: t.List[str] = []
        self.forbidden: t.Set[str] = set()

    def node(self, _name: str) -> Json:
        return {"metadata": {"labels": self.labels}, "status": {"allocatable": {}}}

    def pods(self, _node: str) -> t.List[Json]:
        return self.others

    def labelled_pods(self, *_words: str) -> t.List[Json]:
        return []

    def allowed(self, right: Right) -> bool:
        return right.resource not in self.forbidden

    def ask(self, _doing: str, method: str, path: str, body: t.Any = None, **more: t.Any) -> Json:
        if path.endswith("/resourceslices"):
            assert more["query"] == {"fieldSelector": "spec.nodeName=worker-1"}
            return {"items": self.slices}
        assert path.startswith(CLAIMS)
        if method == "POST":
            name = f"{body['metadata']['generateName']}{len(self.log)}"
            self.claims[name] = {**body, "metadata": {**body["metadata"], "name": name, "uid": "1"}}
            self.log.append(f"+ {body['spec']['devices']['requests'][0]['exactly']}")
            return self.claims[name]
        if method == "DELETE":
            self.log.append("- claim")
            if self.claims.pop(path.rpartition("/")[2], None) is None:
                raise ApiError("removing", "404", 404)
            return {}
        return {"items": list(self.claims.values())}

    def create_pod(self, _namespace: str, pod: Json) -> Json:
        (named,) = pod["spec"]["resourceClaims"]
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["claims"] == [{"name": named["name"]}]
        assert not any(key.startswith("nvidia.com/") for key in container["resources"]["limits"])
        claim = self.claims[named["resourceClaimName"]]
        wish = claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"]
        meta = {**pod["metadata"], "name": "pod", "uid": "7"}
        self.found = {**pod, "metadata": meta, "status": self.fates.get(wish, {"phase": "Running"})}
        return self.found

    def pod(self, *_words: str) -> Json:
        return self.found

    def delete_pod(self, *_words: str) -> None:
        self.log.append("- pod")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no test wait for a pod."""
    clock = Clock()
    for module in (asking, validate_pods):
        monkeypatch.setattr(module, "time", clock)


def look(api: Api, *, check_mode: bool = False) -> t.Dict[str, str]:
    params = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}
    params.update(node="worker-1", image="pause", timeout=1)
    made = ValidatePodsCapability(params, check_mode=check_mode, connect=lambda *_words: api)  # type: ignore[arg-type,return-value]
    return {
        one.name.removeprefix("pod with "): f"{one.state} {one.cause}".strip()
        for one in made.observe().checks
    }


def test_a_pod_with_each_class_one_after_the_other() -> None:
    api = Api(piece("gpu", "share"), piece("mig"), piece("nic", driver="nic.example.com"))
    assert look(api) == dict.fromkeys(("gpu.gpu.node", "mig.gpu.node", "share.gpu.node"), "passed")
    assert api.log == [
        *("+ {'deviceClassName': 'gpu.gpu.node'}", "- pod", "- claim"),
        *("+ {'deviceClassName': 'mig.gpu.node'}", "- pod", "- claim"),
        "+ {'deviceClassName': 'share.gpu.node', 'capacity': {'requests': {'memory': '512Mi'}}}",
        *("- pod", "- claim"),
    ]
    assert api.claims == {}


def test_what_does_not_run_is_told_and_nothing_is_left() -> None:
    api = Api(piece("gpu", "share"))
    api.fates["gpu.gpu.node"] = UNPLACED
    found = look(api)
    assert found["gpu.gpu.node"].startswith("failed Unschedulable, 0/1 nodes are available")
    assert found["share.gpu.node"] == "passed"
    assert api.claims == {}


def test_what_pods_with_claims_have_is_left_to_them() -> None:
    api = Api(piece("gpu"))
    api.fates["gpu.gpu.node"] = UNPLACED
    api.others = [
        {"spec": {"resourceClaims": [{}], "containers": []}, "status": {"phase": "Running"}}
    ]
    assert look(api) == {"gpu.gpu.node": "skipped pods with claims have what there is of it"}
    api.fates["gpu.gpu.node"] = {"phase": "Failed", "reason": "Error"}
    assert look(api)["gpu.gpu.node"].startswith("failed Error")


def test_claims_that_a_killed_run_left_are_removed() -> None:
    api = Api(piece("gpu"))
    meta = {"name": "left", "uid": "1", "annotations": {"gpu.node/validates": "worker-1"}}
    others = {"name": "other", "uid": "1", "annotations": {"gpu.node/validates": "worker-2"}}
    api.claims = {"left": {"metadata": meta}, "other": {"metadata": others}}
    look(api)
    assert list(api.claims) == ["other"]


def test_check_mode_makes_no_claim() -> None:
    api = Api(piece("share"))
    assert look(api, check_mode=True) == {"share.gpu.node": "skipped no pod is made in check mode"}
    assert api.log == []


def test_a_node_without_dra_is_asked_nothing_more() -> None:
    api = Api(piece("share"), labelled=False)
    api.forbidden = {"resourceslices", "resourceclaims"}
    assert look(api)["pods"].startswith("failed the node has no resource of NVIDIA's allocatable")
    api.labels = {"gpu.node/allocation": "both"}
    with pytest.raises(NodeError, match=r"list resourceslices, create resourceclaims"):
        look(api)
