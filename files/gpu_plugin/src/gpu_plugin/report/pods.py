# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pods have which devices, for people and for the modules that must not take them away."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from .._shared._node.users.allocated import VERSION
from ..kubelet.client import allocations


def show(socket: Path, *, as_json: bool) -> int:
    """Print them; where there is no kubelet, none. Returns the exit status. KubeletSilent."""
    found = allocations([socket])
    if as_json:
        print(json.dumps({"version": VERSION, "allocations": [asdict(one) for one in found]}))
    else:
        print("\n".join(map(str, found)) or "no pod has a device")
    return 0
