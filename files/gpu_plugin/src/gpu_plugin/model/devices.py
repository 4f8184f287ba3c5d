# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers can be given: devices, their shares, and why not to give one away. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from .._shared._device_plugin.resources import HEALTHY, UNHEALTHY
from .inventory import Problem
from .mps.settings import Offer

Resources = Mapping[str, tuple["Device", ...]]


@dataclass(frozen=True)
class Device:
    """Something a container can be given. ``problem`` says why it must not be, if so.

    ``instance`` are the ids of a MIG device's instances, ``replica`` is which share of the device,
    and ``mps`` how MPS shares it, if so; else its users may take turns of ``time_slice``. Memory is
    in bytes, ``slices`` are the compute slices of a MIG device and those of its GPU.
    """

    id: str
    gpu_uuid: str
    order: tuple[int, ...]
    paths: tuple[str, ...]
    numa_node: int | None = None
    problem: Problem | None = None
    instance: tuple[int, int] | None = None
    replica: int | None = None
    memory_total: int = 0
    compute_capability: tuple[int, int] = (0, 0)
    slices: tuple[int, int] = (1, 1)
    mps: Offer | None = None
    time_slice: str = ""

    @cached_property
    def uuid(self) -> str:
        """NVML's UUID, which all replicas of a device have in common."""
        return self.id.partition("::")[0]

    @property
    def index(self) -> str:
        """NVML's index: of a GPU "0", of a MIG device "0:1"."""
        return ":".join(str(number) for number in self.order)


class Devices(tuple[Device, ...]):
    """The devices of a resource, and what each call would look up among them again."""

    @classmethod
    def of(cls, devices: Iterable[Device]) -> Devices:
        """Return the devices in this form, the same object if they have it."""
        return devices if isinstance(devices, Devices) else cls(devices)

    @cached_property
    def by_id(self) -> Mapping[str, Device]:
        """The devices by their ids."""
        return {device.id: device for device in self}

    @cached_property
    def problems(self) -> Mapping[str, str]:
        """Why devices must not be used, by UUID, as all shares of one have the same problem."""
        return {device.uuid: str(device.problem) for device in self if device.problem}

    @cached_property
    def causes(self) -> Mapping[str, str]:
        """The same without what mends it."""
        return {device.uuid: device.problem.reason for device in self if device.problem}

    @cached_property
    def shares(self) -> Mapping[str, int]:
        """How many shares each device has that is shared, by UUID."""
        return Counter(device.uuid for device in self if device.replica is not None)

    @cached_property
    def reasons(self) -> Mapping[tuple[str, str], str]:
        """What the problem of each device is about, empty without one, by UUID and index."""
        return {
            (device.uuid, device.index): device.problem.kind.value if device.problem else ""
            for device in self
        }

    @cached_property
    def health(self) -> Mapping[str, str]:
        """How the devices are, by UUID and in the kubelet's words."""
        return {device.uuid: UNHEALTHY if device.problem else HEALTHY for device in self}
