# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A genuine API server that asks the webhook for each pod."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from gpu_plugin.cluster.errors import ApiError

from tests.fakes.cluster.hami_pods import limits, pod
from tests.fakes.kubernetes.webhook_cluster import Cluster, Replica, wait

SHARE = pod(limits(gpu=1, gpumem=3000, gpucores=30))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("api"))
    yield made
    made.stop()


@pytest.fixture
def replicas(cluster: Cluster) -> Iterator[list[Replica]]:
    """Two replicas, both ready."""
    made = [cluster.replica(name, kubeconfig=cluster.least()) for name in ("one", "two")]
    for one in made:
        one.wait()
    yield made
    for one in made:
        if one.process.poll() is None:
            one.stop()
    cluster.balancer.backends.clear()
    cluster.policy("Fail")


def mutated(one: Replica) -> float:
    """Return how many pods a replica has changed."""
    found = re.search(r'reviews_total{result="mutated"} ([0-9.]+)', one.page("/metrics")[1])
    return float(found[1]) if found else 0.0


def test_a_hami_pod_is_admitted_with_a_claim(cluster: Cluster, replicas: list[Replica]) -> None:
    made = [cluster.pod(SHARE) for _each in range(4)]
    (name,) = {one["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] for one in made}
    assert list(cluster.templates()) == [name]
    assert made[0]["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu-main-0"}]}
    assert sum(mutated(one) for one in replicas) == 4


def test_a_dry_run_makes_nothing(cluster: Cluster, replicas: list[Replica]) -> None:
    before = cluster.templates()
    made = cluster.pod(pod(limits(gpu=1, gpumem=3111)), dry=True)
    assert made["spec"]["resourceClaims"]
    assert cluster.templates() == before


def test_what_cant_be_is_refused_by_its_field(cluster: Cluster, replicas: list[Replica]) -> None:
    error = cluster.refusal(pod(limits(gpu=1, gpumem_percentage=101)))
    assert error.status == 422
    assert "limits[nvidia.com/gpumem-percentage]: 101 can't be" in str(error)


def test_one_replica_ends_and_no_pod_waits(cluster: Cluster, replicas: list[Replica]) -> None:
    failed: list[ApiError] = []
    over = threading.Event()

    def create() -> None:
        while not over.is_set():
            try:
                cluster.pod(SHARE)
            except ApiError as error:
                failed.append(error)

    threads = [threading.Thread(target=create) for _each in range(2)]
    for one in threads:
        one.start()
    try:
        time.sleep(1)
        first = replicas[0]
        first.process.send_signal(signal.SIGTERM)
        wait(lambda: first.page("/readyz")[0] == 503, first.log)
        cluster.balancer.backends.remove(first.port)  # as EndpointSlices do
        assert first.process.wait(30) == 0
        time.sleep(1)
    finally:
        over.set()
        for one in threads:
            one.join()
    assert failed == []


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_no_replica_is_there(cluster: Cluster, policy: str) -> None:
    cluster.policy(policy)
    if policy == "Fail":
        assert "failed calling webhook" in str(cluster.refusal(SHARE))
        return
    made = cluster.pod(SHARE)  # it waits for a resource that no node has: pending, never unlimited
    assert made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] == "3k"
    assert "resourceClaims" not in made["spec"]
