# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A replica of the webhook under all that tenants and strangers can ask of it at once."""

from __future__ import annotations

import re

import pytest
import yaml
from gpu_cluster.webhook import limits

from tests.fakes.cluster.hami_pods import limits as amounts
from tests.fakes.cluster.hami_pods import pod
from tests.fakes.kubernetes.reviews import asked
from tests.fakes.kubernetes.webhook_cluster import Cluster
from tests.fakes.kubernetes.webhook_load import STRANGERS, Client, Hostile, memory
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

SMALL = asked(pod(amounts(gpu=1, gpumem=3000)), namespace="team")
PODS = 100


def allowed_memory() -> int:
    """Return the MiB that the manifest gives a replica."""
    found = yaml.safe_load((REPOSITORY / "files/kubernetes/dra/webhook.yaml").read_text())
    (one,) = [one for one in found["items"] if one["kind"] == "Deployment"]
    (container,) = one["spec"]["template"]["spec"]["containers"]
    size = re.fullmatch(r"(\d+)Mi", container["resources"]["limits"]["memory"])
    assert size is not None
    return int(size[1])


@pytest.mark.long
@pytest.mark.attack("webhook-kept-busy")
def test_a_small_pod_is_answered_whatever_others_ask(cluster: Cluster) -> None:
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    replica = cluster.replica("hostile", kubeconfig=cluster.least())
    replica.wait()
    client = Client(replica.port, cluster.path())
    assert client.ask(SMALL)[0] == 200
    with Hostile(replica.port, cluster.path()) as load:
        eventually(lambda: load.reviewed("large") > 4 and load.answered("many") > 8)
        eventually(lambda: load.answered("stranger") > STRANGERS)
        before = load.reviewed("large")
        answers = [client.ask(SMALL) for _pod in range(PODS)]
        meanwhile = load.reviewed("large") - before
        eventually(lambda: load.answers["many", 429] and load.answers["many", 422])
    assert {(status, response.get("allowed")) for status, response in answers} == {(200, True)}
    assert meanwhile < PODS  # a small one waits for no queue of large ones
    assert len(cluster.templates()) <= limits.MOST_IN_NAMESPACE
    assert memory(replica.process.pid) < allowed_memory()
    assert "Traceback" not in replica.log.read_text()
