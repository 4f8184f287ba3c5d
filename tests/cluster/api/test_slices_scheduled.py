# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a genuine kube-scheduler makes of MIG devices over counters: all that the hardware can hold, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.names import DRIVER, mig_name
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.rate import Rate
from gpu_plugin.config.configuration import parse
from gpu_plugin.dra.publish import Publisher
from gpu_plugin.dra.slice_api import PATH, SliceApi
from gpu_plugin.slices import build

from tests.fakes.daemon.gpu_builders import inventory
from tests.fakes.daemon.gpu_builders import view as whole
from tests.fakes.daemon.mig_grids import GRIDS, Place, every, view
from tests.fakes.kubernetes.genuine_api import GenuineApi, found
from tests.pure.daemon.slices.test_slices_grid import hardware
from tests.support.waiting import eventually

NODE = "node-1"
ALL = parse("gpuNode: {allocation: dra}")
CORE, GROUP = "/api/v1/namespaces/default", "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
BIG = {"cpu": "100", "memory": "100Gi", "pods": "200"}
FULL = "cannot allocate all claims"  # what the scheduler says of a pod for which there is nothing
LAST = "last.example.com"
Json = dict[str, Any]


@dataclass
class Cluster:
    """A node without a kubelet, and who places pods on it."""

    api: GenuineApi
    admin: Access
    pods: dict[str, list[str]] = field(default_factory=dict)  # and the claims of each

    def create(self, path: str, kind: str, name: str, version: str, **more: Any) -> Json:
        meta = {"name": name, **more.pop("metadata", {})}
        body = {"apiVersion": version, "kind": kind, "metadata": meta, **more}
        made: Json = self.admin.ask(f"creating {name}", "POST", path, body)
        return made

    def ask_for(self, name: str, profile: str) -> None:
        """Create a pod that wants a MIG device of a profile."""
        expression = f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'
        self.ask(
            name, {"deviceClassName": "mig", "selectors": [{"cel": {"expression": expression}}]}
        )

    def ask(self, name: str, *requests: Json) -> None:
        """Create a pod with a claim for each request; the first has the pod's name."""
        claims = [name, *(f"{name}-{number}" for number in range(1, len(requests)))]
        for claim, exactly in zip(claims, requests, strict=True):
            spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
            self.create(CLAIMS, "ResourceClaim", claim, "resource.k8s.io/v1", spec=spec)
        used = [
            {"name": f"r{number}", "resourceClaimName": one} for number, one in enumerate(claims)
        ]
        container = {
            "name": "c",
            "image": "i",
            "resources": {"claims": [{"name": one["name"]} for one in used]},
        }
        pod = {"containers": [container], "automountServiceAccountToken": False}
        pod["resourceClaims"] = used
        self.create(f"{CORE}/pods", "Pod", name, "v1", spec=pod)
        self.pods[name] = claims

    def given(self) -> dict[str, str]:
        """Return the device of each claim, once the scheduler has said of each pod whether it has one."""
        eventually(lambda: all(map(self._decided, self.pods)))
        claims = self.admin.ask("reading claims", "GET", CLAIMS)["items"]
        return {
            one["metadata"]["name"]: device
            for one in claims
            if (device := _device(one)) is not None
        }

    def _decided(self, name: str) -> bool:
        pod = self.admin.ask("reading a pod", "GET", f"{CORE}/pods/{name}")
        said = [one.get("message", "") for one in pod["status"].get("conditions") or ()]
        return bool(pod["spec"].get("nodeName")) or any(FULL in one for one in said)

    def see(self) -> None:
        """Wait until the scheduler knows of all slices so far, as it does once it gives a device of a later one."""
        pool = {"name": "last", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": LAST, "nodeName": NODE, "pool": pool, "devices": [{"name": "last"}]}
        self.create(PATH, "ResourceSlice", "last", "resource.k8s.io/v1", spec=spec)
        self.ask(LAST, {"deviceClassName": LAST})
        eventually(lambda: self._decided(LAST) and LAST in self.given())
        self.clean(LAST)

    def clean(self, *names: str) -> None:
        """Remove pods with their claims, all of them and the slices where none is named."""
        for name in names or tuple(self.pods):
            self.admin.ask("removing", "DELETE", f"{CORE}/pods/{name}", {"gracePeriodSeconds": 0})
            for claim in self.pods.pop(name):
                self._let_go(self.admin.ask("reading a claim", "GET", f"{CLAIMS}/{claim}"))
        if not names:
            self.admin.ask("removing", "DELETE", PATH)

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


def network_card() -> list[Json]:
    """Return the slices of a network card whose functions take a port each; their pool is named as the node."""
    port = {"ports": {"value": "1"}}
    functions = [
        {"name": f"vf-{number}", "consumesCounters": [{"counterSet": "card", "counters": port}]}
        for number in range(2)
    ]
    parts: list[Json] = [
        {"sharedCounters": [{"name": "card", "counters": {"ports": {"value": "2"}}}]},
        {"devices": functions},
    ]
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": len(parts)}
    return [{"driver": "dra.net", "nodeName": NODE, "pool": pool, **part} for part in parts]


def _device(claim: Json) -> str | None:
    """Return the device that a claim has, if it has any."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results")
    return str(results[0]["device"]) if results else None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("api")
    scheduler = found("kube-scheduler")
    with GenuineApi(folder) as api:
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
        for name, driver in (("mig", DRIVER), ("net", "dra.net"), (LAST, LAST)):
            spec = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
            path = f"{GROUP}/deviceclasses"
            made.create(path, "DeviceClass", name, "resource.k8s.io/v1", spec=spec)
        api.start(scheduler, f"--kubeconfig={config}", "--leader-elect=false", "--secure-port=0")
        yield made


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
    cluster.see()
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


@pytest.mark.parametrize(
    ("pool", "given"),
    [
        ("", {"share": "gpu-0-share"}),
        (NODE, {"share": "gpu-0-share", "job": "vf-0", "job-1": "gpu-0"}),
    ],
    ids=["ours", "named as the node"],
)
def test_another_drivers_counters_do_not_free_a_gpu_that_has_shares(
    cluster: Cluster, pool: str, given: dict[str, str]
) -> None:
    """The scheduler keeps counters by the pool's name alone: with the node's, a GPU is given away twice."""
    for number, spec in enumerate(network_card()):
        cluster.create(PATH, "ResourceSlice", f"net-{number}", "resource.k8s.io/v1", spec=spec)
    for number, spec in enumerate(build(inventory(whole(0)), ALL, {}, {}, node=NODE, pool=pool)):
        cluster.create(PATH, "ResourceSlice", f"gpu-{number}", "resource.k8s.io/v1", spec=spec)
    cluster.see()
    kinds = {
        kind: {"deviceClassName": "mig", "selectors": [{"cel": {"expression": expression}}]}
        for kind, expression in (
            ("share", "device.allowMultipleAllocations"),
            ("gpu", "!device.allowMultipleAllocations"),
        )
    }
    cluster.ask("share", {**kinds["share"], "capacity": {"requests": {"memory": "1Gi"}}})
    cluster.given()
    cluster.ask("job", {"deviceClassName": "net"}, kinds["gpu"])
    try:
        assert cluster.given() == given
    finally:
        cluster.clean()
