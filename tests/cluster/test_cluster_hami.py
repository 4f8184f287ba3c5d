# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Manifests for HAMi, unchanged, on a node of DRA: the webhook is in the cluster, the scheduler is the stock one."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster import claimed
from tests.cluster.cluster import IMAGE, SHOW, Cluster
from tests.support import helper_process
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

SERVICE = "gpu-node-webhook.gpu-node.svc"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(
    make_cluster: MakeCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A node of DRA with two cards of 32 GiB, and the webhook on a machine beside it."""
    found = make_cluster("hami", "v100", 2, gpu_nodes_allocation="dra")
    found.bring_up()
    claimed.manifests(found, "device-classes")
    folder = tmp_path_factory.mktemp("webhook")
    with serving(found, folder):
        yield found


@contextlib.contextmanager
def serving(cluster: Cluster, folder: Path) -> Iterator[None]:
    """The webhook as a process of this machine, and its configuration in the cluster."""
    gateway = cluster.node.run("sh", "-c", "ip -4 route show default").split()[2]
    with socket.create_server(("", 0)) as free, socket.create_server(("", 0)) as other:
        port, metrics = free.getsockname()[1], other.getsockname()[1]
    cluster.node.run("sh", "-c", f"echo {gateway} {SERVICE} >>/etc/hosts")
    register(cluster, port)
    kubeconfig = folder / "admin.conf"
    kubeconfig.write_text(cluster.node.run("cat", "/etc/kubernetes/admin.conf"))
    words = ["--kubeconfig", str(kubeconfig), "--namespace", "gpu-node"]
    words += ["--listen", f"0.0.0.0:{port}", "--metrics-address", f"127.0.0.1:{metrics}"]
    program = [sys.executable, "-m", "gpu_cluster", "webhook", *words]
    ask = ["curl", "--silent", "--fail", f"http://127.0.0.1:{metrics}/readyz"]

    def is_ready(_process: helper_process.HelperProcess) -> bool:
        return subprocess.run(ask, check=False, capture_output=True).returncode == 0

    with (
        (folder / "webhook.log").open("w") as log,
        helper_process.start(program, stderr=log, ready=is_ready) as one,
    ):
        yield
        one.terminate()


def register(cluster: Cluster, port: int) -> None:
    """Apply what the project ships, but for the pods: the webhook is reached under its Service's name."""
    for name in ("webhook", "webhook-self-managed"):
        found = yaml.safe_load((claimed.MANIFESTS / f"{name}.yaml").read_text())
        for one in found["items"]:
            if one["kind"] == "Deployment":
                continue
            for hook in one.get("webhooks", []):
                del hook["clientConfig"]["service"]
                hook["clientConfig"]["url"] = f"https://{SERVICE}:{port}"
            cluster.apply(one)


@pytest.fixture(autouse=True)
def emptied(cluster: Cluster) -> Iterator[None]:
    """Leave the node as it was."""
    yield
    kinds = "deployments,replicasets,statefulsets,jobs,pods,resourceclaims,resourceclaimtemplates"
    cluster.kubectl("delete", kinds, "--all", "--wait=true", "--now")


def container(name: str = "main", command: str = SHOW, **limits: Any) -> Json:
    """Return a container with HAMi's resources."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "resources": {"limits": {f"nvidia.com/{key}": one for key, one in limits.items()}},
    }


def pod_spec(*containers: Json, **more: Any) -> Json:
    tolerations = [{"operator": "Exists"}]
    return {
        "terminationGracePeriodSeconds": 0,
        "tolerations": tolerations,
        "containers": list(containers),
        **more,
    }


def begin(cluster: Cluster, name: str, spec: Json, **annotations: str) -> None:
    """Make a pod."""
    notes = {f"nvidia.com/{key.replace('_', '-')}": one for key, one in annotations.items()}
    meta = {"name": name, "annotations": notes}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


@pytest.mark.parametrize(
    ("limits", "count", "running"),
    [
        ({"gpu": 1, "gpumem": 10000}, 10, 6),
        ({"gpu": 1, "gpumem": 5000, "gpucores": 30}, 10, 6),
        ({"gpu": 1, "gpumem-percentage": 50}, 5, 4),
        ({"gpu": 1, "gpumem": 100}, 21, 20),
    ],
    ids=["by memory", "by memory and cores", "by percentage", "split count"],
)
def test_the_published_cases_with_hamis_resources(
    cluster: Cluster, limits: Json, count: int, running: int
) -> None:
    claimed.deploy(cluster, "part", count, pod_spec(container(**limits)))
    wanted = {"Running": running, "Pending": count - running}
    eventually(lambda: dict(claimed.phases(cluster, "part")), wanted)
    eventually(lambda: len(cluster.waiting()), count - running)
    assert dict(claimed.phases(cluster, "part")) == wanted
    templates = cluster.get("resourceclaimtemplates")
    assert len(templates) == 1  # all pods have one in common


def test_a_pod_gets_its_memory_cores_and_priority(cluster: Cluster) -> None:
    begin(cluster, "one", pod_spec(container(gpu=1, gpumem=3000, gpucores=30, priority=1)))
    shown = cluster.shown("one")
    assert [one for one in shown if one.endswith("=3000M")] != []
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30" in shown
    assert "CUDA_MPS_CLIENT_PRIORITY=1" in shown
    resources = cluster.get("pod", "one")["spec"]["containers"][0]["resources"]
    assert set(resources) == {"claims", "limits", "requests"}
    assert {*resources["limits"].values(), *resources["requests"].values()} == {"0"}


def test_a_scheduler_of_hamis_is_not_needed(cluster: Cluster) -> None:
    spec = pod_spec(container(gpu=1, gpumem=3000), schedulerName="hami-scheduler")
    begin(cluster, "theirs", spec)
    cluster.shown("theirs")


def test_exclusive_cards(cluster: Cluster) -> None:
    begin(cluster, "exclusive", pod_spec(container(gpu=1, gpucores=100)))
    shown = cluster.shown("exclusive")
    assert len([one for one in shown if one in ("/dev/nvidia0", "/dev/nvidia1")]) == 1
    assert set(claimed.devices(cluster)) <= {"gpu-0", "gpu-1"}


def test_a_card_is_chosen_by_type_and_by_uuid(cluster: Cluster) -> None:
    slices = cluster.get("resourceslices")
    devices = [one for each in slices for one in each["spec"].get("devices") or []]
    (last,) = [one for one in devices if one["name"] == "gpu-1-share"]
    uuid = last["attributes"]["uuid"]["string"]
    begin(cluster, "by-uuid", pod_spec(container(gpu=1, gpumem=1000)), use_gpuuuid=uuid)
    cluster.shown("by-uuid")
    assert claimed.devices(cluster) == {"gpu-1-share": 1}
    begin(cluster, "by-type", pod_spec(container(gpu=1, gpumem=1000)), use_gputype="A100,H100")
    eventually(lambda: cluster.waiting(), {"by-type"})
    begin(cluster, "not-type", pod_spec(container(gpu=1, gpumem=1000)), nouse_gputype="a100")
    cluster.shown("not-type")


def test_several_containers_and_an_init_container(cluster: Cluster) -> None:
    first = container("first", "env", gpu=1, gpumem=2000)
    spec = pod_spec(
        container("one", gpu=1, gpumem=1000),
        container("two", gpu=1, gpumem=1500),
        initContainers=[first],
    )
    begin(cluster, "several", spec)
    eventually(lambda: cluster.phase("several"), "Running")
    limits = {
        name: [
            line.rpartition("=")[2]
            for line in cluster.kubectl("logs", "several", f"--container={name}").splitlines()
            if line.startswith("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=")
        ]
        for name in ("first", "one", "two")
    }
    assert limits == {"first": ["2000M"], "one": ["1000M"], "two": ["1500M"]}


def _stateful(name: str, labels: Json, spec: Json) -> Json:
    template = {"metadata": {"labels": labels}, "spec": spec}
    selector = {"matchLabels": labels}
    body = {"serviceName": name, "replicas": 2, "selector": selector, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": body}


def _job(_name: str, labels: Json, spec: Json) -> Json:
    template = {"metadata": {"labels": labels}, "spec": {**spec, "restartPolicy": "Never"}}
    body = {"parallelism": 2, "completions": 2, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": body}


@pytest.mark.parametrize("make", [_stateful, _job])
def test_controllers_keep_their_manifests(
    cluster: Cluster, make: Callable[[str, Json, Json], Json]
) -> None:
    made = make("set", {"app": "set"}, pod_spec(container(gpu=1, gpumem=1000)))
    cluster.apply({**made, "metadata": {"name": "set"}})
    eventually(lambda: dict(claimed.phases(cluster, "set")), {"Running": 2})
    template = cluster.get(made["kind"], "set")["spec"]["template"]["spec"]
    assert "nvidia.com/gpumem" in template["containers"][0]["resources"]["limits"]


def test_what_can_not_be_is_refused_by_name(cluster: Cluster) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        begin(cluster, "wrong", pod_spec(container(gpu=1, **{"gpumem-percentage": 101})))
    assert "nvidia.com/gpumem-percentage" in refused.value.stderr
    assert "101" in refused.value.stderr


def test_memory_scaling_of_3_runs_all_ten(cluster: Cluster) -> None:
    """The last one, as it changes the node: what stayed pending in the first published case runs."""
    scaled = {"gpu_nodes_dra_memory_scaling": 3.0, "gpu_nodes_dra_oversubscribe": "best-effort"}
    played = cluster.node.play(**scaled)
    assert played.ok, played.message()
    claimed.deploy(cluster, "scaled", 10, pod_spec(container(gpu=1, gpumem=10000)))
    eventually(lambda: dict(claimed.phases(cluster, "scaled")), {"Running": 10})
