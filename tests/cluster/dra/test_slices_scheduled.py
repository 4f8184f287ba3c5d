# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a genuine kube-scheduler makes of MIG devices over counters: all that the hardware can hold, and no more."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._core.dra.names import DRIVER, mig_name
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.rate import Rate
from gpu_plugin.config.configuration import parse
from gpu_plugin.dra.publish import Publisher
from gpu_plugin.dra.slice_api import PATH, SliceApi
from gpu_plugin.slices import build

from tests.fakes.daemon.gpu_builders import inventory
from tests.fakes.daemon.mig_grids import GRIDS, Place, every, view
from tests.fakes.kubernetes.genuine_api import GenuineApi, found
from tests.pure.daemon.slices.test_slices_grid import hardware

NODE = "node-1"
ALL = parse("gpuNode: {allocation: dra}")
CORE, GROUP = "/api/v1/namespaces/default", "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
BIG = {"cpu": "100", "memory": "100Gi", "pods": "200"}
PATIENCE = 6.0  # seconds without a pod that is scheduled, after which nothing more will be
Json = dict[str, Any]


@dataclass
class Cluster:
    """A node without a kubelet, and who places pods on it."""

    api: GenuineApi
    admin: Access
    pods: list[str] = field(default_factory=list)

    def create(self, path: str, kind: str, name: str, version: str, **more: Any) -> Json:
        meta = {"name": name, **more.pop("metadata", {})}
        body = {"apiVersion": version, "kind": kind, "metadata": meta, **more}
        made: Json = self.admin.ask(f"creating {name}", "POST", path, body)
        return made

    def ask_for(self, name: str, profile: str) -> None:
        """Create a pod that wants a MIG device of a profile."""
        expression = f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'
        exactly = {"deviceClassName": "mig", "selectors": [{"cel": {"expression": expression}}]}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        self.create(CLAIMS, "ResourceClaim", name, "resource.k8s.io/v1", spec=spec)
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "r"}]}}
        pod = {"containers": [container], "automountServiceAccountToken": False}
        pod["resourceClaims"] = [{"name": "r", "resourceClaimName": name}]
        self.create(f"{CORE}/pods", "Pod", name, "v1", spec=pod)
        self.pods.append(name)

    def given(self) -> dict[str, str]:
        """Return the device of each claim, once nothing more is allocated."""
        found: dict[str, str] = {}
        quiet = time.monotonic()
        while len(found) < len(self.pods) and time.monotonic() - quiet < PATIENCE:
            now = {
                one["metadata"]["name"]: one["status"]["allocation"]["devices"]["results"][0][
                    "device"
                ]
                for one in self.admin.ask("reading claims", "GET", CLAIMS)["items"]
                if one.get("status", {}).get("allocation")
            }
            if now != found:
                found, quiet = now, time.monotonic()
            time.sleep(0.2)
        return found

    def clean(self) -> None:
        """Remove pods, claims and slices."""
        for name in self.pods:
            self.admin.ask("removing", "DELETE", f"{CORE}/pods/{name}", {"gracePeriodSeconds": 0})
        for one in self.admin.ask("reading claims", "GET", CLAIMS)["items"]:
            self._let_go(one)
        self.admin.ask("removing", "DELETE", PATH)
        self.pods.clear()

    def _let_go(self, claim: Json) -> None:
        """Do what the claim controller does when its pod is gone."""
        path = f"{CLAIMS}/{claim['metadata']['name']}"
        kind = "application/merge-patch+json"
        if claim.get("status"):
            gone = {"status": {"allocation": None, "reservedFor": None}}
            self.admin.ask("freeing", "PATCH", f"{path}/status", gone, kind=kind)
        no_finalizers = {"metadata": {"finalizers": None}}
        self.admin.ask("freeing", "PATCH", path, no_finalizers, kind=kind)
        self.admin.ask("removing", "DELETE", path)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("api")
    scheduler = found("kube-scheduler")
    api = GenuineApi(folder)
    config = folder / "admin.conf"
    made = Cluster(api, Access(str(config), Rate(-1)))
    status = {
        "allocatable": BIG,
        "capacity": BIG,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    made.create("/api/v1/nodes", "Node", NODE, "v1", status=status)
    untainted = {"spec": {"taints": None}}
    kind = "application/merge-patch+json"
    made.admin.ask("untainting", "PATCH", f"/api/v1/nodes/{NODE}", untainted, kind=kind)
    made.create(f"{CORE}/serviceaccounts", "ServiceAccount", "default", "v1")
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    spec = {"selectors": [selector]}
    made.create(f"{GROUP}/deviceclasses", "DeviceClass", "mig", "resource.k8s.io/v1", spec=spec)
    process = start(scheduler, config, folder / "scheduler.log")
    yield made
    process.kill()
    process.wait()
    api.stop()


def start(program: Path, config: Path, log: Path) -> subprocess.Popen[bytes]:
    words = [f"--kubeconfig={config}", "--leader-elect=false", "--secure-port=0"]
    return subprocess.Popen([program, *words], stdout=log.open("wb"), stderr=subprocess.STDOUT)


@pytest.mark.parametrize(
    ("grid", "standing", "asked", "count"),
    [
        ("h100-80", [], ["1g.10gb"] * 8, 7),  # as many as there are compute slices
        ("h100-80", [], ["1g.10gb+me", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb"], 3),
        ("h100-80", [("3g.40gb", 0)], ["4g.40gb", "3g.40gb", "3g.40gb", "1g.10gb"], 2),
        ("a30", [], ["1g.6gb+me", "2g.12gb+me", "2g.12gb", "1g.6gb", "1g.6gb"], 3),
        ("rtx-pro-6000", [], ["1g.24gb+me.all", "1g.24gb", "1g.24gb-me", "2g.48gb-me"], 3),
        ("rtx-pro-6000", [("1g.24gb", 0)], ["1g.24gb+me.all", "1g.24gb+gfx", "2g.48gb"], 1),
        ("narrow", [], ["1g.10gb"] * 4 + ["1g.10gb+me"] * 3, 5),
    ],
)
def test_the_scheduler_fills_a_gpu_as_its_hardware_allows(
    cluster: Cluster, grid: str, standing: list[tuple[str, int]], asked: list[str], count: int
) -> None:
    profiles = GRIDS[grid]
    by_name = {one.name: one for one in profiles}
    there = [(by_name[name], start) for name, start in standing]
    publisher = Publisher(SliceApi(cluster.admin, NODE), NODE)
    publisher.want(build(inventory(view(profiles, there)), ALL, {}, {}, node=NODE))
    publisher.sync()
    wanted = {f"pod-{number}": profile for number, profile in enumerate(asked)}
    for name, profile in wanted.items():
        cluster.ask_for(name, profile)
    try:
        given = cluster.given()
    finally:
        cluster.clean()
    names = {
        mig_name(0, profile.name, profile.id, start): (profile, start)
        for profile, start in every(profiles)
    }
    places: list[Place] = [names[device] for device in given.values()]
    assert {name: names[device][0].name for name, device in given.items()}.items() <= wanted.items()
    assert len(given) == count
    used = [one for one in places if one not in there]
    assert hardware(profiles, [*there, *used])
    free = [one for one in there if one not in places]  # what stands, and nobody has
    for name in wanted.keys() - given.keys():
        profile = by_name[wanted[name]]
        assert profile not in [one for one, _start in free]
        more = [(profile, start) for start, _size in profile.placements]
        assert not any(hardware(profiles, [*there, *used, one]) for one in more), name
