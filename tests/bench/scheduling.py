# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What processor time a genuine kube-scheduler takes to place a pod with a share, on nodes with counters and without.

The programs are those of KUBE_BIN; without it nothing is measured. Nodes are objects without a kubelet.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.names import ALL, DRIVER, SHARE, SHARE_CLASS
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.rate import Rate
from gpu_plugin.config.configuration import parse
from gpu_plugin.dra.slice_api import GROUP
from gpu_plugin.slices import build

from tests.fakes.daemon.gpu_builders import inventory, view
from tests.fakes.kubernetes.administered import KINDS
from tests.fakes.kubernetes.genuine_api import GenuineApi, found
from tests.support.waiting import eventually

NODES, GPUS, PODS = 300, 8, 3
LEAST = (
    5.0  # times that counters take at least: else docs/fractions/driver.md says too much of them
)
ROOM = {"cpu": "100", "memory": "100Gi", "pods": "200"}
WANTED = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{SHARE}"'
TICKS = os.sysconf("SC_CLK_TCK")
Json = dict[str, Any]


class Cluster:
    """An API server with nodes that publish something, and who places pods on them."""

    def __init__(self, api: GenuineApi, nodes: int, publish: str) -> None:
        self._api = api
        self._admin = Access(str(api.folder / "admin.conf"), Rate(-1))
        self._made = 0
        config = parse(f"gpuNode: {{allocation: dra, dra: {{publish: {publish}}}}}")
        gpus = inventory(*map(view, range(GPUS)))
        for node in (f"node-{number}" for number in range(nodes)):
            self._create("Node", node, status={"allocatable": ROOM, "capacity": ROOM})
            for number, spec in enumerate(build(gpus, config, {}, {}, node=node)):
                self._create("ResourceSlice", f"{node}-{number}", GROUP, spec=spec)
        self._create("ServiceAccount", "default")
        selectors = [{"cel": {"expression": WANTED}}]
        self._create("DeviceClass", SHARE_CLASS, GROUP, spec={"selectors": selectors})

    def seconds(self, pods: int) -> Iterator[float]:
        """Yield the scheduler's processor time for each pod, but for the first, by which it knows all nodes."""
        words = (f"--kubeconfig={self._api.folder}/admin.conf", "--leader-elect=false")
        process = self._api.start(found("kube-scheduler"), *words, "--secure-port=0")
        self._place()
        for _pod in range(pods):
            before = _spent(process.pid)
            self._place()
            yield _spent(process.pid) - before

    def _place(self) -> None:
        self._made += 1
        name = f"pod-{self._made}"
        exactly = {"deviceClassName": SHARE_CLASS, "capacity": {"requests": {"memory": "1Gi"}}}
        devices = {"requests": [{"name": "share", "exactly": exactly}]}
        self._create("ResourceClaim", name, GROUP, spec={"devices": devices})
        spec = {
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
        }
        self._create("Pod", name, spec=spec)
        eventually(
            lambda: self._api.get("Pod", name, "default")["spec"].get("nodeName"), limit=1800
        )

    def _create(self, kind: str, name: str, version: str = "v1", **more: Any) -> None:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}
        self._admin.ask("creating", "POST", KINDS[kind].format("default"), body)


def _spent(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main(nodes: int) -> None:
    """Measure and print."""
    try:
        for name in ("kube-scheduler", "kube-apiserver", "etcd"):
            found(name)
    except pytest.skip.Exception as why:
        print(f"scheduling: skipped: {why}")
        return
    took: dict[str, float] = {}
    for what in (ALL, SHARE):
        with tempfile.TemporaryDirectory() as folder, GenuineApi(Path(folder)) as api:
            took[what] = statistics.median(Cluster(api, nodes, what).seconds(PODS))
        print(f"publish {what}: {took[what]:.2f} s of kube-scheduler for a pod, {nodes} nodes")
    times = took[ALL] / max(took[SHARE], 1 / TICKS)
    print(f"scheduling: counters take {times:.0f} times as long, at least {LEAST:.0f} is told")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    main(parser.parse_args().nodes)
