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
    found = ", ".join(_of(status, ASKS))
    return f"the kubelet has not said yet whether pods hold {found}" if found else ""


def warnings(status: t.Mapping[str, t.Any]) -> t.Tuple[str, ...]:
    """Return which devices wait for which pods, by the daemon's status."""
    found = _of(status, HELD)
    return shown([f"{uuid}: {why}" for uuid, why in found.items()])


def expected(answer: str) -> t.Tuple[str, ...]:
    """Return the same for a configuration that is not in force yet, by what ``gpu-plugin check-config`` says."""
    lines = answer.splitlines()
    waiting = shown([line[len(WAITS) :] for line in lines if line.startswith(WAITS)])
    return (*[line for line in lines if line.startswith(NOBODY)][:MOST], *waiting)


def shown(found: t.Sequence[str]) -> t.Tuple[str, ...]:
    """Return warnings that name a few, and how many there are besides."""
    more = [f"{len(found) - MOST} more devices wait for pods"] if len(found) > MOST else []
    return (*(f"{NOBODY}{one}" for one in found[:MOST]), *more)


def _of(status: t.Mapping[str, t.Any], reason: str) -> t.Dict[str, str]:
    """Return the problems of devices by their UUID, where that is what they are about."""
    resources = status.get("resources", {}).values()
    problems = {uuid: why for one in resources for uuid, why in one.get("problems", {}).items()}
    found = [one["uuid"] for one in status.get("devices", ()) if one.get("reason") == reason]
    return {uuid: problems.get(uuid, "") for uuid in found}
