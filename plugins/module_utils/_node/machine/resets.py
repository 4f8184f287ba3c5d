# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The reset of GPUs: the command, and what is switched off for it besides services."""

from __future__ import annotations

import typing as t

from ..._machine.host import Host
from ..resets import refusal
from ..users.services import DRM, persistence

SECONDS = 600.0
MODULE = "/sys/module/nvidia_drm"


def reset(host: Host, uuids: t.Sequence[str]) -> None:
    """Reset GPUs with one command, all of the node if none is given.

    NVML must not be open in this process: it is a client of each GPU that it was asked for.

    Raises:
        NodeError: if none was reset, with the next step.
    """
    command = ["nvidia-smi", "--gpu-reset", *(["-i", ",".join(uuids)] if uuids else [])]
    completed = host.run(command, check=False, timeout=SECONDS)
    if completed.rc:
        raise refusal(uuids, completed.rc, completed.out + completed.err)


def makes_way(host: Host, persistent: t.Iterable[str]) -> t.List[str]:
    """Return what is switched off for a reset: persistence mode of these GPUs, and the module nvidia_drm.

    That has all GPUs open if it sets display modes; it can be removed if its reference count is 0.
    """
    sets_modes = (host.read(f"{MODULE}/parameters/modeset") or "").strip() in ("Y", "1")
    references = (host.read(f"{MODULE}/refcnt") or "").strip()
    is_unused = not references.isdigit() or int(references) == 0
    return [*([DRM] if sets_modes and is_unused else []), *map(persistence, persistent)]
