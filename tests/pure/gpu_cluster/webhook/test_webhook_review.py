# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reviews of what no API server sends, and of what is too much."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from gpu_cluster.webhook import limits, review
from gpu_cluster.webhook.admission import Admission
from gpu_cluster.webhook.budget import Late, OverLimit
from gpu_cluster.webhook.review import ReviewError
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.fakes.cluster.hami_pods import MPS_NODES, SETTINGS, Json, pod
from tests.fakes.cluster.hami_pods import limits as amounts
from tests.fakes.kubernetes.reviews import asked, unlimited

SHARE = amounts(gpu=1, gpumem=100)


class Templates:
    """Counts what is made. ``fails`` is raised instead."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.made, self.fails = 0, fails

    def ensure(self, *_words: Any) -> bool:
        if self.fails is not None:
            raise self.fails
        self.made += 1
        return True


def decided(one: Json, templates: Templates | None = None, **more: Any) -> Json:
    """Return the answer to the creation of a pod."""
    taken = templates or Templates()
    admission = Admission(
        SETTINGS, taken, lambda: MPS_NODES, unlimited, ("kube-system", "gpu-node")
    )  # type: ignore[arg-type]
    found: Json = admission.answer(asked(one, **more))["response"]
    return found


def spec(**fields: Any) -> Json:
    return {"metadata": {"name": "p"}, "spec": fields}


@pytest.mark.attack("webhook-kept-busy")
@pytest.mark.parametrize(
    "one",
    [
        spec(containers=5),
        spec(containers=[5]),
        spec(containers=[None]),
        spec(containers={"name": "a"}),
        spec(containers=[{"name": 5}]),
        spec(containers=[{"resources": []}]),
        spec(containers=[{"resources": {"limits": []}}]),
        spec(containers=[{"resources": {"limits": {"nvidia.com/gpu": {"a": "b"}}}}]),
        spec(containers=[{"resources": {"limits": {"nvidia.com/gpu": [[["x"]]]}}}]),
        spec(containers=[{"resources": {"claims": ["a"]}}]),
        spec(containers=[{"env": [5]}]),
        spec(containers=[{"securityContext": "privileged"}]),
        spec(initContainers=[{"restartPolicy": {}}]),
        spec(resourceClaims=["a"]),
        spec(nodeName=["a"]),
        {"spec": []},
        {"metadata": {"annotations": {"a": 5}}},
        {"metadata": {"annotations": ["a"]}},
    ],
)
def test_what_no_api_server_sends_is_no_review(one: Json) -> None:
    with pytest.raises(ReviewError, match="the object is no Pod"):
        review.read(asked(one))


@pytest.mark.attack("webhook-kept-busy")
@pytest.mark.parametrize("one", [{}, {"name": "a"}])
def test_what_has_more_parts_than_a_pod_is_not_parsed(one: Json) -> None:
    def body(count: int) -> bytes:
        return asked(spec(containers=[{"name": "a", "env": [one] * count}]))

    marks = sum(map(str(one).replace("'", '"').count, '{["'))
    with pytest.raises(ReviewError, match="more objects, lists and texts than a pod has"):
        review.read(body(limits.MOST_MARKS // marks + 1))
    assert review.read(body(limits.MOST_MARKS // marks - 100))


def test_what_api_servers_leave_empty_is_read() -> None:
    empty = {"name": "a", "resources": {}, "env": None, "securityContext": {}}
    one = {"metadata": {"annotations": None}, "spec": {"containers": [empty], "nodeName": ""}}
    assert review.read(asked(one)).pod == one


def many(count: int) -> Json:
    return pod(*(amounts(gpu=1, gpumem=100 + number) for number in range(count)))


@pytest.mark.attack("webhook-templates-for-anybody")
@pytest.mark.parametrize("dry", [False, True])
def test_more_different_templates_than_the_most_are_refused_and_none_is_made(dry: bool) -> None:
    templates = Templates()
    told = decided(many(limits.MOST_TEMPLATES + 1), templates, dryRun=dry)
    assert not told["allowed"]
    assert told["status"]["code"] == 422
    assert f"at most {limits.MOST_TEMPLATES}. Next step: let its" in told["status"]["message"]
    assert templates.made == 0
    assert decided(many(limits.MOST_TEMPLATES), templates, dryRun=dry)["allowed"]
    assert templates.made == (0 if dry else limits.MOST_TEMPLATES)


@pytest.mark.attack("webhook-templates-for-anybody")
@pytest.mark.parametrize("space", ["kube-system", "gpu-node"])
def test_nothing_is_made_in_the_namespaces_of_the_cluster_and_of_the_webhook(space: str) -> None:
    """The configuration leaves them out; somebody who reaches the port names any."""
    templates = Templates()
    told = decided(pod(SHARE), templates, namespace=space)
    assert (told["allowed"], told["status"]["code"]) == (False, 403)
    assert templates.made == 0
    assert decided(pod(amounts()), namespace=space) == {"uid": "u", "allowed": True}


def test_what_a_namespace_may_not_have_is_told_by_its_status() -> None:
    told = decided(pod(SHARE), Templates(OverLimit("too many", 429)))
    again = {"retryAfterSeconds": limits.COME_AGAIN}
    assert not told["allowed"]
    assert told["status"] == {"code": 429, "message": "too many", "details": again}
    told = decided(pod(SHARE), Templates(ApiError("making", "quota", status=403)))
    assert told["status"]["code"] == 403
    assert "details" not in told["status"]
    told = decided(pod(SHARE), Templates(ApiError("making", "the connection ended")))
    assert (told["status"]["code"], told["status"]["details"]) == (503, again)


@pytest.mark.attack("webhook-kept-busy")
def test_who_works_on_a_review_looks_at_its_deadline() -> None:
    """After it was read, before each container, the namespace's limits, and each template."""
    one, looks = many(3), list[int]()

    def look() -> None:
        looks.append(1)
        if len(looks) > 7:
            raise Late

    templates = Templates()
    admission = Admission(SETTINGS, templates, lambda: MPS_NODES, unlimited)  # type: ignore[arg-type]
    with pytest.raises(Late):
        admission.answer(asked(one), look)
    assert templates.made == 2


def test_a_patch_is_of_what_was_asked() -> None:
    patch = json.loads(base64.b64decode(decided(pod(SHARE))["patch"]))
    assert "/spec/resourceClaims" in {one["path"] for one in patch}
