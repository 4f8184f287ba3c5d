# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that are allocated to no container, since pods still hold them in another form."""

from __future__ import annotations

import typing as t

HELD, ASKS = "held", "asks"
WAITS = "waits: "  # before each of them in the output of "gpu-plugin check-config"
NOBODY = "given to nobody: "  # before each device that no container would get
MOST = 4  # devices with their names


def open_question(status: t.Mapping[str, t.Any]) -> str:
    """Return that the kubelet has not reported yet which pods hold devices, empty if it has."""
    devices = ", ".join(_of(status, ASKS))
    return f"the kubelet has not said yet whether pods hold {devices}" if devices else ""


def warnings(status: t.Mapping[str, t.Any]) -> t.Tuple[str, ...]:
    """Return warnings about devices that wait for pods, by the daemon's status."""
    problems = _of(status, HELD)
    return shown([f"{uuid}: {problem}" for uuid, problem in problems.items()])


def expected(answer: str) -> t.Tuple[str, ...]:
    """Return the same for a configuration that is not in force yet, by the output of ``gpu-plugin check-config``."""
    lines = answer.splitlines()
    waiting = shown([line[len(WAITS) :] for line in lines if line.startswith(WAITS)])
    return (*[line for line in lines if line.startswith(NOBODY)][:MOST], *waiting)


def shown(texts: t.Sequence[str]) -> t.Tuple[str, ...]:
    """Return warnings about a few devices, and the number of the others."""
    more = [f"{len(texts) - MOST} more devices wait for pods"] if len(texts) > MOST else []
    return (*(f"{NOBODY}{text}" for text in texts[:MOST]), *more)


def _of(status: t.Mapping[str, t.Any], reason: str) -> t.Dict[str, str]:
    """Return the problems of the devices that are unhealthy for a reason, by their UUID."""
    problems: t.Dict[str, str] = {}
    for resource in status.get("resources", {}).values():
        problems.update(resource.get("problems", {}))
    devices = status.get("devices", ())
    uuids = [device["uuid"] for device in devices if device.get("reason") == reason]
    return {uuid: problems.get(uuid, "") for uuid in uuids}
