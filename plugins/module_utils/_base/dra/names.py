# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names that the DRA driver's slices, the cluster's objects and the node's files share.

An attribute or capacity without a domain has the driver's name as its domain (resource.k8s.io/v1).
"""

from __future__ import annotations

DRIVER = "gpu.node"
NVIDIA = "gpu.nvidia.com"  # the domain of what NVIDIA's own DRA driver publishes, under its names

GPU, MIG, SHARE = TYPES = "gpu", "mig", "share"  # values of the attribute "type"
GPU_CLASS, MIG_CLASS, SHARE_CLASS = (f"{device_type}.{DRIVER}" for device_type in TYPES)

# Capacities of a share device: bytes, percent, clients.
MEMORY, CORES, SHARES = "memory", "cores", "shares"

# How a share's memory and cores are enforced on a node; the value of the attribute "enforcement".
MPS, CGROUP, HAMI_CORE, NONE = ENFORCEMENTS = "mps", "cgroup", "hami-core", "none"

# The devices that a GPU outside of MIG mode is published as.
ALL = "all"
PUBLISHED = ALL, GPU, SHARE

DEVICE_PLUGIN, DRA, BOTH = ALLOCATIONS = "device_plugin", "dra", "both"

API_VERSION = f"{DRIVER}/v1"  # of the opaque parameters in claims
SHARE_CONFIG = "ShareConfig"

SOCKET = f"/var/lib/kubelet/plugins/{DRIVER}/dra.sock"
REGISTRATION = f"/var/lib/kubelet/plugins_registry/{DRIVER}-reg.sock"
CHECKPOINT = "/var/lib/gpu-dra/checkpoint.json"
STATUS = "/run/gpu-node/dra.json"
CDI_KIND = f"{DRIVER}/claim"
UNIT = "gpu-dra.service"


def share_name(minor: int) -> str:
    """Return the name of a GPU's share device."""
    return f"gpu-{minor}-share"


def gpu_name(minor: int) -> str:
    """Return the name of a whole GPU."""
    return f"gpu-{minor}"


def mig_name(minor: int, profile: str, profile_id: int, start: int) -> str:
    """Return the name of a MIG device of a profile, such as 1g.10gb+me, whose first memory slice this is."""
    plain = profile.replace(".", "").replace("+", "-").replace("_", "-")
    return f"gpu-{minor}-mig-{plain}-{profile_id}-{start}"


def pool_name(node: str) -> str:
    """Return the name of a node's pool, which no other driver uses.

    Others name theirs as the node, and the scheduler (1.36) keeps counters by a pool's name alone. If the name is too
    long (PoolNameMaxLength of resource.k8s.io/v1), it is the node's.
    """
    name = f"{DRIVER}/{node}"
    return name if len(name) <= 253 else node


def counter_set(minor: int) -> str:
    """Return the name of the counters that all devices of a GPU consume."""
    return f"gpu-{minor}-counter-set"
