# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which of the free devices a container should get."""

from __future__ import annotations

import pytest
from gpu_plugin._shared._base.gpu import Links
from gpu_plugin.advertise.allocation import AllocationRefused, UnknownDevice
from gpu_plugin.advertise.preference import prefer
from gpu_plugin.config.sharing import Share, Sharing
from gpu_plugin.model.inventory import Device
from gpu_plugin.model.topology import Topology
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import device, enumerate_devices, inventory, share, view

GPUS = tuple(device(index, index // 4) for index in range(8))


def names(*numbers: int) -> list[str]:
    return [f"GPU-{number}" for number in numbers]


PREFERRED = (
    (range(8), [], 1, [0]),
    (range(8), [], 4, [0, 1, 2, 3]),
    (range(8), [], 6, [0, 1, 2, 3, 4, 5]),
    (range(8), [5], 3, [5, 4, 6]),
    ([1, 4, 5, 6, 7], [], 1, [1]),  # the node that is broken into already
    ([1, 4, 5, 6, 7], [], 2, [4, 5]),  # together rather than the lowest
    ([1, 2, 3, 6, 7], [], 2, [6, 7]),
    ([0, 5, 6, 7], [0], 2, [0, 5]),
    ([0, 1, 4, 5, 6], [], 4, [0, 4, 5, 6]),
)


def test_gpus_of_one_numa_node_are_preferred() -> None:
    for available, required, size, expected in PREFERRED:
        found = prefer(GPUS, names(*available), names(*required), size)
        assert found == names(*expected), (available, required, size)


def test_preferred_avoids_unhealthy_devices_where_it_can() -> None:
    devices = (device(0, problem="XID 79"), device(1), device(2))
    assert prefer(devices, names(0, 1, 2), [], 2) == names(1, 2)
    assert prefer(devices, names(0, 1, 2), [], 3) == names(0, 1, 2)


def test_impossible_sizes_are_refused() -> None:
    for required, size in (([], 0), ([], -1), ([], 3), ([0, 1], 1)):
        with pytest.raises(AllocationRefused, match="can't be chosen"):
            prefer(GPUS, names(0, 1), names(*required), size)


def test_preferred_refuses_what_must_be_there_and_is_not() -> None:
    with pytest.raises(UnknownDevice):
        prefer(GPUS, names(0, 1), ["GPU-x"], 1)


@st.composite
def requests(draw: st.DrawFn) -> tuple[tuple[Device, ...], list[str], list[str], int]:
    nodes = st.sampled_from([None, 0, 1, 2])
    devices = tuple(device(index, draw(nodes)) for index in range(draw(st.integers(1, 10))))
    available = draw(st.lists(st.sampled_from(devices), min_size=1, unique=True))
    required = draw(st.lists(st.sampled_from(available), unique=True))
    size = draw(st.integers(max(1, len(required)), len(available)))
    return devices, [one.id for one in available], [one.id for one in required], size


@given(requests())
def test_a_choice_is_complete_deterministic_and_near(
    request: tuple[tuple[Device, ...], list[str], list[str], int],
) -> None:
    devices, available, required, size = request
    chosen = prefer(devices, available, required, size)
    assert len(chosen) == len(set(chosen)) == size
    assert set(required) <= set(chosen) <= set(available)
    assert chosen == prefer(devices, available[::-1], required, size)
    node = {one.id: one.numa_node for one in devices}
    room = {where: sum(node[one] == where for one in available) for where in node.values()}
    if not required and any(free >= size for free in room.values()):
        assert len({node[one] for one in chosen}) == 1


def linked(*groups: tuple[int, ...]) -> Topology:
    """GPUs that NVLink connects in groups."""
    links = {
        f"GPU-{one}": Links(0, {f"pci-{other}": 4 for other in group if other != one})
        for group in groups
        for one in group
    }
    return Topology(links=links, addresses={f"GPU-{one}": f"pci-{one}" for one in range(8)})


LINKED = (
    (range(8), [], 2, [0, 5]),
    (range(8), [6], 2, [6, 3]),
    (range(8), [], 1, [1]),  # it has no partner to lose
    ([0, 3, 5, 6], [], 3, [0, 3, 5]),
    ([0, 2, 3, 4, 6], [], 2, [3, 6]),
)


def test_nvlink_counts_more_than_the_processor() -> None:
    topology = linked((0, 5), (3, 6))
    for available, required, size, expected in LINKED:
        chosen = prefer(GPUS, names(*available), names(*required), size, topology=topology)
        assert chosen == names(*expected), (available, required, size)


def test_switches_connect_all_that_have_links_to_them() -> None:
    topology = Topology(links={name: Links(12, {}) for name in names(1, 4, 6)})
    assert prefer(GPUS, names(*range(8)), [], 3, topology=topology) == names(1, 4, 6)
    two = Topology(links={**topology.links, "GPU-6": Links(6, {})})
    assert prefer(GPUS, names(1, 4, 6), [], 2, topology=two) == names(1, 4)


def test_pcie_decides_where_no_link_does() -> None:
    levels = {frozenset(names(1, 2)): 10, frozenset(names(0, 1)): 20, frozenset(names(0, 2)): 20}
    assert prefer(GPUS, names(0, 1, 2), [], 2, topology=Topology(levels)) == names(1, 2)


def test_a_gpu_that_is_lost_fails_no_request() -> None:
    devices = (*GPUS[:3], device(3, 0, problem="fallen off the bus"), *GPUS[4:])
    topology = linked((2, 3), (0, 1))
    assert prefer(devices, names(*range(8)), [], 2, topology=topology) == names(0, 1)
    assert prefer(devices, names(*range(8)), [], 1, topology=topology) == names(2)
    assert len(prefer(devices, names(*range(8)), [], 7, topology=topology)) == 7


SHARED = share({"gpu": GPUS[:3]}, Sharing((Share("gpu", 4, "gpu"),)))["gpu"]


def replicas(*numbers: str) -> list[str]:
    return [f"GPU-{number.replace('.', '::')}" for number in numbers]


# What is busy and what is required, how many are asked for, and what is chosen when distributed and when packed.
SHARES = (
    ([], [], 1, ["0.0"], ["0.0"]),
    ([], [], 3, ["0.0", "1.0", "2.0"], ["0.0", "0.1", "0.2"]),
    ([], [], 5, ["0.0", "1.0", "2.0", "0.1", "1.1"], ["0.0", "0.1", "0.2", "0.3", "1.0"]),
    (["0.0"], [], 1, ["1.0"], ["0.1"]),
    (["0.0", "1.0", "1.1"], [], 2, ["2.0", "0.1"], ["1.2", "1.3"]),
    (["1.0"], ["0.2"], 2, ["0.2", "2.0"], ["0.2", "0.0"]),
)


def test_shares_are_spread_or_packed() -> None:
    for busy, required, size, distributed, packed in SHARES:
        available = [one.id for one in SHARED if one.id not in replicas(*busy)]
        for policy, expected in (("distributed", distributed), ("packed", packed)):
            chosen = prefer(SHARED, available, replicas(*required), size, policy)
            assert chosen == replicas(*expected), (busy, required, size, policy)


def test_mig_devices_are_spread_or_packed_over_their_gpus() -> None:
    views = [view(index, "1g.10gb", "1g.10gb", "1g.10gb") for index in range(2)]
    (devices,) = enumerate_devices(inventory(*views), "mixed").values()
    available = [one.id for one in devices if one.id != "MIG-1-0"]
    assert prefer(devices, available, [], 2, "distributed") == ["MIG-0-0", "MIG-0-1"]
    assert prefer(devices, available, [], 3, "distributed") == ["MIG-0-0", "MIG-0-1", "MIG-1-1"]
    assert prefer(devices, available, [], 2, "packed") == ["MIG-1-1", "MIG-1-2"]


@given(st.data(), st.sampled_from(["distributed", "packed"]))
def test_what_a_policy_promises(data: st.DataObject, policy: str) -> None:
    available = data.draw(st.lists(st.sampled_from([one.id for one in SHARED]), unique=True))
    if not available:
        return
    size = data.draw(st.integers(1, len(available)))
    chosen = prefer(SHARED, available, [], size, policy)
    assert len(set(chosen)) == size
    assert set(chosen) <= set(available)

    gpus = names(0, 1, 2)

    def used(free: set[str]) -> dict[str, int]:
        return {gpu: sum(one.uuid == gpu and one.id not in free for one in SHARED) for gpu in gpus}

    free = set(available)
    for one in chosen:  # each was the right one when it was picked
        load = used(free)
        open_ = [gpu for gpu in gpus if any(each.startswith(f"{gpu}::") for each in free)]
        limit = (min if policy == "distributed" else max)(load[gpu] for gpu in open_)
        assert load[one.partition("::")[0]] == limit
        free.discard(one)
