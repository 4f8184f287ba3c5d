# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The DRA driver's allocations for people: of each GPU, and to which claims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._shared._base.dra.names import CORES, MEMORY
from .._shared._base.text.shown import counted
from ..model.quantity import MIB

Json = Mapping[str, Any]


def uuids(dra: Json | None) -> dict[str, str]:
    """Return the UUID of the GPU or MIG device of each device that a claim has, by the device's name."""
    devices = (device for claim in (dra or {}).get("claims", ()) for device in claim["devices"])
    return {device["device"]: device["mig"] or device["gpu"] for device in devices}


def describe(dra: Json) -> str:
    """Return the state of the driver in words, its GPUs and its claims."""
    lines = [f"gpu-plugin dra {dra['version']} (process {dra['pid']}): {dra['state']}"]
    problems = filter(None, (dra["problem"], dra["config_problem"]))
    lines += [f"problem: {problem}" for problem in problems]
    known = "registered" if dra["registered"] else "not registered with the kubelet"
    why = f": {dra['registration_problem']}" if dra["registration_problem"] else ""
    published = dra.get("published") or {}
    slices = (
        f", {published['devices']} devices in {published['slices']} slices" if published else ""
    )
    lines.append(f"{known}{why}{slices}, enforcement {dra['enforcement']}")
    gpus = sorted(dra["gpus"].items(), key=lambda pair: pair[1]["index"])
    lines += [_gpu(uuid, problem, dra["enforcement_problems"].get(uuid)) for uuid, problem in gpus]
    for claim in dra["claims"]:
        devices = [
            f"{device['device']} ({_amount(device['consumed'])})"
            if MEMORY in device["consumed"]
            else str(device["device"])
            for device in claim["devices"]
        ]
        named = f"claim {claim['namespace']}/{claim['name']} ({claim['state']})"
        lines.append(f"{named}: {', '.join(devices) or 'no device'}")
    return "\n".join(lines)


def _gpu(uuid: str, gpu: Json, problem: str | None) -> str:
    text = f"GPU {gpu['index']} ({uuid}): {counted(gpu['claims'], 'claim')}"
    if gpu["shares"]:
        text += f", {counted(gpu['shares'], 'share')} with {_amount(gpu)} given"
    return f"{text}; no shares, {problem}" if problem else text


def _amount(amounts: Json) -> str:
    cores = f"{amounts[CORES]} % of the cores" if amounts.get(CORES) else "no limit of cores"
    return f"{amounts[MEMORY] // MIB} MiB and {cores}"
