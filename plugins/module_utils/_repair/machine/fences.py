# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs are set aside, from the file that gpu.node.quarantine keeps."""

from __future__ import annotations

import typing as t

from ..._base.errors import readable
from ..._base.text import json_data
from ..._machine.host import Host
from .observe import Fence

PATH = "/var/lib/gpu-node/quarantine.json"


def fences(host: Host) -> t.Dict[str, Fence]:
    """Return who has set which GPU aside, by its UUID. NodeError: the file is damaged."""
    text = host.read(PATH)
    if text is None:
        return {}
    with readable(
        PATH, "see 'gpu.node.quarantine'; move the file away, and set aside again what was"
    ):
        found = json_data.loads(text)["gpus"]
        return {
            uuid: Fence(str(one["by"]), str(one.get("pci") or "")) for uuid, one in found.items()
        }
