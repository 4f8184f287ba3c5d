# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What nodes advertise and Allocate answers, their ResourceSlices and labels, as they are recorded in golden.json.

``python -m tests.pure.daemon.advertise.test_golden`` records them anew, where a change of them is meant.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.gpu import Condition
from gpu_plugin._shared._node.quarantine import OPERATOR, Quarantine, Quarantined
from gpu_plugin._shared._node.users.allocated import UNREPORTED, Allocation
from gpu_plugin._shared._repair.signs import Action
from gpu_plugin.advertise.allocation import AllocationRefused, grant
from gpu_plugin.advertise.decide import Advertised, Holders, MpsState, decide, narrow, time_slices
from gpu_plugin.config.configuration import Config, parse
from gpu_plugin.driver.health import Health
from gpu_plugin.kubelet.holders import dump
from gpu_plugin.labels.labels import Facts, labels
from gpu_plugin.model.inventory import (
    Device,
    Faults,
    GpuView,
    HostState,
    Inventory,
    Kind,
    Problem,
    remember,
)
from gpu_plugin.model.mps.settings import Offer
from gpu_plugin.slices import build

from tests.fakes.daemon import mig_grids
from tests.fakes.daemon.gpu_builders import condition, gpu, inventory, view

RECORD = Path(__file__).with_name("golden.json")
Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def with_uuids(views: GpuView, number: int) -> GpuView:
    """Give a GPU and its MIG devices UUIDs of the form that drivers give them."""
    uuid = f"GPU-00000000-0000-0000-0000-00000000000{number}"
    devices = [
        replace(mig, uuid=f"MIG-0000000{at}-0000-0000-0000-00000000000{number}", gpu_uuid=uuid)
        for at, mig in enumerate(views.mig)
    ]
    return replace(views, gpu=replace(views.gpu, uuid=uuid), mig=tuple(devices))


def node(*views: GpuView, **more: Any) -> Inventory:
    return replace(inventory(*(with_uuids(each, at) for at, each in enumerate(views))), **more)


UUIDS = tuple(f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in range(4))
PARTS = tuple(f"MIG-0000000{number}-0000-0000-0000-000000000001" for number in range(4))
GRID = {profile.name: profile for profile in mig_grids.GRIDS["h100-80"]}
PLAIN = node(view(0), view(1, numa=1))
MIXED = node(
    view(0),
    replace(view(1, "1g.10gb", "3g.40gb", "1c.3g.40gb"), unnamed=("MIG-?",)),
    view(2, on=True),
    GpuView(gpu(3, name="DGX Display")),
)
ALIKE = node(view(0, "1g.10gb", "1g.10gb"), view(1, "1g.10gb", "1g.10gb"))
PLACED = node(
    view(0),
    mig_grids.view(mig_grids.GRIDS["h100-80"], [(GRID["1g.10gb"], 6), (GRID["2g.20gb"], 4)], 1),
)
SICK = node(
    view(0, problem="GPU is lost", lost=True),
    view(1, "1g.10gb", "1g.10gb", problem="Unknown Error"),
    replace(view(2), condition=condition(pending=True)),
    replace(view(3), condition=Condition(compute_mode=3)),
)
QUARANTINED = replace(
    PLAIN, quarantine=Quarantine({UUIDS[1]: Quarantined(OPERATOR, "burn-in", "5150", 1700000000.0)})
)
NODES: dict[str, Inventory] = {
    "plain": PLAIN,
    "mixed": MIXED,
    "alike": ALIKE,
    "placed": PLACED,
    "sick": SICK,
    "quarantined": QUARANTINED,
    "all quarantined": replace(
        PLACED, quarantine=Quarantine({}, Quarantined(OPERATOR, "moved", since=1700000000.0))
    ),
    "hung": replace(PLAIN, slow=frozenset(UUIDS[:2]), hung=frozenset(UUIDS[1:2])),
    "without driver": replace(MIXED, absent="the NVIDIA driver is not loaded"),
    "without nodes": replace(PLAIN, nodes="/dev/nvidia-uvm does not exist"),
    "without capabilities": replace(ALIKE, caps={}),
    "one lost": remember(
        PLAIN,
        replace(
            PLAIN,
            gpus=PLAIN.gpus[:1],
            unreadable={1: Problem(Kind.LOST, "GPU is lost")},
            addresses=frozenset(each.gpu.pci_bus_id for each in PLAIN.gpus),
        ),
    ),
    "asking": node(
        replace(view(0), condition=condition(recovery=1)),
        replace(view(1), condition=condition(recovery=5, failed=True)),
    ),
}
MIG, SINGLE = "flags: {migStrategy: mixed}\n", "flags: {migStrategy: single}\n"
SLICED = (
    "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3, timeSlice: long}]}}"
)
CONFIGS = {
    "default": "",
    "mixed": MIG,
    "single": SINGLE,
    "sliced": SLICED,
    "sliced, renamed": "sharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true,"
    " resources: [{name: nvidia.com/gpu, replicas: 2, devices: ['0']}, {name: nvidia.com/gpu, replicas: 3,"
    " devices: 1}, {name: nvidia.com/none, replicas: 2}]}}",
    "sliced, mixed": MIG
    + "sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2, timeSlice: short}]}}",
    "mps": "sharing: {mps: {resources: [{name: gpu, replicas: 2, combine: true}]}}",
    "mps, parts": MIG
    + "sharing: {mps: {renameByDefault: true, resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}",
    "mps, too many": "sharing: {mps: {resources: [{name: gpu, replicas: 50, devices: ['0']}]}}",
    "cdi": "flags: {plugin: {deviceListStrategy: cdi-cri, deviceIDStrategy: index}, gdsEnabled: true}",
    "cdi, annotations": MIG + "imex: {channelIDs: [0], required: true}\n",
    "mounts": "flags: {nvidiaDevRoot: /host, plugin: {deviceListStrategy: volume-mounts, passDeviceSpecs: true}}\n"
    "imex: {channelIDs: [0]}",
    "channels": "imex: {channelIDs: [0], required: true}",
    "names": MIG
    + "resources: {gpus: [{pattern: '*H100*', name: h100}], mig: [{pattern: '1c.*', name: slice},"
    " {pattern: '*', name: part}]}",
    "dra": "gpuNode: {allocation: dra}",
    "both": MIG + "gpuNode: {allocation: both, dra: {devices: [1, 7], enforcement: none}}",
}
ANNOTATED = parse(
    "flags: {migStrategy: mixed, plugin: {deviceListStrategy: [envvar, cdi-annotations]}}\n"
    "imex: {channelIDs: [0], required: true}"
)
HOST = HostState(
    control_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm"),
    imex_channels=("0",),
    cdi_devices=frozenset(["0", UUIDS[0], *PARTS[:2]]),
    cdi_added=frozenset(["k8s.device-plugin.nvidia.com/gds=all"]),
    cdi_lacking={"1": "/usr/lib/libcuda.so.1"},
)


def config_of(name: str) -> Config:
    return ANNOTATED if name == "cdi, annotations" else parse(CONFIGS[name])


def faults_of(name: str) -> Faults:
    """What health makes of these faults, as the daemon has it."""
    now = [1000.0]
    health = Health(clock=lambda: now[0], wall=lambda: 1700000000.0)
    seen = NODES[name]
    health.judge(seen, 1)
    if name in ("plain", "sliced", "mps"):
        health.xid(UUIDS[0], 79)
        health.xid(UUIDS[1], 94)
    elif name in ("mixed", "alike"):
        health.xid(UUIDS[1], 94, 7, 0)
        health.xid(UUIDS[0], 31)
    elif name == "placed":
        health.xid(seen.gpus[1].gpu.uuid, 94, seen.gpus[1].mig[1].gi_id, 0)
        health.xid(UUIDS[0], 48, reason="3 memory errors since its last reset")
    return health.judge(seen, 1)


def holders_of(seen: Inventory) -> dict[str, Holders]:
    """Who holds devices of a node: nobody knows yet, a pod in another form, and a container that nobody reported."""
    forms = decide(seen, {}, Config()).forms
    held = tuple(
        Allocation("team", pod, "main", resource, device)
        for pod, resource, device in (
            ("whole", GPU, UUIDS[0]),
            ("share", GPU, f"{UUIDS[1]}::1"),
            ("part", "nvidia.com/mig-1g.10gb", PARTS[0]),
        )
    )
    return {
        "not known": Holders(None, forms),
        "held": Holders(held, forms, forms),
        "forgotten": Holders((replace(held[0], resource=UNREPORTED),), forms, forms),
    }


def cases() -> Iterator[tuple[str, str, str]]:
    """Each node beside some configurations, and each configuration beside some nodes."""
    yield from itertools.product(("plain", "mixed"), CONFIGS, ("",))
    yield from itertools.product(NODES, ("default", "mixed", "both"), ("",))
    yield from itertools.product(("alike", "sick", "one lost"), ("single", "mps", "sliced"), ("",))
    yield from itertools.product(
        ("plain", "mixed", "alike", "placed"), ("mixed", "mps", "both"), ("faults",)
    )
    yield from itertools.product(
        ("plain", "alike", "sick"), ("cdi", "cdi, annotations", "mounts"), ("host",)
    )
    yield "plain", "channels", "bare host"
    yield from itertools.product(
        ("plain", "mixed"), ("sliced", "mps", "mps, parts"), ("not known", "held", "forgotten")
    )
    yield from itertools.product(("plain", "mixed"), ("mps", "mps, parts"), ("mps",))


CASES = sorted(set(cases()))


def problem(device: Device) -> str:
    why = device.problem
    return f"{why.kind.value} {why.code} {why.verdict.word}: {why}" if why else ""


def describe_offer(offer: Offer) -> str:
    bounds = offer.shares.default
    own = "own" if offer.own_shm else "no own"
    return (
        f"{offer.names.device}: {offer.shares.replicas} shares, {offer.settings.combine} in one container with"
        f" {bounds.memory_mib} MiB and {bounds.threads} %, {own} shm"
    )


def describe_device(device: Device) -> Json:
    """A device as the kubelet and Allocate have it; what is as usual is left out."""
    found = {
        "order": list(device.order),
        "paths": list(device.paths),
        "numa": device.numa_node,
        "instance": device.instance,
        "time_slice": device.time_slice,
        "mps": describe_offer(device.mps) if device.mps else "",
        "problem": problem(device),
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def ask_for_devices(devices: tuple[Device, ...], config: Config, host: HostState) -> Json:
    """What Allocate answers for the first device, the last two, and for those that are fit."""
    fit = [device.id for device in devices if not device.problem]
    ids = [device.id for device in devices]
    answers: Json = {}
    for asked in ([*ids[:1]], [*ids[-2:]], [*fit[:2]], [*fit[:1] * 2], ["GPU-?"]):
        try:
            answers[" ".join(asked)] = vars(grant(devices, asked, config, host, "token"))
        except AllocationRefused as refusal:
            answers[" ".join(asked)] = f"{refusal.reason}: {refusal}"
    return answers


def describe_advertised(advertised: Advertised, config: Config, host: HostState) -> Json:
    resources = {}
    for name, devices in advertised.resources.items():
        groups: dict[str, Json] = {}
        for device in devices:
            group = groups.setdefault(device.uuid, {"ids": [], **describe_device(device)})
            group["ids"].append(device.id)
        resources[name] = {
            "devices": groups,
            "health": dict(devices.health),
            "causes": dict(devices.causes),
            "shares": dict(devices.shares),
            "reasons": [f"{uuid} {index}: {why}" for (uuid, index), why in devices.reasons.items()],
            "granted": ask_for_devices(devices, config, host),
        }
    return {
        "resources": resources,
        "mps": {uuid: describe_offer(offer) for uuid, offer in advertised.mps.items()},
        "notes": advertised.notes,
        "refusal": str(advertised.refusal or ""),
        "forms": dump(advertised.forms),
        "held": {uuid: f"{why.kind.value}: {why}" for uuid, why in advertised.held.items()},
        "crowded": advertised.crowded,
        "unsharable": advertised.unsharable,
        "time_slices": time_slices(advertised.resources),
    }


def answer_case(name: str, config_name: str, about: str) -> Json:
    seen, config = NODES[name], config_of(config_name)
    faults = faults_of(name) if about == "faults" else {}
    host = {"host": HOST, "bare host": HostState()}.get(about)
    holders = holders_of(seen).get(about, Holders())
    advertised = decide(seen, faults, config, host, holders)
    if about == "mps":
        without = frozenset([UUIDS[0], PARTS[0]])
        advertised = advertised.judged(MpsState({UUIDS[1]: "it is about to start"}, without))
    result: Json = {
        "advertised": describe_advertised(advertised, config, host or HostState()),
        "narrow": narrow(advertised, advertised, seen),
        "labels": {
            name: text
            for name, text in labels(Facts(seen, "12.4"), config).items()
            if not name.startswith("nvidia.com/cuda.")
        },
    }
    if not config.dra.unused:
        specs = build(seen, config, faults, {UUIDS[0]: "no daemon"}, node="n1")
        devices = [device for spec in specs for device in spec.get("devices", ())]
        result["taints"] = {device["name"]: device.get("taints", []) for device in devices}
        if name in ("plain", "all quarantined"):
            result["slices"] = specs
    return result


UUID = re.compile("(GPU|MIG)-0000000([0-9])-0000-0000-0000-00000000000([0-9])")


def plain(value: Any) -> Any:
    """A value as JSON has it, without what is empty."""
    if isinstance(value, dict):
        pairs = ((plain(str(key)), plain(each)) for key, each in value.items())
        return {key: each for key, each in pairs if each not in ("", None, [], {})}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return UUID.sub(r"\1-\3.\2", value) if isinstance(value, str) else value


def recorded() -> str:
    """All answers, a line for each part of one."""
    texts = []
    for case in CASES:
        parts = ",\n".join(
            f" {json.dumps(name)}: {json.dumps(part, separators=(',', ':'))}"
            for name, part in plain(answer_case(*case)).items()
        )
        texts.append(f"{json.dumps(' / '.join(case))}: {{\n{parts}\n}}")
    return "{\n" + ",\n".join(texts) + "\n}\n"


EXPECTED: Json = json.loads(RECORD.read_text()) if RECORD.exists() else {}


@pytest.mark.parametrize("case", CASES, ids=" / ".join)
def test_a_node_advertises_and_answers_as_recorded(case: tuple[str, str, str]) -> None:
    """The record has each case once; what differs is named by its path."""
    expected = EXPECTED[" / ".join(case)]
    result = plain(answer_case(*case))
    assert result == expected
    assert json.dumps(result) == json.dumps(expected), "in the same order"


def test_the_record_has_all_kinds_of_problems_and_verdicts() -> None:
    text = RECORD.read_text()
    missing = [kind.value for kind in Kind if not re.search(rf'"{kind.value} \d', text)]
    assert missing == []
    assert Action.RESET.word in text


if __name__ == "__main__":
    RECORD.write_text(recorded())
