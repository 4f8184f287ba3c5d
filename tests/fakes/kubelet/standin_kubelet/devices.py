# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices and who has them, as the kubelet's device manager keeps them."""

from __future__ import annotations

import json
import os
import shutil
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEALTHY = "Healthy"
CONTAINER = "main"


class KubeletError(Exception):
    """The kubelet cannot do what it was asked for."""


class AdmissionError(KubeletError):
    """A pod cannot be admitted."""


@dataclass
class Device:
    """A device as its plugin last described it."""

    health: str
    numa: list[int]


@dataclass
class Resource:
    """A resource: its devices, and whether its plugin is connected."""

    devices: dict[str, Device] = field(default_factory=dict)
    connected: bool = True


def uid_of(pod: str) -> str:
    """Return a pod's UID."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, pod))


class Ledger:
    """All resources and allocations. Allocations are kept in a checkpoint, resources are not.

    The checkpoint has the form of the kubelet's, which has a folder for each pod as well.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.resources: dict[str, Resource] = {}
        self.checkpoint = checkpoint
        self.pods: dict[str, dict[str, list[str]]] = {}
        self.claims: dict[str, tuple[str, str]] = {}
        self._folders = checkpoint.parent.parent / "pods"
        if checkpoint.exists():
            for one in json.loads(checkpoint.read_text())["Data"]["PodDeviceEntries"]:
                pod = (self._folders / one["PodUID"] / "name").read_text()
                self.pods.setdefault(pod, {})[one["ResourceName"]] = one["DeviceIDs"]["-1"]

    def update(self, name: str, devices: dict[str, Device]) -> None:
        """Take over a plugin's list."""
        with self.changed:
            self.resources[name] = Resource(devices)
            self.changed.notify_all()

    def disconnect(self, name: str) -> None:
        """Mark all devices of a resource unhealthy: its plugin is gone."""
        with self.changed:
            resource = self.resources.get(name)
            if resource is not None:
                resource.connected = False
                for device in resource.devices.values():
                    device.health = "Unhealthy"
            self.changed.notify_all()

    def forget(self) -> None:
        """Forget the resources, as a restarted kubelet does."""
        with self.changed:
            self.resources.clear()
            self.changed.notify_all()

    def allocated(self, name: str) -> dict[str, str]:
        """Return the pod of each allocated device of a resource."""
        return {one: pod for pod, given in self.pods.items() for one in given.get(name, ())}

    def free(self, name: str, count: int) -> list[str]:
        """Return the healthy devices that nobody has; AdmissionError where they are too few."""
        resource = self.resources.get(name)
        if resource is None:
            raise AdmissionError(f"no resource {name} on this node")
        taken = self.allocated(name)
        found = [
            one for one, d in resource.devices.items() if d.health == HEALTHY and one not in taken
        ]
        if len(found) < count:
            raise AdmissionError(
                f"Allocate failed due to requested number of devices unavailable for {name}."
                f" Requested: {count}, Available: {len(found)}"
            )
        return found

    def give(self, pod: str, devices: dict[str, list[str]]) -> None:
        """Note a pod's devices."""
        with self.changed:
            self.pods[pod] = devices
            (self._folders / uid_of(pod)).mkdir(parents=True, exist_ok=True)
            (self._folders / uid_of(pod) / "name").write_text(pod)
            self._save()

    def claim(self, pod: str, driver: str, device: str) -> None:
        """Note a device that DRA gave a pod; without a driver it is a qualified CDI name."""
        with self.changed:
            self.claims[pod] = driver, device

    def take_back(self, pod: str) -> None:
        """Release a pod's devices; KubeletError for a pod that is not there."""
        with self.changed:
            if self.pods.pop(pod, None) is None:
                raise KubeletError(f"pod {pod} is not admitted")
            self._save()
            shutil.rmtree(self._folders / uid_of(pod))

    def holders(self) -> dict[str, dict[str, list[str]]]:
        """Return the devices of every admitted pod."""
        with self.changed:
            return dict(self.pods)

    def _save(self) -> None:
        temporary = self.checkpoint.with_suffix(".new")
        entries = [
            {
                "PodUID": uid_of(pod),
                "ContainerName": CONTAINER,
                "ResourceName": resource,
                "DeviceIDs": {"-1": ids},
                "AllocResp": "",
            }
            for pod, given in self.pods.items()
            for resource, ids in given.items()
        ]
        data = {"PodDeviceEntries": entries, "RegisteredDevices": {}}
        temporary.write_text(json.dumps({"Data": data, "Checksum": 0}))
        os.replace(temporary, self.checkpoint)

    def describe(self) -> dict[str, Any]:
        """Return every resource with its numbers and devices."""
        with self.changed:
            found: dict[str, Any] = {}
            for name, resource in sorted(self.resources.items()):
                taken = self.allocated(name)
                healthy = sum(one.health == HEALTHY for one in resource.devices.values())
                found[name] = {
                    "capacity": len(resource.devices),
                    "allocatable": healthy if resource.connected else 0,
                    "allocated": len(taken),
                    "devices": {
                        key: {"health": one.health, "numa": one.numa, "pod": taken.get(key)}
                        for key, one in resource.devices.items()
                    },
                }
            return found
