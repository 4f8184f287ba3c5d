# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Answers of gpu.node.plan for fleets of any size, in the shape that nodes give in tests/node/report."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._accept.record import (
    Acceptance,
    Identity,
    JudgedGpu,
    Unaccepted,
)
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import GiProfile, Gpu
from ansible_collections.gpu.node.plugins.module_utils._checks.report import acceptance, status
from ansible_collections.gpu.node.plugins.module_utils._checks.report.cases import rows
from ansible_collections.gpu.node.plugins.module_utils._driver.releases.table import parse
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import Allocation
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    FAILED,
    RepairCase,
    RepairCases,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action, Attempt

TODAY = datetime.date(2026, 11, 22)
MADE = "2026-11-22T04:30:00Z"
GIB = 1 << 30


def _profile(number: int, name: str, starts: tuple[int, ...], size: int) -> GiProfile:
    return GiProfile(number, number, name, size, len(starts), 0, tuple((at, size) for at in starts))


# The grid of an H100: 8 memory slices.
PROFILES = (
    _profile(19, "1g.10gb", tuple(range(7)), 1),
    _profile(15, "1g.20gb", (0, 2, 4, 6), 2),
    _profile(14, "2g.20gb", (0, 2, 4), 2),
    _profile(9, "3g.40gb", (0, 4), 4),
    _profile(0, "7g.80gb", (0,), 8),
)
BY_NAME = {one.name: one for one in PROFILES}
Layout = tuple[tuple[str, int], ...]
LAYOUTS: tuple[Layout, ...] = (
    (("3g.40gb", 0), ("2g.20gb", 4), ("1g.10gb", 6)),
    (("3g.40gb", 0), ("3g.40gb", 4)),
    (("1g.10gb", 0), ("1g.10gb", 1), ("1g.20gb", 2), ("3g.40gb", 4)),
    tuple(("1g.10gb", at) for at in range(7)),
)
MODELS = (
    ("NVIDIA H100 80GB HBM3", 80, 8),
    ("NVIDIA A100-SXM4-40GB", 40, 8),
    ("NVIDIA L40S", 45, 4),
    ("NVIDIA B200", 179, 8),
)
FIGURES = {
    "float32_tflops": 51.3,
    "tensor_tflops": 402.0,
    "memory_gb_per_s": 2912.0,
    "host_to_device_gb_per_s": 53.4,
    "device_to_host_gb_per_s": 54.1,
    "peer_gb_per_s": 371.0,
}
DRIVERS = ("580.178.04", "580.178.04", "595.91.07", "580.95.05", "535.309.01")


def gpu(index: int, uuid: str, name: str, gib: int, layout: Layout | None) -> dict[str, Any]:
    """Return a GPU as gpu_info tells it; without a layout it is out of MIG mode."""
    on = layout is not None
    one = Gpu(
        index, uuid, name, f"0000:{index:02x}:00.0", index, gib * GIB, (9, 0), True, on, on, 0x2330
    )
    instances = [
        {"id": at + 1, "profile_id": BY_NAME[profile].id, "profile": profile, "start": start}
        | {"size": BY_NAME[profile].placements[0][1]}
        | {"cis": [{"id": 0, "slices": 1, "start": 0}]}
        for at, (profile, start) in enumerate(layout or ())
    ]
    devices = [
        {"uuid": f"MIG-{uuid[4:-2]}{at:02x}", "gpu_uuid": uuid, "gpu_index": index, "mig_index": at}
        | {"gi_id": each["id"], "ci_id": 0, "profile": each["profile"], "memory_total": GIB}
        | {"slices": (1, 7)}
        for at, each in enumerate(instances)
    ]
    return {
        **dataclasses.asdict(one),
        "compute_capability": "9.0",
        "processes": [],
        "mig_profiles": [dataclasses.asdict(each) for each in PROFILES] if on else [],
        "gpu_instances": instances,
        "mig_devices": devices,
    }


def answer(
    gpus: list[dict[str, Any]],
    driver: str = DRIVERS[0],
    *,
    given: tuple[Allocation, ...] = (),
    drift: dict[str, list[str]] | None = None,
    faults: tuple[dict[str, Any], ...] = (),
    reboot: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    cases: dict[str, RepairCase] | None = None,
    accepted: tuple[JudgedGpu, ...] = (),
) -> dict[str, Any]:
    """Return the answer of gpu.node.plan with its option status."""
    loaded = {"version": driver, "kind": "open"}
    daemon = status.daemon('{"state": "serving"}')
    unaccepted = Unaccepted.from_gpus(accepted)._asdict()
    return {
        "changed": False,
        "gpu_info": {
            "pci_gpus": [
                {"address": one["pci_bus_id"], "device_id": one["pci_device_id"]} for one in gpus
            ],
            "driver": loaded,
            "nvml_available": True,
            "gpus": gpus,
            "lost_gpus": [],
        },
        "drift": list(drift or {}),
        "parts": [_part(name, (drift or {}).get(name, [])) for name in ("driver", "mig", "cdi")],
        "status": {
            "host": {"system": "Ubuntu 24.04.3 LTS", "kernel": "6.8.0-87-generic"},
            "driver": status.driver(loaded, parse(True), TODAY),
            **daemon,
            "faults": list(faults),
            "labels": {"state": "serving", "problem": "", "labels": labels or {}},
            "processes": status.processes(gpus, ()),
            "allocations": status.allocations(given, gpus),
            "allocations_unknown": "",
            "reboot": list(reboot),
            "cases": rows(RepairCases(None, cases or {})),
            "cases_unknown": "",
            "acceptance": {
                **{key: list(texts) for key, texts in unaccepted.items()},
                "unknown": "",
                "gpus": acceptance.rows(accepted),
            },
        },
    }


def _part(name: str, summaries: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "steps": [{"action": name, "summary": one} for one in summaries],
        "warnings": [],
        "reboot_required": False,
        "reboot_reasons": [],
        "restart_required": [],
        "blocked_by": [],
        "error": {},
        "later": "",
        "diff": {},
        "result": {},
    }


def judged(uuid: str, reason: str = "", **changes: Any) -> JudgedGpu:
    """Return a GPU that has passed its load test, or with changes in the record of it."""
    identity = Identity(DRIVERS[0], "96.00.5E.00.01", "G520.0200.00.05", "692-2G520-0200-000")
    passed = Acceptance("passed", identity, 1795320000.0, figures=FIGURES)
    return JudgedGpu(uuid, passed._replace(**changes), reason)


def fault(gpu_uuid: str, index: int, reason: str, xid: int | None) -> dict[str, Any]:
    """Return an entry of health as the daemon tells it."""
    return {
        "gpu": gpu_uuid,
        "index": str(index),
        "gi": None,
        "ci": None,
        "kind": "fault",
        "reason": reason,
        "since": 1795320000,
        "way_back": "a reset of the GPU or another load of the driver",
        "clearable": False,
        "verdict": "reset",
        "xid": xid,
    }


def repair(**more: Any) -> RepairCase:
    """Return a GPU's repair that did not help."""
    tried = (
        Attempt(Action.RESET, 1795320600.0, "done"),
        Attempt(Action.REBOOT, 1795324200.0, "the GPU does not answer"),
    )
    case = RepairCase(
        "1651023000042",
        "0000:07:00.0",
        Action.REPLACE,
        ("XID 79: the GPU has fallen off the bus", "it was reset and rebooted for within a day"),
        1795320000.0,
        stage=FAILED,
        attempts=tried,
        evidence="/var/lib/gpu-node/evidence/c.before.8c1f0e52.20261122T034000Z.tar.gz",
    )
    return case._replace(**more)


def fleet(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield nodes that differ in all that a report shows, the same ones for the same number."""
    for at in range(count):
        name = f"gpu-{'abcd'[at % 4]}{at // 4 + 1:02d}.example.org"
        if at % 17 == 13:
            yield (
                name,
                {"unreachable": True, "msg": "Failed to connect to the host via ssh: timed out"},
            )
        elif at % 23 == 21:
            wrong = "plan: mig_selected: 'hafl' is not valid: expected one of all-disabled, half"
            yield name, {"failed": True, "msg": wrong}
        else:
            yield name, _node(at)


def _node(at: int) -> dict[str, Any]:
    model, gib, number = MODELS[at * 7 % 3 if at % 5 else 3]
    mig = model != "NVIDIA L40S" and at % 3 == 0
    gpus = []
    for index in range(number):
        uuid = f"GPU-{at:08x}-0000-0000-0000-{index:010x}00"
        layout = LAYOUTS[(at + index) % 4] if mig and index % 2 == 0 else None
        gpus.append(gpu(index, uuid, model, gib, layout))
    driver = DRIVERS[at % 5 if at % 4 else 0]
    broken = gpus[number - 1]["uuid"]
    labels = {
        "nvidia.com/gpu.product": model.replace(" ", "-"),
        "nvidia.com/gpu.count": str(number),
        "nvidia.com/gpu.memory": str(gib * 1024),
        "nvidia.com/mig.strategy": "mixed" if mig else "none",
        "nvidia.com/cuda.driver-version.full": driver,
        "topology.kubernetes.io/zone": f"hall-{at % 3 + 1}",
    }
    steps = ["GPU 6: create 3g.40gb at placement 4:4", "GPU 6: destroy 1g.10gb at placement 4:1"]
    return answer(
        gpus,
        driver,
        given=tuple(_given(at, gpus)),
        drift={"mig": steps, "cdi": ["write /etc/cdi/nvidia.yaml"]} if at % 9 == 3 else None,
        faults=(fault(broken, number - 1, "XID 79 (GPU has fallen off the bus)", 79),)
        if at % 11 == 4
        else (),
        reboot=("the distribution asks for it (linux-image-6.8.0-88-generic)",)
        if at % 8 == 6
        else (),
        labels=labels,
        cases={broken: repair()} if at % 11 == 4 else None,
        accepted=tuple(_accepted(at, gpus, driver)) if at % 6 != 5 else (),
    )


def _accepted(at: int, gpus: list[dict[str, Any]], driver: str) -> Iterator[JudgedGpu]:
    """Yield the GPUs of a node with what their last tests say; one in 40 has failed, and some have lapsed."""
    for number, one in enumerate(gpus, 8 * at):
        if one["mig_current"]:
            yield JudgedGpu(one["uuid"], None, "it was never tested")
            continue
        speed = 1 + (number * 37 % 41 - 20) / 2000 - (0.06 if number % 40 == 7 else 0)
        passed = judged(one["uuid"], "it was repaired after its test" if number % 23 == 9 else "")
        entry = passed.acceptance._replace(
            identity=Identity(driver, board=f"692-{len(one['name'])}"),
            figures={name: value * speed for name, value in FIGURES.items()},
        )
        if number % 40 == 27:
            wrong = ("memory: 32 wrong words, bits 0x80",)
            entry = entry._replace(verdict="failed", faults=wrong)
        yield passed._replace(acceptance=entry)


def _given(at: int, gpus: list[dict[str, Any]]) -> Iterator[Allocation]:
    for one in gpus:
        where = (at * 3 + one["index"]) % 4
        if not one["mig_devices"] and where:
            team = ("research", "vision", "speech")[at % 3]
            pod = f"train-llm-{at}-{one['index'] // 4}"
            yield Allocation(team, pod, "trainer", "nvidia.com/gpu", one["uuid"])
        for number, device in enumerate(one["mig_devices"]):
            if (number + where) % 3:
                resource = f"nvidia.com/mig-{device['profile']}"
                pod = f"notebook-{at}{one['index']}{number}"
                yield Allocation("notebooks", pod, "jupyter", resource, device["uuid"])
