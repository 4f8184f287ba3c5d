# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Programs that hold GPUs open for as long as they run, and how each is stopped.

The services are those that NVIDIA's mig-parted stops before it changes a GPU (deployments/systemd/hooks.sh, and
service.sh of earlier releases), with nvidia-imex and nvidia-powerd of the driver's own packages; the labels are those
by which NVIDIA's k8s-driver-manager has pods of the GPU operator leave a node (cmd/driver-manager/main.go).
"""

from __future__ import annotations

import typing as t

from ..._base.dra.names import UNIT as DRA_UNIT
from .users import KERNELS, User

# Programs that were started by hand, by their names as the kernel cuts them.
BY_HAND: t.Mapping[str, str] = {
    name[:KERNELS]: command
    for name, command in (
        ("nv-hostengine", "nv-hostengine -t"),
        ("nvidia-cuda-mps-control", "echo quit | nvidia-cuda-mps-control"),
        ("nvidia-cuda-mps-server", "echo quit | nvidia-cuda-mps-control"),
    )
}
# Services that would start a service again, and are stopped instead of it.
PARENTS = {
    f"nvsm-{part}.service": "nvsm.service" for part in ("core", "api-gateway", "mqtt", "notifier")
}
DISPLAYS = frozenset(
    ["X", "Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "plasmashell"]
)
DISPLAY_UNITS = frozenset(
    f"{name}.service" for name in ("display-manager", "gdm", "gdm3", "lightdm", "sddm", "xdm")
)
# Ours, which the playbook that changes a node in service stops and starts.
OURS = "gpu-device-plugin.service"
ADVERTISERS = (OURS, DRA_UNIT)
VARIABLE = "gpu_nodes_stop_services (stop_services of the module)"
# Pods of DaemonSets, which no drain evicts, by a part of their names: the labels by which the GPU operator runs them.
DAEMON_SETS = (
    ("dcgm-exporter", "dcgm-exporter"),
    ("gpu-feature-discovery", "gpu-feature-discovery"),
    ("device-plugin", "device-plugin"),
    ("mig-manager", "mig-manager"),
    ("operator-validator", "operator-validator"),
    ("nvidia-dcgm", "dcgm"),
)


def advice(users: t.Sequence[User], pods: t.Sequence[str] = ()) -> str:
    """Return how the users of GPUs are stopped, as commands if they are known, each once."""
    named = [user for user in users if user.unit and not (user.pod or user.container)]
    named = [user for user in named if not _is_display(user) and user.unit not in ADVERTISERS]
    services = dict.fromkeys(PARENTS.get(user.unit, user.unit) for user in named)
    hints = []
    if services:
        hints.append(f"systemctl stop {' '.join(services)}, or name it in {VARIABLE}")
    if any("dcgm" in service for service in services):
        hints[-1] += ", or have gpu.node run DCGM with dcgm_state: present"
    hints += [hint for user in users for hint in _otherwise(user)]
    hints += _of_pods([*(user.pod for user in users if user.pod), *pods])
    return "; ".join(dict.fromkeys(hints))


def _is_display(user: User) -> bool:
    return user.unit in DISPLAY_UNITS or user.program in DISPLAYS


def _otherwise(user: User) -> t.Iterator[str]:
    if user.pod:
        return
    if user.container:
        engine = user.container.engine
        yield f"{engine} stop {user.container}" if engine else f"end the container {user.container}"
    elif _is_display(user):
        yield "systemctl isolate multi-user.target, which ends the graphical session"
    elif user.unit in ADVERTISERS:
        yield f"{user.unit} advertises the GPUs: the playbook gpu.node.upgrade_driver stops and starts it"
    elif not user.unit and user.program in BY_HAND:
        yield BY_HAND[user.program]


def _of_pods(names: t.Sequence[str]) -> t.Iterator[str]:
    """Return how pods are removed from a node; each pod counts for the first label that its name has a part of."""
    left = list(names)
    for part, label in DAEMON_SETS:
        if any(part in name for name in left):
            yield (
                "a drain leaves pods of DaemonSets: those of the GPU operator go with kubectl label node NAME "
                f"nvidia.com/gpu.deploy.{label}=false --overwrite, others with their node selector"
            )
        left = [name for name in left if part not in name]
    if left:
        yield "drain the node of its pods"
