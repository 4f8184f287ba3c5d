# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An API server that asks the webhook for each pod."""

from __future__ import annotations

import base64
import re
import signal

import pytest

from tests.fakes.cluster.hami_pods import limits, pod
from tests.fakes.kubernetes.webhook_cluster import SECRETS, Cluster, Load, Replica
from tests.support.waiting import LIMIT, eventually

SHARE = pod(limits(gpu=1, gpumem=3000, gpucores=30))


@pytest.fixture
def pair(cluster: Cluster) -> list[Replica]:
    """Two replicas, both ready."""
    access = cluster.least()
    made = [cluster.replica(name, kubeconfig=access) for name in ("one", "two")]
    for one in made:
        one.wait()
    return made


def mutated(one: Replica) -> float:
    """Return how many pods a replica has changed."""
    found = re.search(r'reviews_total{result="mutated"} ([0-9.]+)', one.page("/metrics")[1])
    return float(found[1]) if found else 0.0


def test_a_hami_pod_is_admitted_with_a_claim(cluster: Cluster, pair: list[Replica]) -> None:
    made = [cluster.pod(SHARE) for _each in range(4)]
    (name,) = {one["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] for one in made}
    assert list(cluster.templates()) == [name]
    resources = made[0]["spec"]["containers"][0]["resources"]
    assert resources["claims"] == [{"name": "gpu-main-0"}]
    assert set(resources["limits"].values()) == {"0"}
    assert sum(mutated(one) for one in pair) == 4


@pytest.mark.attack("webhook-templates-for-anybody")
def test_api_servers_are_told_a_path_that_nobody_guesses(
    cluster: Cluster, pair: list[Replica]
) -> None:
    """Both replicas have one, and another one where somebody has taken the first away."""
    first = kept_path(cluster)
    assert len(first) == 64
    assert cluster.path() == f"/{first}"
    for one in pair:
        assert one.status(f"/{first}") == 400  # no review, but heard
        assert [one.status(path) for path in ("/", "/mutate", f"/{first[:-1]}")] == [404] * 3
    merge = "application/merge-patch+json"
    secret = f"{SECRETS}/gpu-node-webhook-path"
    cluster.admin.ask("emptying", "PATCH", secret, {"data": None}, kind=merge)
    eventually(lambda: cluster.path() not in ("", f"/{first}"))
    eventually(lambda: {one.status(cluster.path()) for one in pair}, {400})
    assert cluster.path() == f"/{kept_path(cluster)}"
    eventually(lambda: "resourceClaims" in cluster.pod(SHARE)["spec"])


def kept_path(cluster: Cluster) -> str:
    data = cluster.read(f"{SECRETS}/gpu-node-webhook-path")["data"]
    return base64.b64decode(data["paths"]).decode()


def test_a_dry_run_makes_nothing(cluster: Cluster, pair: list[Replica]) -> None:
    before = cluster.templates()
    made = cluster.pod(pod(limits(gpu=1, gpumem=3111)), dry=True)
    assert made["spec"]["resourceClaims"]
    assert cluster.templates() == before


def test_what_cannot_be_is_refused_by_its_field(cluster: Cluster, pair: list[Replica]) -> None:
    error = cluster.refusal(pod(limits(gpu=1, gpumem_percentage=101)))
    assert error.status == 422
    assert "limits[nvidia.com/gpumem-percentage]: 101 can't be" in str(error)


def test_no_pod_fails_while_one_of_two_replicas_ends(cluster: Cluster, pair: list[Replica]) -> None:
    with Load(cluster, SHARE) as load:
        load.more()
        first = pair[0]
        first.process.send_signal(signal.SIGTERM)
        eventually(lambda: first.page("/readyz")[0] != 200)
        cluster.balancer.backends.remove(first.port)  # as EndpointSlices do
        assert first.process.wait(LIMIT) == 0
        load.more()
    assert load.failed == []


def test_without_a_replica_the_failure_policy_counts(cluster: Cluster) -> None:
    cluster.alone()
    cluster.policy("Fail")
    assert "failed calling webhook" in str(cluster.refusal(SHARE))
    cluster.policy("Ignore")
    made = cluster.pod(SHARE)  # it waits for a resource that no node has: pending, never unlimited
    cluster.policy("Fail")
    assert "nvidia.com/gpumem" in made["spec"]["containers"][0]["resources"]["limits"]
    assert "resourceClaims" not in made["spec"]
