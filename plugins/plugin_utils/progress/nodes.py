# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is known of each node at the end, from the results that have passed by."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._checks.parts import BY_NAME, ENVIRONMENT

Data = t.Mapping[str, t.Any]
LOADS = ("nvidia_driver", "mig")  # other modules can't tell that no reboot is pending


class Failure(t.NamedTuple):
    """A task that failed for good, and why."""

    task: str
    reason: str


@dataclasses.dataclass
class ProgressNode:
    """A node, as far as its tasks have told."""

    driver: str = ""
    mig: str = ""
    reboots: t.Dict[str, bool] = dataclasses.field(default_factory=dict)
    resources: t.Dict[str, t.Any] = dataclasses.field(default_factory=dict)
    cordoned: bool = False
    checks: int = 0
    summary: str = ""
    gpus: bool = True
    calls: int = 0
    stopped: bool = False  # by the failures of others
    warnings: t.Dict[str, None] = dataclasses.field(default_factory=dict)
    plans: t.List[t.Any] = dataclasses.field(default_factory=list)  # that were shown
    failures: t.List[Failure] = dataclasses.field(default_factory=list)

    def learn(self, action: str, data: Data) -> None:
        """Take from the result of a module what the end shows; ``action`` is its name alone."""
        if action == "reboot" and data.get("rebooted"):
            self.reboots.clear()
        if data.get("reboot_required") or (action in LOADS and "reboot_required" in data):
            self.reboots[action] = bool(data["reboot_required"])
        if action in LEARN:
            LEARN[action](self, data)

    @property
    def reboot(self) -> str:
        """Whether a reboot is pending; empty where nothing has said it."""
        return ("pending" if any(self.reboots.values()) else "no") if self.reboots else ""

    @property
    def ready(self) -> str:
        """What a node that was validated offers; empty where it was not, or not well."""
        if not self.checks or self.failures:
            return ""
        if self.summary:
            return self.summary
        offered = offers(self.resources)
        return f"ready, {self.checks} checks hold{f', {offered}' if offered else ''}"


def offers(resources: Data) -> str:
    """Return what a device plugin offers: "4 GPU + 16 MIG devices offered"."""
    gpus = migs = 0
    for name, resource in resources.items():
        number = int(resource.get("devices", 0))
        gpus, migs = (gpus, migs + number) if "/mig-" in name else (gpus + number, migs)
    parts = [f"{number} {kind}" for number, kind in ((gpus, "GPU"), (migs, "MIG")) if number]
    if not parts:
        return ""
    late = any(not resource.get("registered", True) for resource in resources.values())
    summary = " + ".join(parts) + f" device{'s' if gpus + migs > 1 else ''} advertised"
    return f"{summary}, not registered with a kubelet yet" if late else summary


def _driver(node: ProgressNode, data: Data) -> None:
    if "loaded_version" in data:
        loaded, installed = data["loaded_version"], data.get("installed_version")
        node.driver = loaded or "not loaded"
        if installed and installed != loaded:
            node.driver += f" ({installed} installed)"


def _mig(node: ProgressNode, data: Data) -> None:
    node.mig = _partitioned(data.get("gpus"), "mig_enabled", "instances")


def _info(node: ProgressNode, data: Data) -> None:
    info = data.get("gpu_info") or {}
    if not info:  # the look failed, which says nothing of the driver
        return
    driver = info.get("driver") or {}
    node.gpus = bool(info.get("pci_gpus", True))
    node.driver = node.driver or driver.get("version") or ("not loaded" if node.gpus else "no GPU")
    node.mig = node.mig or _partitioned(info.get("gpus"), "mig_current", "gpu_instances")


def _partitioned(gpus: t.Any, on: str, instances: str) -> str:
    if not gpus:
        return ""
    parted = len([gpu for gpu in gpus if gpu.get(instances)])
    if parted:
        return f"{parted} of {len(gpus)} partitioned"
    return "on, no instances" if any(gpu.get(on) for gpu in gpus) else "off"


def _cordon(node: ProgressNode, data: Data) -> None:
    node.cordoned = bool(data.get("cordoned", node.cordoned))


def _resources(node: ProgressNode, data: Data) -> None:
    node.resources = dict(data.get("resources") or {})


def _checks(node: ProgressNode, data: Data) -> None:
    node.summary = str(data.get("summary") or "")
    node.checks = 0 if data.get("failed_checks") else len(data.get("checks") or ())


def _planned(node: ProgressNode, data: Data) -> None:
    """Take what the parts' modules would have said. That of the environment knows no more than the device plugin's."""
    _info(node, data)
    for part in data.get("parts") or ():
        if part["result"] and part["name"] != ENVIRONMENT:
            node.learn(
                BY_NAME[part["name"]].module,
                {**part["result"], "reboot_required": part["reboot_required"]},
            )
    if data.get("validation"):
        _checks(node, data["validation"])


LEARN: t.Dict[str, t.Callable[[ProgressNode, Data], None]] = {
    "nvidia_driver": _driver,
    "mig": _mig,
    "gpu_info": _info,
    "preflight": _info,
    "plan": _planned,
    "drain": _cordon,
    "device_plugin": _resources,
    "validate": _checks,
}
