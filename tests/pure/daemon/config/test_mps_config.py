# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``sharing.mps``: NVIDIA's keys and ours, and who gets which shares."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from gpu_plugin.advertise.allocation import AllocationRefused, grant
from gpu_plugin.advertise.decide import Advertised, MpsState, offer
from gpu_plugin.advertise.preference import prefer
from gpu_plugin.config.configuration import Config, ContainerConfig, parse
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.model.inventory import Device, HostState
from gpu_plugin.model.mps.settings import Offer, Percent, Settings

from tests.fakes.daemon.gpu_builders import device, share
from tests.support.refusals import refused_otherwise

GPU = "nvidia.com/gpu"
UUIDS = tuple(f"GPU-{number:08d}-0000-0000-0000-000000000000" for number in range(3))
NODE = {
    GPU: tuple(
        replace(
            device(number),
            uuid=uuid,
            gpu_uuid=uuid,
            memory_total=80 << 30,
            compute_capability=(9, 0),
        )
        for number, uuid in enumerate(UUIDS)
    )
}


def parsed(
    *entries: dict[str, Any], slices: tuple[dict[str, Any], ...] = (), **more: Any
) -> Config:
    sharing: dict[str, Any] = {"mps": {**more, "resources": list(entries)}}
    if slices:
        sharing["timeSlicing"] = {"resources": list(slices)}
    return parse(json.dumps({"sharing": sharing}), "c.yaml")


def advertised(config: Config) -> dict[str, tuple[Device, ...]]:
    return share(NODE, config.sharing, config.sharing.mps_root)


def shared_by_mps(config: Config) -> dict[str, Offer]:
    devices = (device for devices in advertised(config).values() for device in devices)
    return {device.uuid: device.mps for device in devices if device.mps}


def settings(*entries: dict[str, Any], **more: Any) -> Settings:
    (one,) = parsed(*entries, **more).sharing.shares
    assert one.mps is not None
    return one.mps


def test_nvidias_keys_are_enough() -> None:
    text = """
version: v1
flags: {mpsRoot: /run/nvidia/mps}
sharing:
  mps:
    renameByDefault: true
    resources:
    - name: nvidia.com/gpu
      replicas: 10
"""
    config = parse(text)
    assert config.sharing.mps_root == "/run/nvidia/mps"
    (one,) = config.sharing.shares
    assert (one.offered_as, one.replicas, one.mps) == (f"{GPU}.shared", 10, Settings(10))
    assert parse("").sharing.mps_root == "/run/gpu-node/mps"
    assert parse("", env={"MPS_ROOT": "/run/other"}).sharing.mps_root == "/run/other"


def test_memory_threads_combine_and_priority_are_read() -> None:
    entry = {"name": "gpu", "replicas": 8, "memory": "4GiB", "threads": 10, "combine": 3}
    found = settings(
        {**entry, "overcommit": True, "priority": "below-normal"},
        onBusy="terminate",
        drain=5,
        multiUser=True,
    )
    assert found == Settings(
        8, 4 << 30, Percent(Decimal(10)), 3, True, "below-normal", 5, "terminate", True
    )
    assert settings({**entry, "memory": 4 << 30, "combine": True}).combine == 8
    assert settings({**entry, "combine": False}).combine == 1


def test_nvidias_switch_says_whether_shares_combine() -> None:
    for given, combine in ((None, 1), (True, 1), (False, 4)):
        more = {} if given is None else {"failRequestsGreaterThanOne": given}
        assert settings({"name": "gpu", "replicas": 4}, **more).combine == combine, given


REFUSED = {
    "{resources: [{name: gpu, replicas: 61}]}": ("from 1 to 60 clients",),
    "{resources: [{name: gpu, replicas: 4, threads: 30}]}": ("more threads than the device",),
    "{resources: [{name: gpu, replicas: 4, memory: 30%}]}": ("more memory than the device",),
    "{resources: [{name: gpu, replicas: 4, memory: lots}]}": ("memory: 'lots' is not valid",),
    "{resources: [{name: gpu, replicas: 4, memory: true}]}": ("memory: True is not valid",),
    "{resources: [{name: gpu, replicas: 4, combine: 5}]}": ("whole number from 1 to 4",),
    "{failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 4, combine: 2}]}": (
        "resources[0].combine: 2 is not valid",
        "one share a container",
    ),
    "{onBusy: maybe, resources: [{name: gpu, replicas: 4}]}": ("one of wait, refuse, terminate",),
    "{drain: 0, resources: [{name: gpu, replicas: 4}]}": ("sharing.mps.drain: 0 is not valid",),
    "{multiUser: always, resources: [{name: gpu, replicas: 4}]}": (
        "sharing.mps.multiUser: 'always' is not valid",
        "expected true or false",
    ),
    "{resources: [{name: gpu, replicas: 4, priority: high}]}": ("one of normal, below-normal",),
    "{resources: [{name: gpu, replicas: 4, overcommit: 1}]}": ("expected true or false",),
    "{resources: [{name: gpu, replicas: 4, memroy: 1}]}": (
        "did you mean sharing.mps.resources.memory?",
    ),
    "{resources: [{name: gpu, replicas: 4}, {name: gpu, replicas: 2}]}": ("is shared twice",),
}


def test_refusals_say_where_and_what() -> None:
    def read(text: str) -> Config:
        return parse(f"sharing:\n  mps: {text}", "c.yaml")

    cases = ((text, ("refused: c.yaml: line 2: ", *words)) for text, words in REFUSED.items())
    assert refused_otherwise(read, cases, ConfigError) == []


@pytest.mark.attack("mps-root-of-a-user")
def test_the_root_is_a_short_absolute_path_that_leads_nowhere_else() -> None:
    cases = {
        "run": "absolute path",
        "/a b": "letters",
        f"/{'x' * 60}": "shorter path",
        **dict.fromkeys(("/../../etc", "/run/../etc", "/run/mps/.."), "expected a path without .."),
    }

    def read(root: str) -> Config:
        return parse(json.dumps({"flags": {"mpsRoot": root}}))

    assert refused_otherwise(read, cases.items(), ConfigError) == []


def test_both_strategies_on_different_gpus() -> None:
    config = parsed(
        {"name": "gpu", "replicas": 2, "devices": [0]},
        slices=({"name": "gpu", "replicas": 3, "devices": [1]},),
    )
    devices = advertised(config)[GPU]
    assert [(one.id, one.mps is not None) for one in devices] == [
        *((f"{UUIDS[0]}::{number}", True) for number in range(2)),
        *((f"{UUIDS[1]}::{number}", False) for number in range(3)),
        (UUIDS[2], False),
    ]


def test_on_one_gpu_mps_wins_over_time_slicing() -> None:
    config = parsed(
        {"name": "gpu", "replicas": 2, "devices": [0]},
        slices=({"name": "gpu", "replicas": 3, "devices": [0, 1]},),
    )
    devices = advertised(config)[GPU]
    assert [one.mps is not None for one in devices] == [True] * 2 + [False] * 4
    assert [one.uuid for one in devices] == [UUIDS[0]] * 2 + [UUIDS[1]] * 3 + [UUIDS[2]]


def test_what_a_device_does_not_allow_is_its_problem() -> None:
    config = parsed({"name": "gpu", "replicas": 50})
    assert (
        "MPS takes from 1 to 48 clients"
        in Advertised(offered=offer(NODE, config.sharing)).unsharable
    )
    for one in advertised(config)[GPU]:
        assert str(one.problem).startswith("it can't be shared by MPS: 50 shares")
    assert shared_by_mps(config) == {}
    assert Advertised(advertised(parse(""))).unsharable == ""


def test_one_share_is_a_share() -> None:
    assert [one.id for one in advertised(parsed({"name": "gpu", "replicas": 1}))[GPU]] == [
        f"{uuid}::0" for uuid in UUIDS
    ]


def test_problems_hold_devices_back() -> None:
    config = parsed({"name": "gpu", "replicas": 2})
    mps = MpsState({UUIDS[1]: "starting"}, frozenset(UUIDS[2:]))
    found = (
        Advertised(share(NODE, config.sharing, config.sharing.mps_root)).judged(mps).resources[GPU]
    )
    assert [str(one.problem or "") for one in found] == ["", "", "starting", "starting", "", ""]
    assert [one.mps.own_shm for one in found if one.mps] == [True] * 4 + [False] * 2


def ids(*places: tuple[int, int]) -> list[str]:
    return [f"{UUIDS[gpu]}::{number}" for gpu, number in places]


def given(config: Config, *places: tuple[int, int]) -> dict[str, str]:
    return grant(advertised(config)[GPU], ids(*places), config, HostState()).envs


def test_shares_of_one_device_add_up() -> None:
    config = parsed({"name": "gpu", "replicas": 8, "combine": True, "priority": "below-normal"})
    assert given(config, (1, 0), (1, 5), (1, 7)) == {
        "NVIDIA_VISIBLE_DEVICES": UUIDS[1],
        "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=30720M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "37.5",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
    }


def test_requests_that_can_not_be_granted() -> None:
    for more, places, words in (
        ({}, ((0, 0), (0, 1)), "maximum request size for shared resources is 1; found 2"),
        ({"combine": 2}, ((0, 0), (0, 1), (0, 2)), "from 1 to 2 are allowed"),
        ({"combine": 2}, ((0, 0), (1, 0)), "shares of several devices can't be given to one"),
    ):
        with pytest.raises(AllocationRefused, match=words):
            given(parsed({"name": "gpu", "replicas": 4, **more}), *places)


def test_share_beside_a_whole_device_is_refused() -> None:
    config = parsed({"name": "gpu", "replicas": 4, "devices": [0], "combine": 2})
    with pytest.raises(AllocationRefused, match="several devices"):
        grant(advertised(config)[GPU], [*ids((0, 0)), UUIDS[1]], config, HostState())


def test_cdi_has_variables_and_mounts_too() -> None:
    config = replace(
        parsed({"name": "gpu", "replicas": 2}),
        containers=ContainerConfig(device_list_strategies=("cdi-cri",)),
    )
    host = HostState(cdi_devices=frozenset(UUIDS))
    found = grant(advertised(config)[GPU], ids((0, 1)), config, host)
    assert found.cdi_devices == (f"k8s.device-plugin.nvidia.com/gpu={UUIDS[0]}",)
    assert found.envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert [one.inside for one in found.mounts] == ["/tmp/nvidia-mps", "/dev/shm"]


def test_shares_for_one_container_are_of_one_device() -> None:
    for policy in ("distributed", "packed"):
        devices = advertised(parsed({"name": "gpu", "replicas": 3, "combine": 3}))[GPU]
        free = ids((0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 2))
        chosen = prefer(devices, free, [], 2, policy)
        assert {one.partition("::")[0] for one in chosen} == {
            UUIDS[1] if policy == "distributed" else UUIDS[0]
        }, policy
        assert {one.partition("::")[0] for one in prefer(devices, free, [], 3, policy)} == {
            UUIDS[1]
        }, policy
        assert prefer(devices, free, ids((0, 1)), 2, policy) == ids((0, 1), (0, 0)), policy
        assert len(prefer(devices, free, [], 4, policy)) == 4, (
            policy
        )  # which Allocate refuses, with the reason


def test_whole_devices_are_not_mixed_with_shares() -> None:
    devices = advertised(parsed({"name": "gpu", "replicas": 2, "devices": [0], "combine": 2}))[GPU]
    free = [*ids((0, 0)), UUIDS[1], UUIDS[2]]
    assert set(prefer(devices, free, [], 2)) == {UUIDS[1], UUIDS[2]}


def test_settings_of_an_offer_name_the_root_too() -> None:
    config = parse(
        json.dumps(
            {
                "flags": {"mpsRoot": "/run/other"},
                "sharing": {
                    "mps": {"resources": [{"name": "gpu", "replicas": 4, "memory": "25%"}]}
                },
            }
        )
    )
    asked = shared_by_mps(config)[UUIDS[0]].settings
    assert asked == Settings(4, Percent(Decimal(25)), root="/run/other")
