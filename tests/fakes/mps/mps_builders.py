# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of a device's MPS daemon, and what its manager told."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Any

from gpu_plugin.model.mps.paths import Names
from gpu_plugin.model.mps.settings import Offer, Settings
from gpu_plugin.mps.state import EMPTY, MpsState, settings_of
from gpu_plugin.tools.files import started

UUID = "GPU-00000000-0000-0000-0000-000000000000"
OTHER = "MIG-11111111-0000-0000-0000-000000000000"
NOBODY = 2**22  # beyond the numbers of processes


def offer(device: str = UUID, root: str = "/run/x", **more: Any) -> Offer:
    settings = Settings(**{"replicas": 4, "root": root, "multi_user": False, **more})
    return Offer(Names(device, root), settings, settings.shares(80 << 30, (9, 0)))


def state(one: Offer, name: str = "ready", clients: int = 0, problem: str = "") -> dict[str, Any]:
    limits = {
        "asked": asdict(one.shares.of(1)),
        "default": asdict(one.shares.default),
        "read_back": {"default_active_thread_percentage": "25.0"} if name == "ready" else {},
    }
    return {
        "version": 1,
        "state": name,
        "pid": os.getpid(),
        "began": started(os.getpid()),
        "daemon": os.getpid(),
        "settings": json.loads(one.settings.to_json()),
        "replicas": one.shares.replicas,
        "limits": limits,
        "clients": clients,
        "clients_pipe": one.names.pipe,
        "problem": problem,
        "own_shm": True,
    }


def seen(one: Offer | None, told: dict[str, Any] | None, **more: bool) -> MpsState:
    settings = None if one is None else one.settings
    full = None if told is None else {**EMPTY, **told}
    running = None if full is None else settings_of(full["settings"])
    known = {"alive": told is not None, "serving": True, "running": running}
    return MpsState(settings, full, **{**known, **more})
