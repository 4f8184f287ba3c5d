# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates that are renewed, over or not there, and webhooks that are slow: what a genuine API server does."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.cluster.errors import ApiError
from gpu_plugin.webhook.certificates import issue, plan
from gpu_plugin.webhook.certificates.managed import CONFIGURATIONS, Managed, Places
from gpu_plugin.webhook.certificates.values import Pair

from tests.fakes.cluster.hami_pods import Json, limits, pod
from tests.fakes.kubernetes.webhook_cluster import NAME, SECRET, SPACE, Cluster, wait

DAY = 86400.0
HOST = f"{NAME}.{SPACE}.svc"
NAMES = (HOST, f"{HOST}.cluster.local", "127.0.0.1")
SHARE = pod(limits(gpu=1, gpumem=3000, gpucores=30))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("api"))
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def nobody(cluster: Cluster) -> Iterator[None]:
    cluster.balancer.backends.clear()
    yield
    cluster.balancer.backends.clear()


def is_left_alone(made: Json) -> bool:
    """Tell whether a pod waits for a resource that no node has."""
    limit = made["spec"]["containers"][0]["resources"].get("limits", {})
    return "nvidia.com/gpumem" in limit and "resourceClaims" not in made["spec"]


def trust(cluster: Cluster, bundle: str) -> None:
    value = base64.b64encode(bundle.encode()).decode()
    patch: Json = [  # type: ignore[assignment]
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": value}
    ]
    path, kind = f"{CONFIGURATIONS}/{NAME}", "application/json-patch+json"
    cluster.admin.ask("patching", "PATCH", path, patch, kind=kind)
    time.sleep(1)


def write(folder: Path, pair: Pair) -> tuple[str, ...]:
    """Write a pair as kubelets do for Secrets, and return the flags that name it."""
    paths = folder / "tls.crt", folder / "tls.key"
    for path, text in zip(paths, (pair.certificate, pair.key), strict=True):
        temporary = path.with_suffix(".new")
        temporary.write_text(text)
        temporary.replace(path)
    return ("--tls-cert-file", str(paths[0]), "--tls-private-key-file", str(paths[1]))


class Load:
    """Pods that are created all the time, and how often that failed."""

    def __init__(self, cluster: Cluster) -> None:
        self.created, self.failed = 0, list[ApiError]()
        self._over = threading.Event()
        self._cluster = cluster
        self._thread = threading.Thread(target=self._create)
        self._thread.start()

    def _create(self) -> None:
        while not self._over.wait(0.02):
            try:
                assert not is_left_alone(self._cluster.pod(SHARE))
                self.created += 1
            except ApiError as error:
                self.failed.append(error)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def test_an_authority_is_renewed_and_no_pod_fails(cluster: Cluster) -> None:
    """Both are due when two replicas start; the five minutes and the hour of waiting are skipped."""
    now = time.time()
    authority = issue.authority("old", now - 0.7 * issue.AUTHORITY_DAYS * DAY)
    leaf = issue.serving(authority, NAMES, now - 61 * DAY)
    texts = (authority.certificate, authority.key, leaf.certificate, leaf.key)
    names = ("ca.crt", "ca.key", "tls.crt", "tls.key")
    data = {
        key: base64.b64encode(one.encode()).decode() for key, one in zip(names, texts, strict=True)
    }
    merge = "application/merge-patch+json"
    cluster.admin.ask("seeding", "PATCH", SECRET, {"data": data}, kind=merge)
    own = cluster.least()
    replicas = [cluster.replica(f"renewed-{n}", kubeconfig=own) for n in range(2)]
    try:
        for one in replicas:
            one.wait()
        before = {one.certificate() for one in replicas}
        assert len(before) == 1
        bundle = base64.b64decode(cluster.bundle()).decode()
        assert len(issue.facts(bundle)) == 2
        assert authority.certificate in bundle
        load = Load(cluster)
        try:
            mine = Managed(cluster.admin, Places(SPACE, f"{NAME}-tls", NAME, NAMES))
            served = mine.look(time.time() + plan.KNOWN + 1).certificate
            assert served != leaf.certificate
            wait(lambda: {one.certificate() for one in replicas}.isdisjoint(before))
            mine.look(time.time() + plan.KNOWN + plan.FORGET + 60)
            last = base64.b64decode(cluster.bundle()).decode()
            assert len(issue.facts(last)) == 1
            assert authority.certificate not in last
            created = load.created
            wait(lambda: load.created > created + 20)
        finally:
            load.end()
        assert load.failed == []
    finally:
        for one in replicas:
            one.stop()


def test_a_certificate_that_is_over(cluster: Cluster, tmp_path: Path) -> None:
    now = time.time()
    authority = issue.authority("files", now - 100 * DAY)
    trust(cluster, authority.certificate)
    flags = write(tmp_path, issue.serving(authority, NAMES, now - 91 * DAY))
    replica = cluster.replica("over", *flags)
    try:
        wait(lambda: replica.page("/readyz") == (503, "the certificate is over\n"), replica.log)
        cluster.policy("Fail")
        told = str(cluster.refusal(SHARE))
        assert "failed calling webhook" in told
        assert "tls: " in told  # the rest, that it has expired, is cut off
        cluster.policy("Ignore")
        assert is_left_alone(cluster.pod(SHARE))
        write(tmp_path, issue.serving(authority, NAMES, now))
        replica.wait()
        assert not is_left_alone(cluster.pod(SHARE))
    finally:
        replica.stop()


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_webhook_that_is_slow(cluster: Cluster, policy: str) -> None:
    """One that takes connections and says nothing."""
    cluster.policy(policy, 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster.balancer.backends.append(silent.getsockname()[1])
        began = time.monotonic()
        if policy == "Fail":
            assert "failed calling webhook" in str(cluster.refusal(SHARE))
        else:
            assert is_left_alone(cluster.pod(SHARE))
        assert 0.9 < time.monotonic() - began < 5
    cluster.policy("Fail")


def test_without_a_secret_it_is_not_ready_and_says_why(cluster: Cluster) -> None:
    replica = cluster.replica("none", "--tls-secret", "missing")
    try:
        wait(lambda: "create it empty" in replica.log.read_text(), replica.log)
        assert replica.page("/readyz") == (503, "there is no certificate\n")
        assert replica.page("/healthz")[0] == 200
    finally:
        replica.stop()
