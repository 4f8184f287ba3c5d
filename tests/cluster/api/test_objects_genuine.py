# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.cluster_objects with a genuine API server: it makes, changes, prunes and removes, and takes from nobody."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.cluster.api.applying import run, summaries
from tests.fakes.kubernetes.administered import KINDS
from tests.fakes.kubernetes.genuine_api import GenuineApi
from tests.support.paths import REPOSITORY
from tests.support.waiting import PAUSE

Json = dict[str, Any]
FOLDER = REPOSITORY / "files/kubernetes/dra"
LABEL = "app.kubernetes.io/part-of=gpu-node"
PRUNE = ["v1/ConfigMap", "v1/Secret", "rbac.authorization.k8s.io/v1/Role", "none.example/v1/Thing"]


def manifest(name: str) -> Json:
    found: Json = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


class Deployed:
    """Stands for controllers and nodes: each Deployment is rolled out as soon as it is there."""

    def __init__(self, cluster: GenuineApi) -> None:
        self._cluster, self._over = cluster, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Deployed:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(PAUSE):
            for one in self._cluster.get("Deployment", namespace="gpu-node")["items"]:
                if (one.get("status") or {}).get("observedGeneration") != one["metadata"][
                    "generation"
                ]:
                    self._roll_out(one["metadata"], one["spec"]["replicas"])

    def _roll_out(self, meta: Json, replicas: int) -> None:
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {"observedGeneration": meta["generation"], **dict.fromkeys(counts, replicas)}
        path = f"{KINDS['Deployment'].format('gpu-node')}/{meta['name']}/status"
        kind = "application/merge-patch+json"
        with contextlib.suppress(ApiError):  # it has gone since
            self._cluster.admin.ask("rolling out", "PATCH", path, {"status": status}, kind=kind)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GenuineApi]:
    with GenuineApi(tmp_path_factory.mktemp("api")) as made, Deployed(made):
        yield made


def test_all_manifests_are_made_once_and_gone_at_the_end(cluster: GenuineApi) -> None:
    names = (
        "device-classes",
        "extended-resource",
        "node-policy",
        "webhook",
        "webhook-self-managed",
        "webhook-network-policy",
    )
    everything = [manifest(name) for name in names]
    shown = run(cluster, *everything, check=True)
    with pytest.raises(ApiError, match="404"):
        cluster.get("Namespace", "gpu-node")
    made = run(cluster, *everything)
    assert summaries(made) == summaries(shown)
    assert summaries(made)[-2:] == [
        "wait for Deployment gpu-node/gpu-node-webhook",
        "put in force MutatingWebhookConfiguration gpu-node-webhook",
    ]
    assert summaries(made)[:3] == [
        f"make DeviceClass {one}.gpu.node" for one in ("gpu", "mig", "share")
    ]
    found = cluster.get("DeviceClass", "gpu.gpu.node")["spec"]
    assert found["extendedResourceName"] == "nvidia.com/gpu"  # the later one counts
    assert summaries(run(cluster, *everything)) == []

    # What the webhook writes is its own.
    path = f"{KINDS['MutatingWebhookConfiguration']}/gpu-node-webhook"
    patch = [
        {"op": "add", "path": f"/webhooks/0/clientConfig/{field}", "value": value}
        for field, value in (("caBundle", "eA=="), ("service/path", "/x"))
    ]
    kind = "application/json-patch+json"
    cluster.admin.ask("writing bundle and path", "PATCH", path, patch, kind=kind)
    assert summaries(run(cluster, *everything)) == []

    changed = json.loads(json.dumps(everything))
    (deployment,) = [one for one in changed[3]["items"] if one["kind"] == "Deployment"]
    deployment["spec"]["replicas"] = 3
    plan = run(cluster, *changed)
    assert summaries(plan) == [
        "change Deployment gpu-node/gpu-node-webhook",
        "wait for Deployment gpu-node/gpu-node-webhook",
    ]
    (before,), (after,) = plan.before.values(), plan.after.values()
    assert (before["spec"]["replicas"], after["spec"]["replicas"]) == (2, 3)
    assert "managedFields" not in before["metadata"]

    pruned = run(cluster, *changed[:4], label=LABEL, prune=PRUNE)
    assert sorted(summaries(pruned)) == [
        "remove Role gpu-node/gpu-node-webhook-tls",
        "remove Secret gpu-node/gpu-node-webhook-tls",
    ]
    gone = run(cluster, *everything, state="absent")
    assert "remove Deployment gpu-node/gpu-node-webhook" in summaries(gone)
    assert gone.warnings == ("Namespace gpu-node stays, as others may have something in it",)
    assert summaries(run(cluster, *everything, state="absent")) == []
    with pytest.raises(ApiError, match="404"):
        cluster.get("DeviceClass", "share.gpu.node")


def settings(**data: str) -> Json:
    meta = {
        "name": "settings",
        "namespace": "default",
        "labels": {"app.kubernetes.io/part-of": "gpu-node"},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def test_nothing_is_taken_from_others(cluster: GenuineApi) -> None:
    cluster.create(settings(theirs="1"))
    with pytest.raises(NodeError, match=r"ConfigMap default/settings has other values.*force"):
        run(cluster, settings(theirs="2"))
    left = run(cluster, settings(theirs="1"), state="absent")
    assert left.warnings == ("ConfigMap default/settings stays, as others have made it",)
    assert summaries(run(cluster, manifest("device-classes"), label=LABEL, prune=PRUNE))
    assert cluster.get("ConfigMap", "settings", "default")["data"] == {"theirs": "1"}
    assert summaries(run(cluster, settings(theirs="2"), force=True)) == [
        "change ConfigMap default/settings"
    ]
    run(cluster, settings(), state="absent")
    run(cluster, manifest("device-classes"), state="absent")


def test_all_is_tried_before_anything_changes(cluster: GenuineApi) -> None:
    wrong = manifest("extended-resource")
    wrong["spec"]["extendedResource"] = "a typing error"
    with pytest.raises(
        NodeError, match=r"nothing was changed.*refuses DeviceClass x.*extendedResource"
    ):
        run(
            cluster,
            manifest("device-classes"),
            settings(a="1"),
            {**wrong, "metadata": {"name": "x"}},
        )
    with pytest.raises(NodeError, match=r"has no Issuer of cert-manager\.io/v1.*install"):
        run(cluster, settings(a="1"), manifest("webhook-cert-manager"))
    with pytest.raises(ApiError, match="404"):
        cluster.get("ConfigMap", "settings", "default")


def test_no_difference_shows_a_secret(cluster: GenuineApi) -> None:
    meta = {"name": "secret", "namespace": "default"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "data": {"key": "aHVudGVyMg=="},
    }
    plan = run(cluster, secret)
    assert "aHVudGVyMg==" not in str((plan.before, plan.after))
    other = run(cluster, {**secret, "data": {"key": "b3RoZXI="}})
    assert summaries(other) == ["change Secret default/secret"]
    assert "b3RoZXI=" not in str((other.before, other.after))


def play(cluster: GenuineApi, *options: str, **variables: Any) -> str:
    """Run the playbook as a user does, and return what it prints."""
    words = ["ansible-playbook", "--inventory", "one,two,", "gpu.node.fractions", *options]
    given = {"gpu_nodes_hosts": "all", "gpu_nodes_kubeconfig": "admin.conf", **variables}
    words += ["--extra-vars", json.dumps(given)]
    done = subprocess.run(words, cwd=cluster.folder, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_playbook_gives_a_cluster_all_and_takes_it_back(
    cluster: GenuineApi,
) -> None:
    image = "registry.example.com/gpu-node-webhook@sha256:" + "1" * 64
    assert "fractions_image: '' is not valid" in play(cluster)
    hami = "nvidia:\n  defaultMem: 2000\n"
    wanted = {"fractions_image": image, "fractions_device_config": hami}
    shown = play(cluster, "--check", "--diff", **wanted)
    assert "changed=1" in shown
    assert "+DeviceClass gpu.gpu.node" in shown.replace("+    DeviceClass", "+DeviceClass")
    assert cluster.get("DeviceClass")["items"] == []
    made = play(cluster, **wanted)
    assert "changed=1" in made
    pod = cluster.get("Deployment", "gpu-node-webhook", "gpu-node")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == image
    told = cluster.get("ConfigMap", "gpu-node-webhook-hami", "gpu-node")["data"]
    assert told["device-config.yaml"] == hami
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "hami"]
    assert told["HAMI_DEVICE_CONFIG"] == f"{mount['mountPath']}/device-config.yaml"
    assert "changed=0" in play(cluster, **wanted)
    renamed = {
        **wanted,
        "fractions_device_config": "nvidia: {resourceMemoryName: a.io/mem, defaultMemory: 5000}",
        "fractions_count_alone": "share",
        "fractions_hami_schedulers": ["hami-scheduler", "4pd-scheduler"],
    }
    assert "changed=1" in play(cluster, **renamed)
    (hook,) = cluster.get("MutatingWebhookConfiguration", "gpu-node-webhook")["webhooks"]
    (condition,) = hook["matchConditions"]
    assert '"a.io/mem"' in condition["expression"]
    assert "changed=0" in play(cluster, **renamed)
    assert "changed=1" in play(cluster, **wanted)
    plain = play(cluster, fractions_webhook=False, fractions_extended_resource=False)
    assert "changed=1" in plain
    assert "extendedResourceName" not in cluster.get("DeviceClass", "gpu.gpu.node")["spec"]
    with pytest.raises(ApiError, match="404"):
        cluster.get("MutatingWebhookConfiguration", "gpu-node-webhook")
    assert "changed=1" in play(cluster, **wanted)
    assert "changed=1" in play(cluster, fractions_state="absent", fractions_webhook=False)
    for kind in ("DeviceClass", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"):
        assert cluster.get(kind)["items"] == []
    assert cluster.get("Deployment", namespace="gpu-node")["items"] == []
    settings = cluster.get("ConfigMap", namespace="gpu-node")["items"]
    assert [one["metadata"]["name"] for one in settings] == []
    assert "changed=0" in play(cluster, fractions_state="absent")


def test_the_playbook_lets_named_api_servers_alone_reach_the_webhook(cluster: GenuineApi) -> None:
    wanted = {"fractions_image": "registry.example.com/gpu-node-webhook@sha256:" + "1" * 64}
    refused = play(cluster, fractions_api_servers=["10.0.0.10"], **wanted)
    assert "fractions_api_servers: '10.0.0.10' is not valid: expected an address" in refused
    servers = ["10.0.0.10/32", "fd00::1/128"]
    assert "changed=1" in play(cluster, fractions_api_servers=servers, **wanted)
    (policy,) = cluster.get("NetworkPolicy", namespace="gpu-node")["items"]
    first = policy["spec"]["ingress"][0]["from"]
    assert [one["ipBlock"]["cidr"] for one in first if "ipBlock" in one] == servers
    assert "changed=1" in play(cluster, **wanted)
    assert cluster.get("NetworkPolicy", namespace="gpu-node")["items"] == []
    assert "changed=1" in play(cluster, fractions_state="absent")
