# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""In which form a node offers its GPUs: what idle pods hold while it changes, and what no pod can be given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.cluster import Cluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

CONFIG, PROGRAM = "/etc/gpu-node/config.yaml", "/opt/gpu-node/bin/gpu-plugin"
GPUS, SHARES = 2, 4
HALVES = {
    "version": "v1",
    "mig-configs": {
        "halves": [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 2}}]
    },
}


HALF = {
    "version": "v1",
    "mig-configs": {
        "half": [
            {"devices": [0, 1], "mig-enabled": False, "mig-devices": {}},
            {"devices": [2, 3], "mig-enabled": True, "mig-devices": {"1g.10gb": 2}},
        ]
    },
}


def configuration(strategy: str = "", migs: str = "mixed", **more: Any) -> dict[str, Any]:
    """Return one that shares all GPUs in a way, or none of them."""
    flags = {"migStrategy": migs, "plugin": {"deviceListStrategy": ["cdi-cri"]}}
    shared = {**more, "resources": [{"name": "nvidia.com/gpu", "replicas": SHARES}]}
    return {
        "version": "v1",
        "flags": flags,
        **({"sharing": {strategy: shared}} if strategy else {}),
    }


WHOLE, SLICES, MPS = configuration(), configuration("timeSlicing"), configuration("mps")
RENAMED = configuration("timeSlicing", renameByDefault=True)


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """A node with whole GPUs."""
    one = make_cluster("held", "h100-80", GPUS, device_plugin_config=WHOLE)
    one.bring_up()
    return one


def write(cluster: Cluster, config: dict[str, Any]) -> None:
    cluster.node.run("sh", "-c", 'printf %s "$1" >"$0"', CONFIG, json.dumps(config))


def uuids(cluster: Cluster) -> dict[str, str]:
    """Return which device each pod has."""
    found = json.loads(cluster.node.run(PROGRAM, "pods", "--json"))["allocations"]
    return {one["pod"]: one["device"].partition("::")[0] for one in found}


def holds(cluster: Cluster, had: str, now: dict[str, Any], has: str, free: int, full: int) -> None:
    """See that a pod keeps what it has while all else, ``free`` of ``full``, is given away in the new form."""
    cluster.pod("holder", **{had: 1})
    device = uuids(cluster)["holder"]
    told = cluster.node.run(
        "sh", "-c", f'printf %s "$0" | {PROGRAM} check-config --node -', json.dumps(now)
    )
    assert f"waits: {device}: it waits for who holds it in another form: pod default/holder" in told
    write(cluster, now)
    cluster.wait(**{has: free})
    if has == had:
        free -= 1  # the scheduler counts what the pod has asked for among what is left
    others = [f"other-{number}" for number in range(free + 1)]
    for name in others:
        cluster.begin(name, **{has: 1})

    def phases() -> tuple[int, int]:
        found = [phase for name, phase in cluster.phases().items() if name in others]
        return found.count("Running"), found.count("Pending")

    eventually(lambda: (phases(), len(cluster.waiting())), ((free, 1), 1))
    given = uuids(cluster)
    assert given.pop("holder") == device
    assert len(given) == free
    assert device not in given.values()
    shown = cluster.node.run(PROGRAM, "status")
    (row,) = (line for line in shown.splitlines() if f" {device} " in line)
    assert row.endswith("default/holder (main)")
    cluster.end("holder")
    eventually(phases, (len(others), 0))
    cluster.wait(**{has: full})
    cluster.end()


@pytest.mark.parametrize(
    ("before", "had", "now", "has"),
    [
        pytest.param(WHOLE, "gpu", SLICES, "gpu", id="whole to time-slicing"),
        pytest.param(SLICES, "gpu", WHOLE, "gpu", id="time-slicing to whole"),
        pytest.param(WHOLE, "gpu", MPS, "gpu", id="whole to MPS"),
        pytest.param(MPS, "gpu", SLICES, "gpu", id="MPS to time-slicing"),
        pytest.param(MPS, "gpu", WHOLE, "gpu", id="MPS to whole"),
        pytest.param(SLICES, "gpu", RENAMED, "gpu.shared", id="another name"),
    ],
)
def test_what_an_idle_pod_holds_is_given_to_nobody_in_another_form(
    cluster: Cluster, before: dict[str, Any], had: str, now: dict[str, Any], has: str
) -> None:
    write(cluster, before)
    cluster.wait(**{had: GPUS * (SHARES if "sharing" in before else 1)})
    shares = SHARES if "sharing" in now else 1
    holds(cluster, had, now, has, (GPUS - 1) * shares, GPUS * shares)


def test_mig_devices_that_idle_pods_hold_are_given_to_nobody_under_another_strategy(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(
        "held-mig", "h100-80", GPUS, mig_config=HALVES, device_plugin_config=WHOLE
    )
    cluster.bring_up()
    mig, single = "mig-3g.40gb", configuration(migs="single")
    for before, had, now, has in ((WHOLE, mig, single, "gpu"), (single, "gpu", WHOLE, mig)):
        write(cluster, before)
        cluster.wait(**{had: 2 * GPUS})
        holds(cluster, had, now, has, 2 * GPUS - 1, 2 * GPUS)


def test_gpus_in_mig_mode_under_strategy_none_fail_no_pod(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(
        "strategy", "h100-80", 4, mig_config=HALF, device_plugin_config=configuration(migs="none")
    )
    cluster.join()
    up = cluster.node.play()
    assert "it is in MIG mode, and CDI describes no whole GPU that is" in up.message()
    cluster.wait(gpu=2)
    pods = [f"pod-{number}" for number in range(6)]
    for name in pods:
        cluster.begin(name, gpu=1)

    def counts() -> dict[str, int]:
        phases = list(cluster.phases().values())
        return {phase: phases.count(phase) for phase in set(phases)}

    eventually(lambda: (counts(), len(cluster.waiting())), ({"Running": 2, "Pending": 4}, 4))
    cluster.end(*[name for name, phase in cluster.phases().items() if phase == "Running"])
    eventually(counts, {"Running": 2, "Pending": 2})
