# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From what the kubelet has given to pods to the GPU, or the instance of one, that it is."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.dra.names import mig_name
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Gpu, GpuInstance, MigDevice
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import (
    Allocation,
    Devices,
    Holder,
    Place,
    checkpoint,
    holders,
    is_gpu,
    names,
    parse,
    places,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.gpu_values import gpu, mig

PROFILE = 19


def one_gpu(index: int, migs: int) -> Devices:
    """Return a GPU with a minor of its own, and with instances that have ids from 7 on."""
    # As after a reboot with one GPU less: minors are not indices.
    whole = gpu(index, minor=index + 8, mig=migs > 0)
    devices = tuple(mig(whole, number) for number in range(migs))
    instances = tuple(
        GpuInstance(one.gi_id, PROFILE, number, 1) for number, one in enumerate(devices)
    )
    return Devices(whole, instances, devices)


NODES = st.lists(st.integers(0, 7), min_size=1, max_size=8).map(
    lambda counts: [one_gpu(index, migs) for index, migs in enumerate(counts)]
)


def allocation(device: str, resource: str = "nvidia.com/gpu") -> Allocation:
    return Allocation("team", "train", "main", resource, device)


WHOLE: dict[str, Callable[[Gpu], tuple[str, str]]] = {
    "its UUID": lambda one: ("nvidia.com/gpu", one.uuid),
    "a share": lambda one: ("nvidia.com/gpu.shared", f"{one.uuid}::3"),
    "a name of the user's": lambda one: ("nvidia.com/notebooks", f"{one.uuid}::0"),
    "another vendor's plugin": lambda one: ("volcano.sh/vgpu-number", f"{one.uuid}-4"),
    "its index": lambda one: ("nvidia.com/gpu", str(one.index)),
    "a share of its index": lambda one: ("nvidia.com/gpu", f"{one.index}::1"),
    "Google's name": lambda one: ("nvidia.com/gpu", f"nvidia{one.minor}"),
    "Google's share": lambda one: ("nvidia.com/gpu", f"nvidia{one.minor}/vgpu2"),
    "DRA": lambda one: ("gpu.nvidia.com", f"gpu-{one.minor}"),
    "a share by our DRA driver": lambda one: ("gpu.node", f"gpu-{one.minor}-share"),
    "our DRA driver": lambda one: ("gpu.node", f"gpu-{one.minor}"),
    "a CDI name of our DRA driver": lambda one: ("gpu.node/claim", f"3f-2c-gpu-{one.minor}-share"),
    "a CDI name of DRA": lambda one: ("k8s.gpu.nvidia.com/claim", f"3f2c-gpu-{one.minor}"),
    "a PCI address": lambda one: ("nvidia.com/gpu", one.pci_bus_id.upper()),
}
PART: dict[str, Callable[[Gpu, MigDevice], tuple[str, str]]] = {
    "its UUID": lambda _gpu, one: ("nvidia.com/mig-1g.5gb", one.uuid),
    "a share": lambda _gpu, one: ("nvidia.com/mig-1g.5gb.shared", f"{one.uuid}::5"),
    "single strategy": lambda _gpu, one: ("nvidia.com/gpu", one.uuid),
    "its index": lambda whole, one: ("nvidia.com/mig-1g.5gb", f"{whole.index}:{one.mig_index}"),
    "an old UUID": lambda whole, one: (
        "nvidia.com/mig-1g.5gb",
        f"MIG-{whole.uuid}/{one.gi_id}/{one.ci_id}",
    ),
}
INSTANCE: dict[str, Callable[[Gpu, MigDevice], tuple[str, str]]] = {
    "Google's name": lambda whole, one: ("nvidia.com/gpu", f"nvidia{whole.minor}/gi{one.gi_id}"),
    "DRA": lambda whole, one: (
        "gpu.nvidia.com",
        f"gpu-{whole.minor}-mig-{PROFILE}-{one.mig_index}-1",
    ),
    "our DRA driver": lambda whole, one: (
        "gpu.node",
        mig_name(whole.minor, "1g.5gb+me", PROFILE, one.mig_index),
    ),
}


@given(node=NODES, way=st.sampled_from(sorted(WHOLE)), data=st.data())
def test_a_whole_gpu_is_found_by_any_name_and_no_other(
    node: list[Devices], way: str, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(node)).gpu
    resource, device = WHOLE[way](chosen)
    assert places(allocation(device, resource), node) == [Place(chosen.uuid)]


@given(node=NODES, way=st.sampled_from(sorted({*PART, *INSTANCE})), data=st.data())
def test_a_part_of_a_gpu_is_found_by_any_name_and_no_other(
    node: list[Devices], way: str, data: st.DataObject
) -> None:
    parts = [(one.gpu, each) for one in node for each in one.migs]
    if not parts:
        return
    whole, part = data.draw(st.sampled_from(parts))
    for ways, place in (
        (PART, Place(whole.uuid, part.gi_id, part.ci_id)),
        (INSTANCE, Place(whole.uuid, part.gi_id)),
    ):
        if way in ways:
            resource, device = ways[way](whole, part)
            assert places(allocation(device, resource), node) == [place]


@given(node=NODES)
def test_what_can_not_be_read_may_be_anything_and_so_is_everything(node: list[Devices]) -> None:
    found = places(allocation("the blue one"), node)
    assert {one.gpu for one in found if one.gi is None} == {one.gpu.uuid for one in node}
    assert {(one.gpu, one.gi) for one in found if one.gi is not None} == {
        (one.gpu.uuid, each.id) for one in node for each in one.instances
    }


@pytest.mark.parametrize(
    ("resource", "device"),
    [
        ("nvidia.com/hostdev", "0000:03:00.2"),  # a network card of NVIDIA's network operator
        ("nvidia.com/rdma_shared_device_a", "12"),
        ("compute-domain.nvidia.com", "channel-0"),
        ("example.com/fpga", "0"),
        ("cpu", "gpu-0"),
    ],
)
def test_what_is_no_gpu_concerns_none(resource: str, device: str) -> None:
    one = allocation(device, resource)
    assert not is_gpu(one)
    assert places(one, [one_gpu(0, 2)]) == []
    assert names([one]) == ()


def test_what_is_gone_is_nowhere() -> None:
    """A MIG device that no GPU has any more can't be taken away again."""
    gone = mig(gpu(5), 3).uuid
    assert places(allocation(gone, "nvidia.com/mig-1g.5gb"), [one_gpu(0, 2)]) == []


def test_shares_of_a_device_are_told_once() -> None:
    node = [one_gpu(0, 0)]
    uuid = node[0].gpu.uuid
    shares = [allocation(f"{uuid}::{number}", "nvidia.com/gpu.shared") for number in range(3)]
    words = f"pod team/train (container main) with nvidia.com/gpu.shared {uuid}"
    assert names(shares) == (words,)
    assert holders(shares, node) == {uuid: (Holder(words),)}


def test_names_steer_no_terminal() -> None:
    assert "\x1b" not in str(allocation("\x1b[2J"))


ALLOCATIONS = st.builds(Allocation, *[st.text(max_size=8)] * 5)


@given(st.lists(ALLOCATIONS, max_size=5), NODES)
def test_whatever_is_given_is_placed_on_gpus_that_are_there(
    given_away: list[Allocation], node: list[Devices]
) -> None:
    text = json.dumps({"version": 1, "allocations": [vars(one) for one in given_away]})
    assert parse(text) == tuple(given_away)
    assert set(holders(given_away, node)) == {one.gpu.uuid for one in node}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"version": 2, "allocations": []}', '{"version": 1}', "[" * 9999),
        *('{"version": 1, "allocations": [{"pod": "x"}]}', '{"version": 1, "allocations": [3]}'),
    ],
)
def test_an_answer_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(NodeError, match="can't be read"):
        parse(text)


# Kubernetes 1.36's own, with a device on no NUMA node, and its form before 1.20.
KEPT = """{"Data":{"PodDeviceEntries":[{"PodUID":"0f1e2d3c-aaaa-bbbb-cccc-0123456789ab","ContainerName":"web",
"ResourceName":"nvidia.com/gpu","DeviceIDs":%s,"AllocResp":"CkIK"}],"RegisteredDevices":{"nvidia.com/gpu":["GPU-1"]}},
"Checksum":12}"""


@pytest.mark.parametrize("ids", ['{"-1":["GPU-1"]}', '{"0":[],"1":["GPU-1"]}', '["GPU-1"]'])
def test_the_kubelets_checkpoint(ids: str) -> None:
    uid = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
    assert checkpoint(KEPT % ids) == (Allocation("", uid, "web", "nvidia.com/gpu", "GPU-1"),)
    empty = '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}'
    assert checkpoint(empty) == ()


@pytest.mark.parametrize("text", ["", "[]", '{"Data": 3}', KEPT % "3", KEPT % "[3]"])
def test_a_checkpoint_of_another_form_is_an_error(text: str) -> None:
    with pytest.raises(NodeError, match="can't be read"):
        checkpoint(text)
