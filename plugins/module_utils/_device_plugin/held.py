# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that the daemon gives to nobody, since pods hold them as something else than they are offered as now."""

from __future__ import annotations

import typing as t

HELD, ASKS = "held", "asks"
WAITS = "waits: "  # before each of them in what "gpu-plugin check-config" says
NOBODY = "given to nobody: "  # before each of those that no container would get as they are
MOST = 4  # as many devices are named


def open_question(status: t.Mapping[str, t.Any]) -> str:
    """Return that the kubelet has still to say who holds devices, empty where it has."""
    devices = ", ".join(_of(status, ASKS))
    return f"the kubelet has not said yet whether pods hold {devices}" if devices else ""


def warnings(status: t.Mapping[str, t.Any]) -> t.Tuple[str, ...]:
    """Return which devices wait for which pods, by the daemon's status."""
    problems = _of(status, HELD)
    return shown([f"{uuid}: {why}" for uuid, why in problems.items()])


def expected(answer: str) -> t.Tuple[str, ...]:
    """Return the same for a configuration that is not in force yet, by what ``gpu-plugin check-config`` says."""
    lines = answer.splitlines()
    waiting = shown([line[len(WAITS) :] for line in lines if line.startswith(WAITS)])
    return (*[line for line in lines if line.startswith(NOBODY)][:MOST], *waiting)


def shown(texts: t.Sequence[str]) -> t.Tuple[str, ...]:
    """Return warnings that name a few, and how many there are besides."""
    more = [f"{len(texts) - MOST} more devices wait for pods"] if len(texts) > MOST else []
    return (*(f"{NOBODY}{text}" for text in texts[:MOST]), *more)


def _of(status: t.Mapping[str, t.Any], reason: str) -> t.Dict[str, str]:
    """Return the problems of devices by their UUID, where that is what they are about."""
    resources = status.get("resources", {}).values()
    problems = {
        uuid: why for resource in resources for uuid, why in resource.get("problems", {}).items()
    }
    uuids = [
        device["uuid"] for device in status.get("devices", ()) if device.get("reason") == reason
    ]
    return {uuid: problems.get(uuid, "") for uuid in uuids}
