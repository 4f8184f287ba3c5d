# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pod a process is in, as the node itself shows it."""

from __future__ import annotations

import re
import typing as t

# kubepods-burstable-pod0f1e..._....slice with the systemd driver, kubepods/burstable/pod0f1e-... without it.
POD = re.compile(
    r"kubepods[^\n]*pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})"
)


def uid_of(cgroup: t.Optional[str]) -> str:
    """Return the pod's UID from a process's /proc/<pid>/cgroup, empty where it is in no pod."""
    match = POD.search(cgroup or "")
    return match[1].replace("_", "-") if match else ""


def name_of(uid: str, log_folders: t.Iterable[str]) -> str:
    """Return namespace/name of a pod from the names of the kubelet's log folders, else its UID."""
    for folder in log_folders:
        parts = folder.split("_")
        if len(parts) == 3 and parts[2] == uid:
            return f"{parts[0]}/{parts[1]}"
    return uid
