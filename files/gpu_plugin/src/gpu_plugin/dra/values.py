# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The devices of a claim on this node, and the variables and mounts of its containers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .._shared._base.dra.names import NONE


@dataclass(frozen=True)
class Result:
    """One device of a claim's allocation (status.allocation.devices.results of resource.k8s.io/v1).

    ``consumed`` is what it takes of a share device: memory in bytes, cores in percent, shares.
    ``parameters`` are the driver's opaque ones for its request; ``admin``: it was asked for with adminAccess.
    """

    request: str
    pool: str
    device: str
    share_id: str = ""
    consumed: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    admin: bool = False


@dataclass(frozen=True)
class Claim:
    """A claim that is allocated; ``pods`` are the UIDs that it is reserved for, and ``pod_names`` their names."""

    uid: str
    namespace: str
    name: str
    results: tuple[Result, ...]
    pods: tuple[str, ...] = ()
    pod_names: tuple[str, ...] = ()


ALL: Final = ""  # requests of a claim


@dataclass(frozen=True)
class Container:
    """A container's devices of ours.

    Attributes:
        claims: The claims' names, each with the name of the one request that the container has of it, or ALL.
        resources: Its extended resources of NVIDIA, such as nvidia.com/gpu, which may be the device plugin's.
    """

    name: str
    claims: tuple[tuple[str, str], ...]
    resources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Share:
    """A share of a GPU that a claim holds: memory in bytes, cores in percent where 0 is no limit.

    ``priority`` is CUDA's for MPS clients: 0 is normal, 1 below. ``pods`` are the UIDs of its users.
    """

    claim: str
    gpu_uuid: str
    minor: int
    memory: int
    cores: int
    share_id: str = ""
    priority: int = 0
    pods: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host that containers see, read-only unless its options differ.

    With a ``type``, such as tmpfs, it is a file system that the runtime mounts for each container.
    """

    host_path: str
    container_path: str
    options: tuple[str, ...] = ("ro", "nosuid", "nodev", "bind")
    type: str = ""


@dataclass(frozen=True)
class Edits:
    """The variables and mounts of a claim's containers besides their GPUs."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()


class Enforcement:
    """A way to enforce what shares may use; this one enforces nothing.

    Containers then take turns on the whole GPU, as with time slices. Each method may be called again with the same
    arguments.
    """

    name = NONE

    def problem(self, gpu_uuid: str) -> str:
        """Return why shares of a GPU can't be enforced at the moment, empty if they can."""
        return ""

    def prepare(self, shares: Sequence[Share]) -> Edits:
        """Set up the shares of one claim.

        Raises:
            NodeError: if that can't be done now, or not in this way; nothing is left behind.
        """
        return Edits()

    def unprepare(self, shares: Sequence[Share]) -> None:
        """Undo what prepare() did.

        Raises:
            NodeError: if a part failed; it is tried again.
        """

    def restore(self, live: Sequence[Share]) -> None:
        """Restore the enforcement of these shares after a start, and undo all other that is ours."""

    def tick(self) -> None:
        """Look after what runs."""
