# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that several containers use at once."""

from __future__ import annotations

import pytest
from gpu_plugin.advertise.allocation import AllocationRefused, grant
from gpu_plugin.advertise.decide import describe_sharing
from gpu_plugin.config.configuration import Config, ContainerConfig
from gpu_plugin.config.sharing import Naming, Rule, Share, Sharing
from gpu_plugin.model.inventory import GpuView, HostState, Resources
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import device, enumerate_devices, gpu, inventory, share, view

GPU, OTHER = "nvidia.com/gpu", "nvidia.com/slow"
NODE: Resources = {GPU: tuple(device(index) for index in range(3))}


def ids(*shares: Share, node: Resources | None = None) -> dict[str, list[str]]:
    found = share(NODE if node is None else node, Sharing(shares))
    return {name: [one.id for one in devices] for name, devices in found.items()}


def test_replicas_are_numbered_and_take_the_devices_place() -> None:
    assert ids(Share(GPU, 2, GPU)) == {GPU: [f"GPU-{i}::{n}" for i in range(3) for n in range(2)]}
    assert ids(Share(GPU, 2, f"{GPU}.shared")).keys() == {f"{GPU}.shared"}


def test_replicas_are_what_the_device_is() -> None:
    node = {GPU: (device(0, 1, problem="XID 79"),)}
    for one in share(node, Sharing((Share(GPU, 3, GPU),)))[GPU]:
        assert (one.uuid, one.index, one.numa_node, str(one.problem)) == ("GPU-0", "0", 1, "XID 79")


def test_each_device_goes_to_the_first_share_that_names_it() -> None:
    found = ids(Share(GPU, 3, OTHER, devices=("1", "GPU-2")), Share(GPU, 2, GPU))
    assert found == {
        GPU: ["GPU-0::0", "GPU-0::1"],
        OTHER: [f"GPU-{i}::{n}" for i in (1, 2) for n in range(3)],
    }


def test_what_no_share_names_stays_whole() -> None:
    assert ids(Share(GPU, 2, GPU, first=1)) == {GPU: ["GPU-0::0", "GPU-0::1", "GPU-1", "GPU-2"]}
    assert ids(Share(GPU, 2, GPU, devices=("2",)))[GPU] == [
        "GPU-0",
        "GPU-1",
        "GPU-2::0",
        "GPU-2::1",
    ]
    assert ids() == ids(Share(OTHER, 2, OTHER)) == {GPU: ["GPU-0", "GPU-1", "GPU-2"]}


def test_one_replica_is_the_device_itself() -> None:
    assert ids(Share(GPU, 1, OTHER)) == {OTHER: ["GPU-0", "GPU-1", "GPU-2"]}


def test_mig_devices_go_by_index_uuid_and_instance() -> None:
    node = enumerate_devices(inventory(view(0, "1g.10gb", "1g.10gb", "1g.10gb")), "mixed")
    name = "nvidia.com/mig-1g.10gb"
    chosen = ("0:0", "MIG-0-1", "MIG-GPU-0/9/0")
    assert len(ids(Share(name, 2, name, devices=chosen), node=node)[name]) == 6
    for one in chosen:
        assert len(ids(Share(name, 2, name, devices=(one,)), node=node)[name]) == 4


def test_models_are_shared_each_in_its_own_way() -> None:
    names = Naming((Rule("*A100*", "nvidia.com/a100"), Rule("*T4*", "nvidia.com/t4")))
    views = (GpuView(gpu(0, name="NVIDIA A100")), GpuView(gpu(1, name="Tesla T4")), view(2))
    node = enumerate_devices(inventory(*views), "none", names)
    assert ids(Share("nvidia.com/t4", 2, "nvidia.com/t4"), node=node) == {
        "nvidia.com/a100": ["GPU-0"],
        GPU: ["GPU-2"],
        "nvidia.com/t4": ["GPU-1::0", "GPU-1::1"],
    }


def test_what_is_not_there_is_said() -> None:
    sharing = Sharing((Share(OTHER, 2, OTHER), Share(GPU, 2, GPU, devices=("0", "7"))))
    assert list(describe_sharing(NODE, sharing)) == [
        f"sharing names {OTHER}, which this node does not have",
        f"sharing names device 7, which is none of {GPU}",
    ]


def config(*, one_each: bool) -> Config:
    return Config(sharing=Sharing((Share(GPU, 2, GPU),), one_each))


@pytest.mark.parametrize("one_each", [True, False])
def test_how_many_shares_a_container_may_have(one_each: bool) -> None:
    asked = config(one_each=one_each)
    replicas = share(NODE, asked.sharing)[GPU]
    assert grant(replicas, ["GPU-1::1"], asked, HostState()).envs == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1"
    }
    two = ["GPU-1::0", "GPU-2::0"]
    if one_each:
        with pytest.raises(AllocationRefused, match="shared resources is 1; found 2"):
            grant(replicas, two, asked, HostState())
    else:
        assert grant(replicas, two, asked, HostState()).envs == {
            "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"
        }
    whole = grant(NODE[GPU], ["GPU-1", "GPU-2"], asked, HostState())
    assert whole.envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"}


@pytest.mark.parametrize(("strategy", "name"), [("uuid", "GPU-1"), ("index", "1")])
def test_two_shares_of_a_device_are_one_device(strategy: str, name: str) -> None:
    sharing = Sharing((Share(GPU, 2, GPU),))
    asked = Config(
        containers=ContainerConfig(device_id_strategy=strategy, pass_device_specs=True),
        sharing=sharing,
    )
    got = grant(share(NODE, sharing)[GPU], ["GPU-1::1", "GPU-1::0"], asked, HostState())
    assert got.envs == {"NVIDIA_VISIBLE_DEVICES": name}
    assert got.nodes == (("/dev/nvidia1", "/dev/nvidia1"),)


@st.composite
def sharings(draw: st.DrawFn) -> Sharing:
    entries = st.builds(
        Share,
        st.sampled_from([GPU, OTHER]),
        st.integers(1, 4),
        st.sampled_from([GPU, OTHER, "nvidia.com/x"]),
        st.none() | st.integers(1, 4),
        st.lists(st.sampled_from(["0", "GPU-1", "2", "9"]), unique=True).map(tuple),
    )
    return Sharing(tuple(draw(st.lists(entries, max_size=4))))


@given(sharings())
def test_no_device_is_lost_or_offered_twice(sharing: Sharing) -> None:
    found = [one for devices in share(NODE, sharing).values() for one in devices]
    assert len({one.id for one in found}) == len(found)
    assert {one.uuid for one in found} == {"GPU-0", "GPU-1", "GPU-2"}
    for uuid in ("GPU-0", "GPU-1", "GPU-2"):
        numbers = [one.replica for one in found if one.uuid == uuid]
        assert numbers in ([None], list(range(len(numbers))))
