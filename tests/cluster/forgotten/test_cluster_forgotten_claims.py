# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the DRA driver and a genuine kubelet keep of claims is removed under pods: no claim loses what it has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import claimed
from tests.cluster.cluster import Cluster
from tests.cluster.forgotten import forgetful
from tests.cluster.forgotten.forgetful import CLAIMS, PROGRAM, UNKNOWN
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

CHECKPOINT, FILES = "/var/lib/gpu-dra/checkpoint.json", "/var/run/cdi/gpu.node-claim_*"
DRIVER = "gpu-dra.service"
FORGIVEN = 600  # seconds: what nobody has is looked for twice a minute, and given back after two
WHOLE = {"gpu_nodes_allocation": "device_plugin"}
SMALL = {
    "mig_config": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}],
}


@pytest.fixture(scope="module")
def brought_up(make_cluster: MakeCluster) -> Cluster:
    """A node whose three GPUs the DRA driver gives out."""
    cluster = make_cluster("forgotten-claims", "h100-80", 3, gpu_nodes_allocation="dra")
    cluster.bring_up()
    claimed.manifests(cluster, "device-classes")
    claimed.template(cluster, "whole", "gpu.gpu.node")
    return cluster


@pytest.fixture
def cluster(brought_up: Cluster) -> Iterator[Cluster]:
    """The same node for each test, with a pod that has one GPU by a claim."""
    eventually(lambda: state(brought_up)["state"], "serving")
    begin(brought_up, "holder")
    eventually(lambda: brought_up.phase("holder"), "Running")
    yield brought_up
    brought_up.end()
    eventually(lambda: state(brought_up)["claims"], [], limit=FORGIVEN)


def begin(cluster: Cluster, name: str) -> None:
    """Make a pod with a claim, whose container is started again whenever it ends."""
    spec = {**claimed.pod("whole", "exec sleep infinity"), "restartPolicy": "Always"}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def state(cluster: Cluster) -> dict[str, Any]:
    """Return what the driver says of itself."""
    found: dict[str, Any] = json.loads(cluster.node.run("cat", "/run/gpu-node/dra.json"))
    return found


def files(cluster: Cluster) -> list[str]:
    """Return the files of claims."""
    return cluster.node.run("sh", "-c", f"ls {FILES} 2>/dev/null || true").split()


def waiting(cluster: Cluster, pod: str) -> str:
    """Return why a pod's container does not run."""
    (status,) = cluster.get("pod", pod)["status"]["containerStatuses"]
    return str(status["state"].get("waiting", {}).get("message", ""))


def refuse_change(cluster: Cluster) -> str:
    """See that the GPUs go neither to the device plugin nor into MIG mode, and return why."""
    before = cluster.node.run("nvidia-smi", "-L")
    reasons = []
    for playbook, cmdline, variables in (
        ("gpu.node.gpu_nodes", "", WHOLE),
        ("gpu.node.mig", "--check", SMALL),
        ("gpu.node.mig", "", SMALL),
    ):
        refused = cluster.node.play(playbook, cmdline=cmdline, **variables)
        assert not refused.ok
        assert "default/holder" in refused.message()
        assert cluster.node.run("nvidia-smi", "-L") == before
        reasons.append(refused.message())
    return "\n".join(reasons)


def test_claims_run_on_after_the_driver_forgot_them(cluster: Cluster) -> None:
    before, left = forgetful.running(cluster), files(cluster)
    cluster.node.run("rm", CHECKPOINT)
    cluster.node.run("systemctl", "restart", DRIVER)
    eventually(lambda: "what claims hold is not known" in str(state(cluster)["problem"]))
    assert files(cluster) == left
    shown = cluster.node.run(PROGRAM, "status", check=False)
    assert "what claims hold is not known" in shown, shown

    # No claim is served, and what runs goes on, through an end of its container too.
    begin(cluster, "newcomer")
    forgetful.kill(cluster, "holder", "main")
    eventually(lambda: (cluster.restarts()["holder"], cluster.phase("holder")), (1, "Running"))
    eventually(lambda: forgetful.running(cluster), before)
    refuse_change(cluster)
    assert cluster.phase("newcomer") == "Pending"
    assert files(cluster) == left

    # By the message's next step all is as before.
    cluster.kubectl("delete", "pods", "holder", "newcomer", "--wait=false", "--now")
    cluster.node.run("sh", "-c", f"rm {FILES}")
    eventually(cluster.phases, {})
    eventually(lambda: state(cluster)["state"], "serving")
    begin(cluster, "next")
    eventually(lambda: cluster.phase("next"), "Running")


def test_a_claim_stays_after_the_kubelet_forgot_it(cluster: Cluster) -> None:
    before, left = forgetful.running(cluster), files(cluster)
    forgetful.forget(cluster, CLAIMS)
    eventually(cluster.ready)
    newcomers = [f"newcomer-{number}" for number in range(3)]
    for name in newcomers:
        begin(cluster, name)
    eventually(lambda: (len(forgetful.running(cluster)), len(cluster.waiting())), (3, 1))
    found = forgetful.running(cluster)
    assert forgetful.shared(forgetful.nodes(cluster)) == []
    assert found["holder"] == before["holder"]
    assert set(left) < set(files(cluster))
    refuse_change(cluster)

    # The kubelet can't start its container again, and what it has is given to nobody meanwhile.
    forgetful.kill(cluster, "holder", "main")
    eventually(lambda: "unable to get claim info" in waiting(cluster, "holder"))
    assert state(cluster)["claims"]
    assert set(left) < set(files(cluster))

    # Nobody asks for the claim to be given back, and it is, for the one that waits.
    cluster.end("holder")
    eventually(cluster.phases, dict.fromkeys(newcomers, "Running"), limit=FORGIVEN)
    assert forgetful.shared(forgetful.nodes(cluster)) == []


def test_a_claim_that_kubelet_and_driver_forgot_is_taken_from_nobody(cluster: Cluster) -> None:
    before, left = forgetful.running(cluster), files(cluster)
    cluster.node.run("systemctl", "stop", DRIVER)
    cluster.node.run(
        "sh", "-c", f"rm {CHECKPOINT} && mkdir /root/claims && mv {FILES} /root/claims/"
    )
    forgetful.forget(cluster, CLAIMS)
    cluster.node.run("systemctl", "start", DRIVER)
    eventually(cluster.ready)
    print(state(cluster))
    assert refuse_change(cluster).count(UNKNOWN) >= 3
    assert forgetful.running(cluster) == before
    cluster.node.run("sh", "-c", "mv /root/claims/* /var/run/cdi/; rmdir /root/claims")
    assert files(cluster) == left
