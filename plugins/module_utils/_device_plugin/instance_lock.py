# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The lock that keeps a node to one device plugin, and the error of a second one."""

from __future__ import annotations

from .._base.errors import NodeError

FILE = "device-plugin.lock"
LOCK = f"/run/gpu-node/{FILE}"
SERVICE = "gpu-device-plugin.service"
POD = "the pod "


def holder(name: str, *, pod: bool, service: bool, process: int) -> str:
    """Return the description of a device plugin that it writes into the lock; ``name`` is that of its host."""
    if pod:
        return f"{POD}{name}"
    return SERVICE if service else f"process {process}"


def is_pod(text: str) -> bool:
    """Return whether a description is of one of the DaemonSet's pods."""
    return text.startswith(POD)


def refusal(text: str, *, pod: bool) -> NodeError:
    """Return the error of a second device plugin; ``text`` describes the first, ``pod`` is whether it is a pod."""
    error = NodeError(
        f"another device plugin serves the GPUs of this node: {text or 'a process that does not say which'}",
        cause="two would advertise the same GPUs to the kubelet, and give one GPU to two pods",
    )
    if is_pod(text):
        error.hint = (
            "keep the DaemonSet's pods off this node (nodeSelector or affinity), or leave device_plugin and labels"
            " out of gpu_nodes_components"
        )
    elif pod:
        error.hint = (
            "remove the service from the node (device_plugin_state: absent), or keep the DaemonSet's pods off it"
            " (nodeSelector or affinity)"
        )
    else:
        error.hint = "end that one first"
    return error
