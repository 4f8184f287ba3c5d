# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a kubelet has registered the GPUs, and the messages if none has, as before a node joins."""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError

KUBELET = "/var/lib/kubelet/device-plugins/kubelet.sock"
VARIABLE = "gpu_nodes_require_kubelet"


def unregistered(status: t.Mapping[str, t.Any]) -> t.List[str]:
    """Return the resources that no kubelet has registered, from the daemon's status."""
    resources = status.get("resources", {}).items()
    return sorted(name for name, resource in resources if not resource["registered"])


def missing(status: t.Mapping[str, t.Any], *, listens: bool) -> str:
    """Return why resources are not registered, empty if all are; ``listens`` is whether a kubelet does."""
    late = unregistered(status)
    if not late:
        return ""
    if not listens:
        return f"no kubelet listens at {KUBELET}"
    problem = status.get("registration_problem")
    return problem or f"it listens, and has not taken {', '.join(late)} yet"


def warning(cause: str) -> str:
    """Return the warning if there may be no kubelet yet."""
    return (
        f"no kubelet has registered the GPUs yet ({cause}); this is fine before the node joins: the device plugin"
        f" registers them as soon as a kubelet listens there. Set {VARIABLE} to true where it must have been by now"
    )


def failure(cause: str, timeout: float) -> NodeError:
    """Return the error if there has to be a kubelet."""
    return NodeError(
        f"after {timeout} s no kubelet has registered the GPUs, and {VARIABLE} is set",
        cause=cause,
        hint=f"start the kubelet (see 'systemctl status kubelet' and gpu-device-plugin.service), or set {VARIABLE}"
        " to false where the node joins its cluster later",
    )
