# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manifests of DRA fit the driver and one another, and give no more rights than are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._base.dra import names

from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "files/kubernetes/dra"
PATHS = sorted(FOLDER.rglob("*.yaml"))
Json = dict[str, Any]


def objects(path: Path) -> list[Json]:
    found = yaml.safe_load(path.read_text())
    return list(found["items"]) if found["kind"] == "List" else [found]


EVERYTHING = [one for path in PATHS for one in objects(path)]
SHIPPED = [one for path in PATHS if path.parent == FOLDER for one in objects(path)]


def of(kind: str, name: str = "") -> list[Json]:
    found = [one for one in SHIPPED if one["kind"] == kind]
    return [one for one in found if not name or one["metadata"]["name"] == name]


def test_each_class_takes_the_devices_of_one_type() -> None:
    classes = {one["metadata"]["name"]: one for one in objects(FOLDER / "device-classes.yaml")}
    assert list(classes) == [names.GPU_CLASS, names.MIG_CLASS, names.SHARE_CLASS]
    for kind, one in zip(names.TYPES, classes.values(), strict=True):
        (selector,) = one["spec"]["selectors"]
        expression = selector["cel"]["expression"]
        assert f"device.driver == '{names.DRIVER}'" in expression
        assert f"device.attributes['{names.DRIVER}'].type == '{kind}'" in expression
    (extended,) = objects(FOLDER / "extended-resource.yaml")
    resource = extended["spec"].pop("extendedResourceName")
    assert resource == "nvidia.com/gpu"
    assert extended == classes[names.GPU_CLASS]  # but for that


def test_the_examples_ask_for_classes_that_are_there() -> None:
    asked = [
        request["exactly"]["deviceClassName"]
        for one in EVERYTHING
        if one["kind"] == "ResourceClaimTemplate"
        for request in one["spec"]["spec"]["devices"]["requests"]
    ]
    assert sorted(asked) == [names.GPU_CLASS, names.MIG_CLASS, names.SHARE_CLASS]


def rules() -> list[tuple[str, Json]]:
    roles = [*of("Role"), *of("ClusterRole")]
    return [(one["metadata"]["name"], rule) for one in roles for rule in one["rules"]]


@pytest.mark.attack("rights-of-the-webhook")
def test_no_right_is_for_everything() -> None:
    for name, rule in rules():
        words = [word for some in rule.values() for word in some]
        assert not [word for word in words if "*" in word], name
        if {"secrets", "mutatingwebhookconfigurations"} & set(rule["resources"]):
            assert rule["resourceNames"], name
            assert not {"create", "list", "delete"} & set(rule["verbs"]), name
    node = {word for name, rule in rules() if "NODE" in name for word in rule["resources"]}
    assert node == {"nodes", "resourceslices", "resourceclaims"}


def test_each_role_has_somebody_and_each_account_is_there() -> None:
    accounts = {
        (one["metadata"]["namespace"], one["metadata"]["name"]) for one in of("ServiceAccount")
    }
    bound = [*of("RoleBinding"), *of("ClusterRoleBinding")]
    for one in bound:
        (subject,) = one["subjects"]
        assert (subject["namespace"], subject["name"]) in accounts
    named = {one["roleRef"]["name"] for one in bound}
    assert named == {one["metadata"]["name"] for one in (*of("Role"), *of("ClusterRole"))}


@pytest.mark.attack("rights-of-the-webhook")
def test_the_webhook_never_looks_at_what_keeps_the_cluster_alive() -> None:
    (found,) = of("MutatingWebhookConfiguration")
    (hook,) = found["webhooks"]
    spaces = hook["namespaceSelector"]["matchExpressions"]
    (left_out,) = [one for one in spaces if one["key"] == "kubernetes.io/metadata.name"]
    assert left_out["operator"] == "NotIn"
    assert set(left_out["values"]) == {"kube-system", "gpu-node"}
    ignore = {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}
    assert ignore in spaces
    assert hook["objectSelector"]["matchExpressions"] == [ignore]
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Fail", "NoneOnDryRun")
    assert "caBundle" not in hook["clientConfig"]  # which the webhook or cert-manager writes
    assert "path" not in hook["clientConfig"]["service"]  # which the webhook writes
    (condition,) = hook["matchConditions"]
    for resource in ("gpu", "gpumem", "gpumem-percentage", "gpucores", "priority"):
        assert condition["expression"].count(f'"nvidia.com/{resource}"') == 2


def test_the_network_policy_is_about_the_webhooks_pods_and_their_ports() -> None:
    (policy,), (deployment,) = of("NetworkPolicy"), of("Deployment")
    template = deployment["spec"]["template"]
    selected = policy["spec"]["podSelector"]["matchLabels"]
    assert selected.items() <= template["metadata"]["labels"].items()
    assert policy["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    reviews, metrics = policy["spec"]["ingress"]
    (container,) = template["spec"]["containers"]
    ports = [one["name"] for one in container["ports"]]
    assert [one["ports"][0]["port"] for one in (reviews, metrics)] == ports == ["https", "metrics"]
    assert reviews["from"][0] == {
        "ipBlock": {"cidr": "192.0.2.0/32"}
    }  # nobody, until they are named


def test_the_webhook_survives_the_loss_of_a_node() -> None:
    (deployment,) = of("Deployment")
    spec = deployment["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (budget,) = of("PodDisruptionBudget")
    labels = spec["template"]["metadata"]["labels"]
    for selector in (
        spec["selector"]["matchLabels"],
        budget["spec"]["selector"]["matchLabels"],
        of("Service")[0]["spec"]["selector"],
    ):
        assert selector.items() <= labels.items()
    assert "podAntiAffinity" in spec["template"]["spec"]["affinity"]


@pytest.mark.attack("rights-of-the-webhook")
def test_the_webhook_runs_without_any_privilege() -> None:
    (deployment,) = of("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not [one for one in pod["volumes"] if "hostPath" in one]
    name = container["image"].partition("@")[0]
    containerfile = (FOLDER.parents[2] / "files/gpu_plugin/Containerfile").read_text()
    assert f"--target webhook --tag {name}" in containerfile
    assert "AS webhook\n" in containerfile
    for space in of("Namespace"):
        assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_certificates_by_cert_manager_are_where_the_webhook_looks() -> None:
    (certificate,) = of("Certificate")
    (deployment,) = of("Deployment")
    (settings,) = of("ConfigMap", "gpu-node-webhook")
    pod = deployment["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "tls"]
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "tls"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    files = settings["data"].values()
    assert {Path(one).parent for one in files} == {Path(mount["mountPath"])}
    (service,) = of("Service")
    meta = service["metadata"]
    assert f"{meta['name']}.{meta['namespace']}.svc" in certificate["spec"]["dnsNames"]
    (hook,) = of("MutatingWebhookConfiguration")
    injected = hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    place = certificate["metadata"]
    assert injected == f"{place['namespace']}/{place['name']}"


@pytest.mark.parametrize("one", SHIPPED, ids=lambda one: one["metadata"]["name"])
def test_what_a_user_applies_for_the_cluster_is_marked_as_ours(one: Json) -> None:
    if "NODE" in str(one["metadata"]) or "NODE" in str(one.get("roleRef")):
        return  # made for one node, by hand
    if one["kind"] == "Namespace" and one not in objects(FOLDER / "webhook.yaml"):
        return
    assert one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "gpu-node"
