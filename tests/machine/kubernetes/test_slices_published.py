# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Slices as an API server takes them, with the kubelet's own credential."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.rate import Rate
from gpu_plugin.config.configuration import parse
from gpu_plugin.dra.publish import GateOff, Publisher
from gpu_plugin.dra.slice_api import PATH, SliceApi
from gpu_plugin.model.inventory import GpuView, Kind, Problem
from gpu_plugin.slices import build
from gpu_plugin.slices.changes import changes

from tests.fakes.daemon import mig_grids
from tests.fakes.daemon.gpu_builders import inventory, view
from tests.fakes.daemon.mig_grids import GRIDS
from tests.fakes.kubernetes.administered import OFF, Administered
from tests.support.waiting import eventually

NODE = "node-1"
SICK = Problem(Kind.LOST, "gone")
CONFIG = parse("gpuNode: {allocation: dra, dra: {memoryScaling: 1.5, oversubscribe: best-effort}}")
Json = dict[str, Any]


def slices(*views: GpuView, node: str = NODE, **more: Any) -> tuple[Json, ...]:
    now = replace(inventory(*views), cuda_version="12.4")
    return build(now, CONFIG, {}, more.pop("unenforced", {}), node=node, **more)


@pytest.fixture(scope="module")
def cluster(
    api_server: type[Administered], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Administered]:
    with api_server(tmp_path_factory.mktemp("api")) as made:
        for name in (NODE, "node-2"):
            made.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        yield made


@pytest.fixture
def kubelet(cluster: Administered) -> Iterator[Access]:
    access = cluster.access(f"system:node:{NODE}", "system:nodes")
    yield Access(str(cluster.folder / f"system-node-{NODE}.conf"), Rate(-1))
    access.close()
    cluster.admin.ask("cleaning up", "DELETE", PATH)


@pytest.fixture
def api(kubelet: Access) -> SliceApi:
    return SliceApi(kubelet, NODE)


def published(api: SliceApi, specs: tuple[Json, ...]) -> list[Json]:
    """Publish once; return what there is then."""
    publisher = Publisher(api, NODE)
    publisher.want(specs)
    publisher.sync()
    return api.all()[0]


@pytest.mark.parametrize("name", sorted(GRIDS))
def test_the_api_server_takes_the_slices_of_every_gpu(api: SliceApi, name: str) -> None:
    views = [mig_grids.view(GRIDS[name], (), index) for index in range(9)]
    first = GRIDS[name][0]
    standing = mig_grids.view(GRIDS[name], [(first, first.placements[0][0])], 9)
    views += [standing, replace(view(10), brand=14, pcie_root="pci0000:16")]
    views += [replace(view(11), problem=SICK)]
    specs = slices(*views, unenforced={"GPU-10": "not now"})
    there = published(api, specs)
    assert len(there) == len(specs) > 3
    assert changes(NODE, specs, there) == ()  # it has kept all of it, as it was written
    assert {one["spec"]["pool"]["generation"] for one in there} == {1}
    assert {one["metadata"]["ownerReferences"][0]["name"] for one in there} == {NODE}


def test_a_change_of_one_slice_stays_within_its_generation(api: SliceApi) -> None:
    before = published(api, slices(view(0), view(1)))
    after = published(api, slices(view(0), replace(view(1), problem=SICK)))
    assert [one["metadata"]["resourceVersion"] for one in after[:1]] == [
        one["metadata"]["resourceVersion"] for one in before[:1]
    ]
    assert {one["spec"]["pool"]["generation"] for one in after} == {1}
    tainted = [one for one in after[1]["spec"]["devices"] if "taints" in one]
    assert [one["name"] for one in tainted] == ["gpu-1", "gpu-1-share"]
    time = tainted[0]["taints"][0]["timeAdded"]
    also = slices(replace(view(0), problem=SICK), replace(view(1), problem=SICK))
    kept = published(api, also)[1]["spec"]["devices"]
    assert {one["taints"][0]["timeAdded"] for one in kept if "gpu-1" in one["name"]} == {time}


def test_more_and_fewer_slices_are_new_generations(api: SliceApi) -> None:
    many = slices(*(mig_grids.view(GRIDS["h100-80"], (), index) for index in range(6)))
    for number, specs in enumerate((slices(view(0)), many, slices(view(0)), slices()), 1):
        there = published(api, specs)
        assert changes(NODE, specs, there) == ()
        assert {one["spec"]["pool"]["generation"] for one in there} <= {number}
        assert len(there) == len(specs)


def test_what_a_kubelet_wiped_is_there_again(
    cluster: Administered, kubelet: Access, api: SliceApi
) -> None:
    specs = slices(view(0))
    publisher = Publisher(api, NODE)
    publisher.start()
    publisher.want(specs)
    settled(publisher, api, specs)
    # as a kubelet does when it starts
    kubelet.ask("wiping", "DELETE", PATH, query={"fieldSelector": f"spec.nodeName={NODE}"})
    settled(publisher, api, specs)
    found, _version = api.all()
    found[1]["spec"]["devices"].pop()
    cluster.admin.ask("meddling", "PUT", f"{PATH}/{found[1]['metadata']['name']}", found[1])
    settled(publisher, api, specs)
    publisher.stop()


def settled(publisher: Publisher, api: SliceApi, specs: tuple[Json, ...]) -> None:
    """Wait until what is wanted is there."""

    def done() -> bool:
        there = api.all()[0]
        return bool(there) and changes(NODE, specs, there) == () and not publisher.standing.problem

    eventually(done)


def test_a_node_writes_its_own_slices_and_no_others(kubelet: Access) -> None:
    other = SliceApi(kubelet, "node-2")
    with pytest.raises(ApiError) as error:
        other.all()
    assert error.value.status == 403
    spec = slices(view(0), node="node-2")[0]
    with pytest.raises(ApiError) as error:
        other.create("somebody-elses", spec, {**SliceApi(kubelet, NODE).owner()})
    assert error.value.status == 403


@pytest.mark.parametrize("gate", ["DRAPartitionableDevices", "DRAConsumableCapacity"])
def test_a_server_without_the_feature_gate_gets_no_slices(
    api_server: type[Administered], tmp_path: Path, gate: str
) -> None:
    with api_server(tmp_path, OFF.format(gate)) as cluster:
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        api = SliceApi(cluster.admin, NODE)
        with pytest.raises(GateOff, match=gate):
            published(api, slices(view(0)))
        assert api.all()[0] == []
