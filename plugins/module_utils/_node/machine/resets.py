# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The reset of GPUs: what has to make way on the node besides services, and the command."""

from __future__ import annotations

import typing as t

from ..._machine.host import Host
from ..resets import refusal
from ..users.services import DRM, persistence

SECONDS = 600.0
MODULE = "/sys/module/nvidia_drm"


def reset(host: Host, uuids: t.Sequence[str]) -> None:
    """Reset GPUs by one command, all of the node where none is named. NodeError: none was, and what helps.

    NVML must not be open in this process: it counts as a client of each GPU that it was asked for.
    """
    command = ["nvidia-smi", "--gpu-reset", *(["-i", ",".join(uuids)] if uuids else [])]
    completed = host.run(command, check=False, timeout=SECONDS)
    if completed.rc:
        raise refusal(uuids, completed.rc, completed.out + completed.err)


def makes_way(host: Host, persistent: t.Iterable[str]) -> t.List[str]:
    """Return what makes way for a reset: persistence mode of these GPUs, and a module that has all GPUs open."""
    return [
        *([DRM] if drm_holds(host) and not drm_users(host) else []),
        *map(persistence, persistent),
    ]


def drm_holds(host: Host) -> bool:
    """Return whether nvidia_drm has the GPUs open, as it does to set display modes."""
    return (host.read(f"{MODULE}/parameters/modeset") or "").strip() in ("Y", "1")


def drm_users(host: Host) -> int:
    """Return how many use nvidia_drm, of whatever kind they are."""
    text = (host.read(f"{MODULE}/refcnt") or "").strip()
    return int(text) if text.isdigit() else 0
