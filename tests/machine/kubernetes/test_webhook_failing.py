# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates that are renewed, over or not there, and webhooks that are slow: what an API server does."""

from __future__ import annotations

import base64
import socket
from pathlib import Path

import pytest
from gpu_cluster.webhook.certificates import issue, managed
from gpu_cluster.webhook.certificates.issue import Pair
from gpu_cluster.webhook.certificates.managed import Managed
from gpu_cluster.webhook.shared import SharedObjects

from tests.fakes.cluster.hami_pods import Json, limits, pod
from tests.fakes.kubernetes.webhook_cluster import NAME, SECRET, SPACE, Cluster, Load
from tests.support.waiting import LIMIT, eventually

DAY = 86400.0
HOST = f"{NAME}.{SPACE}.svc"
NAMES = (HOST, f"{HOST}.cluster.local", "127.0.0.1")
SHARE = pod(limits(gpu=1, gpumem=3000, gpucores=30))


def is_left_alone(made: Json) -> bool:
    """Return whether a pod waits for a resource that no node has."""
    limit = made["spec"]["containers"][0]["resources"].get("limits", {})
    return "nvidia.com/gpumem" in limit and "resourceClaims" not in made["spec"]


def trust(cluster: Cluster, bundle: str) -> None:
    value = base64.b64encode(bundle.encode()).decode()
    cluster.configure([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": value}])


def write(folder: Path, pair: Pair) -> tuple[str, ...]:
    """Write a pair as kubelets do for Secrets, and return the flags that name it."""
    paths = folder / "tls.crt", folder / "tls.key"
    for path, text in zip(paths, (pair.certificate, pair.key), strict=True):
        temporary = path.with_suffix(".new")
        temporary.write_text(text)
        temporary.replace(path)
    return ("--tls-cert-file", str(paths[0]), "--tls-private-key-file", str(paths[1]))


def test_an_authority_is_renewed_and_no_pod_fails(cluster: Cluster) -> None:
    """Both are due when two replicas start; the five minutes and the hour of waiting are skipped."""
    now = cluster.now()
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
    for one in replicas:
        one.wait()
    before = {one.certificate() for one in replicas}
    assert len(before) == 1
    bundle = base64.b64decode(cluster.bundle()).decode()
    assert len(issue.facts(bundle)) == 2
    assert authority.certificate in bundle
    with Load(cluster, SHARE) as load:
        mine = Managed(SharedObjects(cluster.admin, SPACE, NAME), f"{NAME}-tls", NAMES)
        served = mine.look(now + managed.KNOWN + LIMIT).certificate
        assert served != leaf.certificate
        eventually(lambda: {one.certificate() for one in replicas}.isdisjoint(before))
        mine.look(now + managed.KNOWN + managed.FORGET + 2 * LIMIT)
        last = base64.b64decode(cluster.bundle()).decode()
        assert len(issue.facts(last)) == 1
        assert authority.certificate not in last
        load.more()
    assert load.failed == []


@pytest.mark.long
def test_a_certificate_that_is_over(cluster: Cluster, tmp_path: Path) -> None:
    now = cluster.now()
    authority = issue.authority("files", now - 100 * DAY)
    trust(cluster, authority.certificate)
    flags = write(tmp_path, issue.serving(authority, NAMES, now - 91 * DAY))
    replica = cluster.replica("over", *flags)
    eventually(lambda: replica.page("/readyz"), (503, "the certificate is over\n"))
    cluster.policy("Fail")
    assert "failed calling webhook" in str(cluster.refusal(SHARE))
    cluster.policy("Ignore")
    assert is_left_alone(cluster.pod(SHARE))
    write(tmp_path, issue.serving(authority, NAMES, now))
    replica.wait()
    assert not is_left_alone(cluster.pod(SHARE))
    cluster.policy("Fail")


def test_a_webhook_that_takes_connections_and_says_nothing(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster.balancer.backends.append(silent.getsockname()[1])
        cluster.policy("Fail", 1)
        assert "failed calling webhook" in str(cluster.refusal(SHARE))
        cluster.policy("Ignore", 1)
        assert is_left_alone(cluster.pod(SHARE))
        for _each in range(2):
            silent.accept()[0].close()
    cluster.policy("Fail")


@pytest.mark.parametrize(
    ("secret", "told"),
    [("tls", "there is no certificate"), ("path", "the API servers were told no path")],
)
def test_without_a_secret_it_is_not_ready_and_says_why(
    cluster: Cluster, secret: str, told: str
) -> None:
    replica = cluster.replica(f"no-{secret}", f"--{secret}-secret", "missing")
    eventually(lambda: "create it empty" in replica.log.read_text())
    assert replica.page("/readyz") == (503, f"{told}\n")
    assert replica.page("/healthz")[0] == 200
