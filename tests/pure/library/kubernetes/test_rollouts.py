# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A webhook is asked when its pods answer, and nobody waits for it before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.api import MISSING, ApiError
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.capability import (
    ClusterObjectsCapability,
)

Json = dict[str, Any]
APPS, HOOKS = "/apis/apps/v1", "/apis/admissionregistration.k8s.io/v1"
KINDS = {
    "/api/v1": ("configmaps", "ConfigMap", True),
    APPS: ("deployments", "Deployment", True),
    HOOKS: ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False),
}
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "w", "namespace": "n"}}
DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "w", "namespace": "n"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "image": "x"},
}
CONDITIONS = [{"name": "gpus", "expression": "true"}]
HOOK: Json = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "w"},
    "webhooks": [{"name": "w.example.com", "matchConditions": CONDITIONS}],
}
GONE = {"name": "not-yet", "expression": "false"}
THERE, HERE = f"{APPS}/namespaces/n/deployments/w", f"{HOOKS}/mutatingwebhookconfigurations/w"
DONE = {
    "observedGeneration": 1,
    "replicas": 2,
    "updatedReplicas": 2,
    "availableReplicas": 2,
}
NONE = {**DONE, "availableReplicas": 0}


class Api:
    """An API server that takes what is applied. ``statuses`` are the Deployment's, one for each look."""

    server, warnings = "https://api.example.com", ()

    def __init__(self, *statuses: Json) -> None:
        self.objects: dict[str, Json] = {}
        self.statuses, self.done = list(statuses), list[str]()

    def ask(self, doing: str, method: str, path: str, body: Any = None, **more: Any) -> Json:
        if path in KINDS:
            name, kind, namespaced = KINDS[path]
            return {"resources": [{"name": name, "kind": kind, "namespaced": namespaced}]}
        query = more.get("query") or {}
        if method == "GET":
            if path not in self.objects:
                raise ApiError(doing, "not found", MISSING)
            return self._looked_at(path)
        if method == "DELETE":
            self.done.append(f"removed {body and path.rpartition('/')[0].rpartition('/')[2]}")
            return self.objects.pop(path)
        if "dryRun" in query:
            return {**self.objects.get(path, {}), **body}
        meta = {**body["metadata"], "generation": 1}
        meta["managedFields"] = [{"manager": "gpu-node", "operation": "Apply"}]
        self.objects[path] = {**self.objects.get(path, {}), **body, "metadata": meta}
        asks = body.get("webhooks", [{}])[0].get("matchConditions", "")
        self.done.append(f"{body['kind']}{' asks nobody' if asks == [GONE] else ''}")
        return self.objects[path]

    def _looked_at(self, path: str) -> Json:
        if path == THERE and self.statuses:
            self.objects[path]["status"] = self.statuses.pop(0)
        return dict(self.objects[path])

    def labelled_pods(self, namespace: str, label: str, value: str) -> list[Json]:
        assert (namespace, label, value) == ("n", "app", "w")
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        return [{"status": {"containerStatuses": [{"state": waiting}]}}] * 2


class Pauses:
    """As often as nothing moves for ``most`` looks, it is over."""

    def __init__(self, most: int) -> None:
        self.left = most

    @property
    def over(self) -> bool:
        return self.left == 0

    def wait(self) -> None:
        self.left -= 1


def run(api: Api, objects: Iterable[Json], patience: int = 3, **options: Any) -> Plan:
    """Bring the cluster to what is wanted, and return the first plan."""
    params = {
        "objects": list(objects),
        "prune": [],
        "label": "",
        "state": "present",
        "force": False,
    }
    params |= {"field_manager": "gpu-node", "kubeconfig": "", "context": "", **options}
    made: Any = lambda *_named: api  # noqa: E731
    pauses: Any = lambda _deadline: Pauses(patience)  # noqa: E731
    found = ClusterObjectsCapability(params, made, pauses)
    first = found.plan(found.observe())
    for step in first.steps:
        found.apply(step)
    assert found.plan(found.observe()).steps == ()
    return first


def told(plan: Plan) -> list[str]:
    return [step.summary for step in plan.steps]


OBJECTS = (HOOK, SETTINGS, DEPLOYMENT)


def test_a_new_webhook_asks_nobody_until_its_pods_answer() -> None:
    api = Api({}, NONE, {**DONE, "availableReplicas": 1}, DONE)
    assert told(run(api, OBJECTS)) == [
        "make MutatingWebhookConfiguration w, which asks nobody yet",
        "make ConfigMap n/w",
        "make Deployment n/w",
        "wait for Deployment n/w",
        "put in force MutatingWebhookConfiguration w",
    ]
    assert api.done == [
        "MutatingWebhookConfiguration asks nobody",
        "ConfigMap",
        "Deployment",
        "MutatingWebhookConfiguration",
    ]
    assert api.statuses == []
    assert api.objects[HERE]["webhooks"][0]["matchConditions"] == CONDITIONS
    assert told(run(api, OBJECTS)) == []


def test_pods_that_do_not_come_up_end_the_run_before_anybody_is_asked() -> None:
    api = Api(*[NONE] * 9)
    with pytest.raises(NodeError) as error:
        run(api, OBJECTS)
    assert str(error.value).startswith(
        "Deployment n/w is not rolled out, and nothing has moved for 600 seconds: ImagePullBackOff: no such image."
        " Next step: see kubectl --namespace n describe pods --selector app=w, correct it"
    )
    assert api.objects[HERE]["webhooks"][0]["matchConditions"] == [GONE]
    api.statuses = [NONE, NONE, DONE]
    assert told(run(api, OBJECTS)) == [
        "wait for Deployment n/w",
        "change MutatingWebhookConfiguration w",
    ]
    assert api.objects[HERE]["webhooks"][0]["matchConditions"] == CONDITIONS


def test_pods_that_run_and_are_not_ready_say_why_in_their_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = [{"status": {"containerStatuses": [{"state": {"running": {}}}]}}]
    monkeypatch.setattr(Api, "labelled_pods", lambda *_asked: running)
    with pytest.raises(NodeError, match="and kubectl --namespace n logs --selector app=w, correct"):
        run(Api(*[NONE] * 9), OBJECTS)


def test_what_moves_is_waited_for() -> None:
    api = Api(*({**NONE, "replicas": number} for number in range(9)), DONE)
    run(api, OBJECTS, patience=1)
    assert api.statuses == []


def test_a_webhook_that_is_asked_stays_so_while_its_pods_are_replaced() -> None:
    api = Api(DONE)
    run(api, OBJECTS)
    other = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "image": "y"}}
    api.done.clear()
    assert told(run(api, (HOOK, SETTINGS, other))) == [
        "change Deployment n/w",
        "wait for Deployment n/w",
    ]
    renamed = {**HOOK, "webhooks": [{**HOOK["webhooks"][0], "matchConditions": []}]}
    assert told(run(api, (renamed, SETTINGS, other))) == ["change MutatingWebhookConfiguration w"]
    assert "MutatingWebhookConfiguration asks nobody" not in api.done


def test_nobody_waits_for_a_deployment_without_a_webhook() -> None:
    api = Api(*[NONE] * 9)
    assert told(run(api, (SETTINGS, DEPLOYMENT))) == ["make ConfigMap n/w", "make Deployment n/w"]


def test_what_asks_a_webhook_goes_before_its_pods() -> None:
    api = Api(DONE)
    run(api, OBJECTS)
    api.done.clear()
    run(api, OBJECTS, state="absent")
    assert api.done == [
        "removed mutatingwebhookconfigurations",
        "removed deployments",
        "removed configmaps",
    ]
