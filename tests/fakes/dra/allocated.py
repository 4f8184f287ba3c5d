# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a test writes into a claim's status in the place of the scheduler.

tests/cluster/api/test_allocation_replayed.py has the genuine kube-scheduler allocate the same devices, and compares.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
SHARE = {"memory": "10000Mi", "cores": "30", "shares": "1"}
SHARE_ID = "11111111-aaaa-bbbb-cccc-0123456789ab"


def result(
    pool: str,
    device: str,
    *,
    request: str = "gpu",
    capacity: Json | None = None,
    share_id: str = SHARE_ID,
    **more: Any,
) -> Json:
    """Return a device of an allocation (status.allocation.devices.results); a share has ``capacity``."""
    base = {"request": request, "driver": "gpu.node", "pool": pool, "device": device, **more}
    share = {"shareID": share_id, "consumedCapacity": capacity or SHARE}
    return {**base, **(share if device.endswith("-share") else {})}


def config(parameters: Json | None) -> list[Json]:
    """Return what an allocation has of the opaque parameters of its claim."""
    opaque = {"driver": "gpu.node", "parameters": parameters}
    return [{"source": "FromClaim", "opaque": opaque}] if parameters else []


def user(name: str, uid: str) -> Json:
    """Return a pod in a claim's status.reservedFor."""
    return {"resource": "pods", "name": name, "uid": uid}
