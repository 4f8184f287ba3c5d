# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node with a gate in a genuine cluster takes no pod with a GPU before a pass is recorded, whatever is killed."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain.capability import (
    DrainCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.drain import SPEC

from tests.cluster import claimed
from tests.cluster.cluster import Cluster
from tests.cluster.repair.test_cluster_repair import ALLOCATIONS, dra, offered, with_gpu
from tests.fakes.kubernetes.killed_client import KilledError, kill_after
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

GPUS, REQUESTS = (
    2,
    5,
)  # requests of a run that holds or admits a node: two rights, node, change, node
KILLS = pytest.mark.parametrize("kills", [1, pytest.param(100, marks=pytest.mark.endurance)])
ON = {"gpu_nodes_gate": True, "accept_duration": 1}
HOLD = {**ON, "accept_test": "never", "accept_fail": False}
PARTS = ["driver", "runtime", "settings", "cdi", "device_plugin", "labels"]
KUBELET = "/var/lib/kubelet/config.yaml"
RECORD = "/var/lib/gpu-node/acceptance.json"
PROGRAM = "/opt/gpu-node/bin/gpu-plugin"
MANIFEST = REPOSITORY / "files/kubernetes/drain-rbac.yaml"
# The Event of a pod to which the kubelet gives no device after a boot.
REFUSED = {"device_plugin": "UnexpectedAdmissionError", "dra": "FailedPrepareDynamicResources"}
HOURS = 4 * 3600  # after which it hangs
Drain = Callable[[str], dict[str, Any]]

pytestmark = pytest.mark.timeout(HOURS)


@pytest.fixture(scope="module", params=ALLOCATIONS)
def gated(make_cluster: MakeCluster, request: pytest.FixtureRequest) -> Cluster:
    """A node that has joined, whose gate is closed before anything of ours runs, with a pod that asks for a GPU."""
    variables = {"gpu_nodes_allocation": request.param}
    name = f"gate-{request.param.replace('_', '-')}"
    cluster = make_cluster(name, "h100-80", GPUS, **variables)
    cluster.join()
    if dra(cluster):
        claimed.manifests(cluster, "device-classes")
        claimed.template(cluster, "whole", "gpu.gpu.node")
    for manifest in yaml.safe_load(MANIFEST.read_text())["items"]:
        cluster.apply(manifest)
    begin(cluster, "early")
    held = {"gpu_nodes_components": PARTS}  # validation would say that the gate is closed
    for playbook, more in (("gpu.node.accept", HOLD), ("gpu.node.gpu_nodes", held)):
        play = cluster.node.play(playbook, **more)
        assert play.ok, play.message()
    eventually(lambda: offered_gpus(cluster), [])
    return cluster


@pytest.fixture
def held(gated: Cluster) -> Iterator[Cluster]:
    """The same node, without any pass on record."""
    gated.node.run("rm", "--force", RECORD)
    gated.node.run(PROGRAM, "gate", "check")
    eventually(lambda: offered_gpus(gated), [])
    eventually(lambda: condition(gated), "False")
    yield gated
    gated.end()


@pytest.fixture
def drain(gated: Cluster, tmp_path: Path) -> Drain:
    """Return a function that brings the node to a state, by the access of the manifest's ServiceAccount."""
    access = yaml.safe_load(gated.control.run("cat", "/etc/kubernetes/admin.conf"))
    token = gated.kubectl("-n", "kube-system", "create", "token", "gpu-node-drain").strip()
    access["users"][0]["user"] = {"token": token}
    path = tmp_path / "drain.conf"
    path.write_text(yaml.safe_dump(access))
    defaults = {name: option.get("default") for name, option in SPEC["argument_spec"].items()}

    def run(state: str) -> dict[str, Any]:
        params = {"node": gated.node.name, "kubeconfig": str(path), "names": [], "state": state}
        capability = DrainCapability({**defaults, **params})
        plan = capability.plan(capability.observe())
        for step in plan.steps:
            capability.apply(step)
        return capability.result(capability.observe(), plan)

    return run


def begin(cluster: Cluster, name: str) -> None:
    """Make a pod that asks for a GPU and tolerates any taint of a node."""
    spec = with_gpu(cluster)
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def plain(cluster: Cluster) -> dict[str, Any]:
    """Return the spec of a pod that asks for no GPU and tolerates no taint."""
    spec = {**with_gpu(cluster), "tolerations": []}
    spec["containers"] = [{**spec["containers"][0], "resources": {}}]
    spec.pop("resourceClaims", None)
    return spec


def offered_gpus(cluster: Cluster) -> list[str]:
    """Return the GPUs that new pods can get, once the services have told of them all."""
    by_uuid = offered(cluster)
    assert len(by_uuid) == GPUS
    return [uuid for uuid, is_offered in by_uuid.items() if is_offered]


def condition(cluster: Cluster) -> str:
    """Return the status of the node's condition about its gate."""
    conditions = cluster.get("node", cluster.node.name)["status"]["conditions"]
    found = [each["status"] for each in conditions if each["type"] == "gpu.node/Accepted"]
    return "".join(found)


def taints(cluster: Cluster) -> set[str]:
    """Return the keys of the node's taints."""
    spec = cluster.get("node", cluster.node.name)["spec"]
    return {taint["key"] for taint in spec.get("taints", [])}


def placed(cluster: Cluster) -> list[str]:
    """Return the pods that the scheduler has ever given a node, which it takes from none."""
    return [pod["metadata"]["name"] for pod in cluster.get("pods") if pod["spec"].get("nodeName")]


def accept(cluster: Cluster) -> None:
    """Test the GPUs, which all pass."""
    play = cluster.node.play("gpu.node.accept", **ON)
    assert play.ok, play.message()
    eventually(lambda: len(offered_gpus(cluster)), GPUS)


def kill_services(cluster: Cluster) -> None:
    """Kill what gives out GPUs and what labels the node, and wait until they serve again."""
    unit, status = ("gpu-dra", "dra") if dra(cluster) else ("gpu-device-plugin", "device-plugin")
    before = main_pids(cluster, unit)
    cluster.node.run("systemctl", "kill", "--signal=KILL", unit, "gpu-node-labels")
    eventually(lambda: main_pids(cluster, unit).isdisjoint(before | {"0"}))

    def serves() -> bool:
        if not dra(cluster):
            return bool(cluster.node.status()["state"] == "serving")
        state = json.loads(cluster.node.run("cat", f"/run/gpu-node/{status}.json"))
        return state["state"] == "serving" and str(state["pid"]) in main_pids(cluster, unit)

    eventually(serves)


def main_pids(cluster: Cluster, unit: str) -> set[str]:
    """Return the processes of a unit and of the labels."""
    units = (unit, "gpu-node-labels")
    shown = cluster.node.run("systemctl", "show", "--property=MainPID", "--value", *units)
    return set(re.findall("[0-9]+", shown))


@KILLS
def test_no_pod_gets_a_gpu_before_a_pass_through_kills(held: Cluster, kills: int) -> None:
    begin(held, "early")
    for number in range(kills):
        kill_services(held)
        begin(held, f"late-{number}")
        eventually(lambda pod=f"late-{number}": pod in held.waiting())
        assert offered_gpus(held) == []
        assert placed(held) == []
        held.end(f"late-{number}")
    assert condition(held) == "False"
    accept(held)
    held.shown("early")
    eventually(lambda: condition(held), "True")


def test_bring_up_taints_the_node_until_its_gpus_have_passed(held: Cluster, tmp_path: Path) -> None:
    access = tmp_path / "admin.conf"
    access.write_text(held.control.run("cat", "/etc/kubernetes/admin.conf"))
    more = {**ON, "gpu_nodes_kubeconfig": str(access)}
    cut_off = held.node.play(cut_off_at="Test the GPUs", **more)
    assert cut_off.killed
    assert "gpu.node/not-accepted" in taints(held)
    up = held.node.play(**more)
    assert up.ok, up.message()
    assert "gpu.node/not-accepted" not in taints(held)
    assert len(offered_gpus(held)) == GPUS
    # Whoever registers the node anew, or taints it so, has it let in by the next run.
    held.kubectl("taint", "node", held.node.name, "gpu.node/not-accepted=:NoSchedule")
    again = held.node.play(**more)
    assert again.ok, again.message()
    assert "gpu.node/not-accepted" not in taints(held)


def test_gate_that_was_not_checked_since_the_boot_holds(held: Cluster) -> None:
    accept(held)
    gate = json.loads(held.node.run("cat", "/var/lib/gpu-node/gate.json"))
    text = json.dumps({**gate, "boot": "of another boot"})
    held.node.run("sh", "-c", 'printf %s "$1" >/var/lib/gpu-node/gate.json', "sh", text)
    eventually(lambda: offered_gpus(held), [])
    eventually(lambda: condition(held), "Unknown")
    begin(held, "late")
    eventually(held.waiting, {"late"})
    held.node.run(PROGRAM, "gate", "check")
    held.shown("late")
    eventually(lambda: condition(held), "True")


def test_gpu_that_fails_alone_is_held_alone(held: Cluster) -> None:
    accept(held)
    record = json.loads(held.node.run("cat", RECORD))
    uuid = sorted(record["gpus"])[0]
    record["gpus"][uuid]["faults"] = ["memory: 32 wrong words"]
    text = json.dumps(record)
    held.node.run("sh", "-c", f'printf %s "$1" >{RECORD}', "sh", text)
    held.node.run(PROGRAM, "gate", "check")
    eventually(lambda: len(offered_gpus(held)), GPUS - 1)
    assert uuid not in offered_gpus(held)
    for name in ("first", "second"):
        begin(held, name)
    eventually(lambda: len(placed(held)), 1)
    eventually(lambda: len(held.waiting()), 1)
    assert condition(held) == "True"


@KILLS
def test_tainted_node_takes_no_pod_at_all_through_kills_of_the_module(
    gated: Cluster, drain: Drain, kills: int
) -> None:
    foreign = {"key": "example.com/own", "value": "x", "effect": "PreferNoSchedule"}
    gated.kubectl("taint", "node", gated.node.name, "example.com/own=x:PreferNoSchedule")
    requests = itertools.cycle(range(1, REQUESTS + 1))

    def kill(state: str) -> None:
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, next(requests))
            with pytest.raises(KilledError):
                drain(state)

    assert drain("held")["held"]
    for number in range(kills):
        pod = f"plain-{number}"
        gated.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": plain(gated)}
        )
        eventually(lambda pod=pod: pod in gated.waiting())
        kill("held")
        assert drain("held")["held"]
        assert placed(gated) == []
        kill("admitted")
        assert not drain("admitted")["held"]
        gated.shown(pod)
        taints = gated.get("node", gated.node.name)["spec"]["taints"]
        assert [{**each, "timeAdded": None} for each in taints] == [{**foreign, "timeAdded": None}]
        kill("held")
        assert drain("held")["held"]
        gated.end(pod)
    drain("admitted")
    gated.kubectl("taint", "node", gated.node.name, "example.com/own-")


def test_kubelet_that_registers_with_the_taint_holds_its_node_at_once(
    gated: Cluster, drain: Drain
) -> None:
    name, taint = gated.node.name, {"key": "gpu.node/not-accepted", "effect": "NoSchedule"}
    config = json.loads(gated.node.run("cat", KUBELET))
    gated.node.run("systemctl", "stop", "kubelet")
    gated.kubectl("delete", "node", name)
    assert not drain("held")["joined"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": plain(gated)}
    gated.apply(pod)
    text = json.dumps({**config, "registerWithTaints": [taint]})
    gated.node.run("sh", "-c", f'printf %s "$1" >{KUBELET}', "sh", text)
    gated.node.run("systemctl", "start", "kubelet")
    eventually(lambda: [node["metadata"]["name"] for node in gated.get("nodes")], [name])
    eventually(gated.ready)
    eventually(lambda: "plain" in gated.waiting())
    assert placed(gated) == []
    assert drain("admitted")["joined"]
    gated.shown("plain")
    gated.end()


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_pod_of_the_boot_before_gets_no_gpu_while_the_gate_holds(
    make_cluster: MakeCluster, allocation: str
) -> None:
    name = f"gate-boot-{allocation.replace('_', '-')}"
    cluster = make_cluster(name, "h100-80", GPUS, beside=True, gpu_nodes_allocation=allocation)
    cluster.bring_up()
    if dra(cluster):
        claimed.manifests(cluster, "device-classes")
        claimed.template(cluster, "whole", "gpu.gpu.node")
    eventually(lambda: len(offered_gpus(cluster)), GPUS)
    accept(cluster)
    claimed.deploy(cluster, "serve", 1, with_gpu(cluster))
    eventually(lambda: runs(cluster))
    cluster.node.run("rm", RECORD)
    cluster.node.reboot()
    eventually(lambda: cluster.events(REFUSED[allocation]))
    eventually(lambda: condition(cluster), "False")
    assert offered_gpus(cluster) == []
    assert not runs(cluster)
    claimed.remove(cluster, "serve")  # a GPU that a pod was given is not tested
    accept(cluster)
    claimed.deploy(cluster, "serve", 1, with_gpu(cluster))
    eventually(lambda: runs(cluster))


def runs(cluster: Cluster) -> bool:
    """Return whether the container of a pod runs on the node."""
    return "sleep infinity" in cluster.node.run("ps", "axww", "--format=args").splitlines()
