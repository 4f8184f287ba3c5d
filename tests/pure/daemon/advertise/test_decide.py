# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node offers is decided in one place, from values alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from gpu_plugin._shared._base.gpu import Condition
from gpu_plugin.advertise.allocation import grant, qualified
from gpu_plugin.advertise.decide import MpsState, decide, narrow
from gpu_plugin.config.configuration import Config, ContainerConfig, parse
from gpu_plugin.model.inventory import HostState, Inventory, Kind, Place, Problem
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import inventory, view

GPU = "nvidia.com/gpu"
FIRST, SECOND = (f"GPU-00000000-0000-0000-0000-00000000000{n}" for n in range(2))
NODE = inventory(
    *(
        replace(one, gpu=replace(one.gpu, uuid=uuid))
        for one, uuid in ((view(0), FIRST), (view(1), SECOND))
    )
)
SHARED = parse("sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: ['0']}]}}")
PROBLEMS = st.sampled_from(["", "its MPS control daemon is about to start", "its limits change"])


def test_all_that_is_said_comes_with_what_is_offered() -> None:
    advertised = decide(inventory(view(0, on=True)), {}, parse("flags: {migStrategy: mixed}"))
    assert advertised.resources == {}
    assert advertised.notes == ("GPU 0 (GPU-0) is in MIG mode and has no MIG devices",)
    assert advertised.refusal is None


def test_a_strategy_that_does_not_fit_is_a_refusal_and_no_exception() -> None:
    advertised = decide(
        inventory(view(0), view(1, "1g.10gb")), {}, parse("flags: {migStrategy: single}")
    )
    assert "needs MIG mode on all GPUs" in str(advertised.refusal)
    assert (advertised.resources, advertised.mps) == ({}, {})


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (None, ""),
        (0, ""),
        (2, "compute mode PROHIBITED, which refuses every process"),
        (3, "compute mode EXCLUSIVE_PROCESS, which refuses a second process"),
    ],
)
def test_a_mode_that_refuses_processes_is_told_of(mode: int | None, words: str) -> None:
    modes = (0, mode)
    node = replace(
        NODE,
        gpus=tuple(
            replace(one, condition=Condition(compute_mode=each))
            for one, each in zip(NODE.gpus, modes, strict=True)
        ),
    )
    whole, shared = decide(node, {}, parse("")), decide(node, {}, SHARED)
    hint = f". Next step: nvidia-smi --id={SECOND} --compute-mode=DEFAULT"
    wanted = [f"GPU 1 ({SECOND}) is in {words}{hint}"] if words else []
    assert narrow(whole, whole, node) == wanted
    by_mps = decide(node, {}, parse("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}"))
    assert narrow(by_mps, by_mps, node) == []  # it is MPS' own
    leaving = decide(node, {}, parse("")).judged(MpsState({SECOND: "it is about to end"}))
    assert narrow(whole, leaving, node) == []  # what MPS has just given back is read again
    assert narrow(shared, whole, node) == wanted


def test_what_mps_can_not_share_has_a_problem_of_its_kind() -> None:
    advertised = decide(NODE, {}, parse("sharing: {mps: {resources: [{name: gpu, replicas: 50}]}}"))
    assert "50 shares can't be made of this device" in advertised.unsharable
    (devices,) = advertised.resources.values()
    assert {one.problem.kind for one in devices if one.problem} == {Kind.UNSHARABLE}
    assert advertised.mps == {}


def test_without_its_driver_a_node_offers_devices_that_nobody_gets() -> None:
    advertised = decide(replace(NODE, absent="the NVIDIA driver is not loaded"), {}, SHARED)
    (devices,) = advertised.resources.values()
    assert len(devices) == 3
    assert {(one.problem.kind, str(one.problem)) for one in devices if one.problem} == {
        (Kind.NO_DRIVER, "the NVIDIA driver is not loaded")
    }


def test_without_a_node_that_all_gpus_share_a_node_offers_devices_that_nobody_gets() -> None:
    now = replace(NODE, nodes="/dev/nvidia-uvm does not exist")
    (devices,) = decide(now, {}, SHARED).resources.values()
    (problem,) = {one.problem for one in devices}
    assert problem is not None
    assert problem.kind is Kind.NO_NODE
    assert str(problem) == (
        "/dev/nvidia-uvm does not exist, and no container has CUDA without it. Next step: systemctl restart "
        "gpu-device-nodes.service, or run gpu.node.nvidia_driver"
    )


@given(PROBLEMS, PROBLEMS)
def test_mps_holds_back_its_own_shares_and_changes_no_other_problem(one: str, other: str) -> None:
    mps = MpsState({uuid: why for uuid, why in ((FIRST, one), ("GPU-9", other)) if why})
    (devices,) = decide(NODE, {}, SHARED).judged(mps).resources.values()
    told = {device.id: str(device.problem or "") for device in devices}
    assert told == {f"{FIRST}::0": one, f"{FIRST}::1": one, SECOND: ""}
    (devices,) = decide(replace(NODE, absent="gone"), {}, SHARED).judged(mps).resources.values()
    assert {str(device.problem) for device in devices} == {"gone"}


def kinds(config: Config, host: HostState, now: Inventory = NODE) -> list[Kind | None]:
    """The kind of each device's problem."""
    found = decide(now, {}, config, host=host).resources.values()
    return [one.problem and one.problem.kind for devices in found for one in devices]


@pytest.mark.parametrize("ids", ["uuid", "index"])
def test_what_no_container_runtime_knows_is_nobodys(ids: str) -> None:
    config = parse(f"flags: {{plugin: {{deviceListStrategy: cdi-cri, deviceIDStrategy: {ids}}}}}")
    host = HostState(cdi_devices=frozenset(["1", SECOND]))
    assert kinds(config, host) == [Kind.NO_CDI, None]
    assert kinds(Config(), host) == [None, None]
    found = decide(NODE, {}, config, host=HostState()).resources[GPU]
    name = FIRST if ids == "uuid" else "0"
    assert f"knows the CDI device k8s.device-plugin.nvidia.com/gpu={name}:" in str(found[0].problem)


def test_a_gpu_in_mig_mode_that_no_specification_has_whole_is_nobodys() -> None:
    """Else each pod that the scheduler sends there fails for good."""
    config = parse("flags: {migStrategy: none, plugin: {deviceListStrategy: cdi-cri}}")
    host = HostState(cdi_devices=frozenset(["GPU-0", "MIG-1-0"]))
    now = inventory(view(0), view(1, "1g.10gb"))
    assert kinds(config, host, now) == [None, Kind.NO_CDI]
    why = str(decide(now, {}, config, host=host).resources[GPU][1].problem)
    assert why.startswith("it is in MIG mode, and CDI describes no whole GPU that is")
    assert "migStrategy" in why
    assert "regenerate" not in why  # which would be in vain


def test_without_a_channel_that_is_required_nobody_gets_a_device() -> None:
    config = parse("imex: {channelIDs: [0], required: true}")
    assert kinds(config, HostState()) == [Kind.NO_CHANNEL] * 2
    assert kinds(config, HostState(imex_channels=("0",))) == [None, None]
    assert kinds(
        replace(config, containers=replace(config.containers, imex_required=False)), HostState()
    ) == [None, None]


def test_more_devices_than_the_kubelet_can_be_told_of_are_named() -> None:
    config = parse("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4096}]}}")
    many = inventory(*(view(number) for number in range(13)))
    assert decide(many, {}, config).crowded == (
        "nvidia.com/gpu would have 53248 devices, and the kubelet takes at most 50000"
    )
    assert decide(inventory(*many.gpus[:12]), {}, config).crowded == ""


def test_what_the_status_has_of_a_device_does_not_grow_with_its_shares() -> None:
    sick = [view(number, problem="it is off the bus " * 20) for number in range(12)]
    sizes = []
    for replicas in (2, 4096):
        sharing = (
            f"{{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}"
        )
        (devices,) = decide(inventory(*sick), {}, parse(f"sharing: {sharing}")).resources.values()
        assert set(devices.shares.values()) == {replicas}
        sizes.append(len(json.dumps([devices.health, devices.problems, devices.shares])))
    assert sizes[1] - sizes[0] == 3 * len(sick)  # the digits of the numbers


def test_a_gpu_for_which_nvml_does_not_answer_is_known_and_nobodys() -> None:
    both = frozenset(["GPU-1"])
    now = replace(inventory(view(0, "1g.10gb"), view(1, "1g.10gb")), slow=both, hung=both)
    advertised = decide(now, {}, parse("flags: {migStrategy: mixed}"))
    (devices,) = advertised.resources.values()
    assert [one.problem and one.problem.kind for one in devices] == [None, Kind.HUNG]
    assert advertised.notes == ()


def test_a_slow_driver_takes_no_device_away_and_is_told_of() -> None:
    now = replace(NODE, slow=frozenset([SECOND]))
    advertised = decide(now, {}, SHARED)
    assert advertised.resources == decide(NODE, {}, SHARED).resources
    assert advertised.notes == (
        f"the driver is slow: GPU 1 ({SECOND}) stays as it was when it answered last",
    )


STRATEGIES = ["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]
NAMES = st.frozensets(st.sampled_from(["0", "1", "GPU-0", "GPU-1", "MIG-1-0", "MIG-1-1"]))


@given(
    st.lists(st.sampled_from(STRATEGIES), min_size=1, unique=True).map(tuple),
    st.sampled_from(["none", "mixed"]),
    st.sampled_from(["uuid", "index"]),
    st.builds(HostState, imex_channels=st.sampled_from([(), ("0",)]), cdi_devices=NAMES),
    st.booleans(),
    st.dictionaries(
        st.sampled_from([("GPU-0", None, None), ("GPU-1", 7, 0)]),
        st.just(Problem(Kind.FAULT, "XID 79")),
    ),
)
def test_what_is_advertised_as_healthy_is_granted(
    strategies: tuple[str, ...],
    mig: str,
    ids: str,
    host: HostState,
    required: bool,
    faults: dict[Place, Problem],
) -> None:
    """Allocate has no refusal of its own for a device without a problem."""
    config = Config(
        mig_strategy=mig,
        containers=ContainerConfig(
            device_list_strategies=strategies,
            device_id_strategy=ids,
            imex_channels=("0",),
            imex_required=required,
        ),
    )
    now = inventory(view(0), view(1, "1g.10gb", "1g.10gb"))
    for devices in decide(now, faults, config, host=host).resources.values():
        for one in devices:
            if not one.problem:
                got = grant(devices, [one.id], config, host)
                assert set(got.cdi_devices) <= {qualified(name) for name in host.cdi_devices}
