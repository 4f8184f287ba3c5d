# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the CDI specification says at the moment, and whether what keeps it up to date works."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._shared._core.cdi import boot as cdi_boot
from .._shared._core.errors import NodeError
from .._shared._core.text import json_data
from .._shared._host.real import LocalHost
from ..tools import bounded


def read(config: Path) -> dict[str, Any] | None:
    """Return the specification's path, devices and missing files; None where nothing keeps one.

    ``missing`` are the libraries and hooks that it names and that are not there: it is older than the
    driver or the toolkit, and no container that asks for a device starts.
    ``failed``: whether the last run of gpu-cdi.service failed.
    """
    try:
        options = cdi_boot.load(bounded.read(config).decode("utf-8", "replace"), str(config))
    except (OSError, NodeError):
        return None
    command = ["systemctl", "is-failed", "--quiet", cdi_boot.UNIT]
    failed = LocalHost().run(command, check=False).rc == 0
    return {"path": options.path, "failed": failed, **content(Path(options.path))}


def content(path: Path) -> dict[str, list[str]]:
    """Return the devices of a specification and the files that are gone; no devices where it is damaged."""
    try:
        spec = json_data.loads(bounded.read_text(path))
        devices = [str(one["name"]) for one in spec["devices"]]
        mounts = [str(one["hostPath"]) for one in spec["containerEdits"].get("mounts", ())]
        hooks = {str(one["path"]) for one in spec["containerEdits"].get("hooks", ())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {"devices": [], "missing": []}
    # Sockets come and go with their services; a library's name has the version of its driver.
    libraries = {one for one in mounts if ".so." in Path(one).name}
    return {
        "devices": devices,
        "missing": sorted(one for one in libraries | hooks if not os.path.exists(one)),
    }
