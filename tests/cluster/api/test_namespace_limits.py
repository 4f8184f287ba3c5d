# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods with HAMi's resources in namespaces that have LimitRanges and ResourceQuotas, on a genuine API server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._cluster import trial
from gpu_plugin._shared._base.dra.names import GPU, GPU_CLASS, MIG, MIG_CLASS, SHARE, SHARE_CLASS
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.fakes.cluster.hami_pods import Json, limits, pod
from tests.fakes.kubernetes.webhook_cluster import DRA, Cluster, GenuineCluster
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

COUNT, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
SHARES = f"{SHARE_CLASS}.deviceclass.resource.k8s.io/devices"
THREE_GB = pod(limits(gpu=1, gpumem=3000))
NAMES = (f"team-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with GenuineCluster(tmp_path_factory.mktemp("api")) as cluster:
        for name, device_type in ((GPU_CLASS, GPU), (SHARE_CLASS, SHARE), (MIG_CLASS, MIG)):
            extended = {"extendedResourceName": COUNT} if name == GPU_CLASS else {}
            expression = f"device.attributes['gpu.node'].type == '{device_type}'"
            spec = {"selectors": [{"cel": {"expression": expression}}], **extended}
            body = {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
            cluster.post(f"{DRA}/deviceclasses", {"apiVersion": "resource.k8s.io/v1", **body})
        manifest = yaml.safe_load((REPOSITORY / "files/kubernetes/dra/webhook.yaml").read_text())
        (conditions,) = (
            item["webhooks"][0]["matchConditions"]
            for item in manifest["items"]
            if item["kind"] == "MutatingWebhookConfiguration"
        )
        patch = {"op": "add", "path": "/webhooks/0/matchConditions", "value": conditions}
        cluster.configure([patch])
        cluster.replica("one", kubeconfig=cluster.least()).wait()
        eventually(lambda: "resourceClaims" in cluster.pod(THREE_GB)["spec"])
        yield cluster


def namespace(cluster: Cluster, *objects: Json, **labels: str) -> str:
    """Create a namespace with these objects and labels, and return its name."""
    name = next(NAMES)
    metadata = {"name": name, "labels": labels}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for item in [{"kind": "ServiceAccount", "metadata": {"name": "default"}}, *objects]:
        metadata = {**item["metadata"], "namespace": name}
        cluster.create({"apiVersion": "v1", **item, "metadata": metadata})
    return name


def limit_range(scope: str = "Container", **fields: Any) -> Json:
    """Return a LimitRange with one item."""
    spec = {"limits": [{"type": scope, **fields}]}
    return {"kind": "LimitRange", "metadata": {"name": "caps"}, "spec": spec}


def defaults(**amounts: str) -> Json:
    """Return a LimitRange with defaults; names have an underscore in place of the prefix."""
    named = limits(**amounts)
    return limit_range(default=named, defaultRequest=named)


def quota(hard: Json, **spec: Any) -> Json:
    return {"kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard, **spec}}


def refusal(cluster: Cluster, asking: Json, name: str) -> str:
    """Return why a pod is refused."""
    return cluster.refusal(asking, name).detail


def claims(admitted: Json) -> list[str]:
    return [claim["name"] for claim in admitted["spec"].get("resourceClaims") or ()]


def amounts(admitted: Json) -> set[str]:
    """Return the amounts of HAMi's resources that are left in a pod."""
    return {
        value
        for container in admitted["spec"]["containers"]
        for part in ("limits", "requests")
        for name, value in (container.get("resources", {}).get(part) or {}).items()
        if name.startswith("nvidia.com/")
    }


@pytest.mark.parametrize(
    "limit",
    [
        defaults(gpu="1"),
        defaults(gpumem="4000"),
        defaults(gpucores="20"),
        limit_range(max={COUNT: "1"}),
        limit_range(max={MEMORY: "8000"}),
        limit_range("Pod", max={COUNT: "1"}),
        limit_range(default={"cpu": "1"}),
    ],
    ids=["gpu", "gpumem", "gpucores", "max gpu", "max gpumem", "max of pods", "other"],
)
def test_a_pod_gets_one_claim_whatever_a_limit_range_adds(cluster: Cluster, limit: Json) -> None:
    admitted = cluster.pod(THREE_GB, namespace(cluster, limit))
    assert claims(admitted) == ["gpu-main-0"]
    assert amounts(admitted) == {"0"}


def test_a_default_of_memory_is_a_share_as_under_hami(cluster: Cluster) -> None:
    admitted = cluster.pod(pod({}), namespace(cluster, defaults(gpumem="4000")))
    assert claims(admitted) == ["gpu-main-0"]


@pytest.mark.parametrize(
    "asking",
    [
        pod(limits(gpu=4)),
        pod(limits(gpu=4, gpucores=100)),
        pod(limits(gpu=4), annotations={"nvidia.com/use-gputype": "A100"}),
        pod(limits(gpu=3, gpumem_percentage=100)),
    ],
    ids=["plain", "cores", "type", "percentage"],
)
def test_a_maximum_of_gpus_holds_for_claims(cluster: Cluster, asking: Json) -> None:
    two = limit_range(max={COUNT: "2"}, default={COUNT: "0"}, defaultRequest={COUNT: "0"})
    message = refusal(cluster, asking, namespace(cluster, two))
    assert "maximum nvidia.com/gpu" in message or "LimitRange caps allows at most 2" in message


def test_a_maximum_of_memory_holds_for_claims(cluster: Cluster) -> None:
    name = namespace(cluster, limit_range(max={MEMORY: "2000"}))
    assert f"limits[{MEMORY}]: 3000 can't be: LimitRange caps allows at most 2" in refusal(
        cluster, THREE_GB, name
    )


def test_a_maximum_of_a_pod_is_that_of_all_its_containers(cluster: Cluster) -> None:
    name = namespace(cluster, limit_range("Pod", max={MEMORY: "5000"}))
    share = limits(gpu=1, gpumem=3000)
    message = refusal(cluster, pod(share, share), name)
    assert "LimitRange caps allows at most 5k for a pod, and this pod asks for 6000" in message
    assert claims(cluster.pod(pod(share, init=(share,)), name))


def test_a_minimum_is_refused_with_the_way_on(cluster: Cluster) -> None:
    name = namespace(cluster, limit_range(min={MEMORY: "1000"}))
    assert f"take {MEMORY} out of the minimum" in refusal(cluster, THREE_GB, name)


@pytest.mark.parametrize("resource", [MEMORY, CORES])
def test_a_quota_that_counts_no_claims_is_named(cluster: Cluster, resource: str) -> None:
    name = namespace(cluster, quota({f"requests.{resource}": "100000"}))
    message = refusal(cluster, THREE_GB, name)
    assert f"ResourceQuota team limits requests.{resource}, which counts no claims" in message
    assert f"limit {SHARES} in the place of requests.{resource}" in message


@pytest.mark.parametrize("scopes", [{}, {"scopes": ["NotBestEffort"]}], ids=["all", "scoped"])
def test_a_quota_of_gpus_needs_one_of_shares(cluster: Cluster, scopes: Json) -> None:
    name = namespace(cluster, quota({f"requests.{COUNT}": "0"}, **scopes))
    assert f"ResourceQuota team limits requests.{COUNT}" in refusal(cluster, THREE_GB, name)
    name = namespace(cluster, quota({f"requests.{COUNT}": "1", SHARES: "1"}))
    assert claims(cluster.pod(THREE_GB, name)) == ["gpu-main-0"]


def test_a_quota_of_gpus_counts_whole_gpus_of_the_class_that_stands_for_them(
    cluster: Cluster,
) -> None:
    name = namespace(cluster, quota({f"requests.{COUNT}": "1"}))
    whole = pod(limits(gpu=1, gpucores=100))
    assert claims(cluster.pod(whole, name)) == ["gpu-main-0"]


def test_quotas_of_other_resources_change_nothing(cluster: Cluster) -> None:
    name = namespace(cluster, quota({"pods": "5", "count/resourceclaims.resource.k8s.io": "5"}))
    assert claims(cluster.pod(THREE_GB, name)) == ["gpu-main-0"]


def test_pod_security_admits_what_the_webhook_makes_of_a_restricted_pod(cluster: Cluster) -> None:
    name = namespace(cluster, **{"pod-security.kubernetes.io/enforce": "restricted"})
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "main",
        "image": "cuda",
        "resources": {"limits": limits(gpu=1, gpumem=3000)},
    }
    assert claims(cluster.pod(pod({**container, "securityContext": context}), name)) == ["gpu-main"]
    assert "violates PodSecurity" in refusal(cluster, pod(container), name)


def test_validation_pods_are_admitted_where_a_quota_wants_cpu_and_memory(cluster: Cluster) -> None:
    hard = {
        "limits.cpu": "10",
        "limits.memory": "10Gi",
        "requests.cpu": "1",
        "requests.memory": "1Gi",
    }
    name = namespace(cluster, quota(hard))
    path = f"/api/v1/namespaces/{name}/resourcequotas/team/status"
    status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    merge = "application/merge-patch+json"
    cluster.admin.ask("counting", "PATCH", path, status, kind=merge)
    validation = trial.manifest("node-1", COUNT, name, "cuda", [], 60)
    for asking in (validation, trial.with_claim(validation, "claim")):
        assert cluster.post(f"/api/v1/namespaces/{name}/pods", asking)


@pytest.fixture(scope="module")
def policy(cluster: Cluster) -> str:
    """Have a policy set memory in each pod of some namespaces, also after the webhook; return their label."""
    label = "sets-memory"
    key = MEMORY.replace("/", "~1")
    operations = ", ".join(
        f'JSONPatch{{op: "add", path: "/spec/containers/0/resources/{part}/{key}", value: "4000"}}'
        for part in ("limits", "requests")
    )
    expression = f"[{operations}]"
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "resourceRules": [pods],
            "namespaceSelector": {"matchLabels": {label: "yes"}},
        },
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    group = "admissionregistration.k8s.io/v1"
    kinds = {
        "MutatingAdmissionPolicy": spec,
        "MutatingAdmissionPolicyBinding": {"policyName": label},
    }
    for kind, fields in kinds.items():
        resource = "mutatingadmissionpolicies" if kind.endswith("Policy") else f"{kind.lower()}s"
        body = {"apiVersion": group, "kind": kind, "metadata": {"name": label}, "spec": fields}
        cluster.post(f"/apis/{group}/{resource}", body)
    name = namespace(cluster, **{label: "yes"})
    plain = pod({"name": "main", "image": "cuda", "resources": {"limits": {"cpu": "1"}}})
    eventually(lambda: "resourceClaims" in cluster.pod(plain, name)["spec"])
    return label


def test_a_policy_that_runs_again_adds_no_claim(cluster: Cluster, policy: str) -> None:
    admitted = cluster.pod(THREE_GB, namespace(cluster, **{policy: "yes"}))
    assert claims(admitted) == ["gpu-main-0"]
    assert amounts(admitted) == {"0"}


@pytest.mark.parametrize("seed", range(20))
def test_random_limits_and_policies_leave_one_claim_for_a_container(
    cluster: Cluster, policy: str, seed: int
) -> None:
    random = Random(seed)
    names = (COUNT, MEMORY, CORES)

    def some(*values: str) -> Json:
        return {name: random.choice(values) for name in names if random.random() < 0.4}

    maximum = some("1", "50", "5000")
    default = {name: value for name, value in some("0", "1").items() if name not in maximum}
    hard = {f"requests.{name}": value for name, value in some("0", "9000").items()}
    objects = [limit_range(max=maximum, default=default, defaultRequest=default)]
    objects += [quota(hard | random.choice([{}, {SHARES: "100"}]))] if hard else []
    labels = {policy: "yes"} if random.random() < 0.5 else {}
    name = namespace(cluster, *objects, **labels)
    wished = limits(gpu=random.choice([1, 2]), gpumem=random.choice([1000, 6000]))
    asking = pod(wished, limits(gpumem=2000), annotations={"nvidia.com/vgpu-mode": "hami-core"})
    try:
        admitted = cluster.pod(asking, name)
    except ApiError:
        return
    containers = admitted["spec"]["containers"]
    assert all(len(one["resources"].get("claims", ())) <= 1 for one in containers)
    if claims(admitted):
        assert amounts(admitted) == {"0"}
        assert not {f"requests.{MEMORY}", f"requests.{CORES}"} & {*hard}
        assert int(maximum.get(COUNT, "9")) >= wished[COUNT]
        assert int(maximum.get(MEMORY, "9000")) >= 2000
