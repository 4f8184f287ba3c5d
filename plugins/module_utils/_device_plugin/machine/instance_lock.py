# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a pod of the DaemonSet serves the node's GPUs."""

from __future__ import annotations

from ..._machine.host import Host
from ..instance_lock import LOCK, is_pod


def pod(host: Host) -> str:
    """Return the words for the pod that serves, empty where none does."""
    if host.lock_holder(LOCK) is None:
        return ""
    text = host.read(LOCK) or ""
    return text if is_pod(text) else ""
