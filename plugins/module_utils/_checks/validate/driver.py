# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver: loaded, of one version, the wanted one, and there after the next boot too."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.services.driver import FABRIC_SERVICE, MAKE_NODES
from ..._driver.branches import Version
from ..._driver.kernel.device_nodes import Differing, way_back
from .check import Check, because, judged, skipped

BRING_UP = "run gpu.node.gpu_nodes"
KERNEL_LOG = (
    "see 'dmesg' on the node for what the driver waits for; devices stay advertised as they were"
)
DRIVER, VERSION, REBOOT = "driver", "driver version", "reboot"
KERNELS, FABRIC, DEVICE_NODES = "kernels", "fabric manager", "device nodes"


@dataclasses.dataclass(frozen=True)
class DriverFacts:
    """What the node shows of it.

    ``problem`` says why NVML does not answer, empty where it does; ``slow``: it may yet. ``libraries`` are the
    versions of libnvidia-ml on disk. ``pending`` is what the distribution wants a reboot for, None where it wants none.
    ``bare`` are those of the ``kernels`` that can be booted without modules of the driver. ``fabric`` is the state of
    the fabric manager's service and ``fabric_version`` its version, empty where that is not known. ``device_nodes``
    are those that are not as the driver's options say, ``missing_nodes`` says which do not exist or have another
    number, and ``nodes_unknown`` why that is not known.
    """

    problem: str = ""
    slow: bool = False
    loaded: str = ""
    libraries: t.Tuple[str, ...] = ()
    nouveau: bool = False
    pending: t.Optional[t.Tuple[str, ...]] = None
    bare: t.Tuple[str, ...] = ()
    kernels: t.Tuple[str, ...] = ()
    switches: bool = False
    fabric: str = ""
    fabric_version: str = ""
    device_nodes: t.Tuple[Differing, ...] = ()
    missing_nodes: t.Tuple[str, ...] = ()
    nodes_unknown: str = ""


def checks(driver: DriverFacts, version: str, source: str) -> t.List[Check]:
    """Return the checks of the driver; a user asks for the version, or the branch, and where it comes from."""
    return [
        judged(DRIVER, driver.problem, KERNEL_LOG if driver.slow else BRING_UP),
        _version(driver, version, source),
        _reboot(driver),
        _kernels(driver),
        _fabric(driver),
        _device_nodes(driver),
    ]


def _version(driver: DriverFacts, version: str, source: str) -> Check:
    if not driver.loaded:
        return skipped(VERSION, "no driver is loaded")
    if driver.libraries and driver.loaded not in driver.libraries:
        libraries = ", ".join(driver.libraries)
        cause = f"version {driver.loaded} is loaded, the libraries are of {libraries}"
        step = "reboot the node, or reload the modules (nvidia_driver_reload: when_idle)"
        return judged(VERSION, cause, step)
    if Version(driver.loaded).fits(version):
        return Check(VERSION)
    cause = f"version {driver.loaded} is loaded, and nvidia_driver_version asks for {version}"
    if source == "preinstalled":
        return judged(VERSION, cause, "install that version, or correct nvidia_driver_version")
    return judged(VERSION, cause, "run the playbook gpu.node.upgrade_driver")


def _reboot(driver: DriverFacts) -> Check:
    if driver.nouveau:
        return judged(REBOOT, "the nouveau driver holds the GPUs", "reboot the node")
    if driver.pending is None:
        return Check(REBOOT)
    cause = f"the distribution asks for a reboot{because([', '.join(driver.pending)])}"
    return judged(REBOOT, cause, "reboot the node at a time that suits", fails=False)


def _kernels(driver: DriverFacts) -> Check:
    """Fail where the next boot would be into a kernel without the driver: boot loaders take the newest."""
    if not driver.bare:
        return Check(KERNELS)
    plural, verb = ("s", "have") if len(driver.bare) > 1 else ("", "has")
    cause = (
        f"the kernel{plural} {', '.join(driver.bare)} {verb} no modules of the driver: after a boot into it no GPU"
        " works"
    )
    step = f"{BRING_UP}, which says what it lacks, or remove it"
    numbers = {
        kernel: [int(n) for n in re.findall(r"\d+", kernel)]
        for kernel in driver.kernels or driver.bare
    }
    newest = max(numbers, key=lambda kernel: numbers[kernel])
    return judged(KERNELS, cause, step, fails=newest in driver.bare)


def _device_nodes(driver: DriverFacts) -> Check:
    """Fail if a node is missing or keeps out containers whose user is not root; one that is too open is a warning."""
    nodes = driver.device_nodes
    if driver.missing_nodes:
        return judged(DEVICE_NODES, "; ".join(driver.missing_nodes), MAKE_NODES)
    if not nodes:
        unknown = driver.nodes_unknown
        return skipped(DEVICE_NODES, unknown) if unknown else Check(DEVICE_NODES)
    closed = any(node.is_closed for node in nodes)
    return judged(DEVICE_NODES, "; ".join(map(str, nodes)), way_back(nodes), fails=closed)


def _fabric(driver: DriverFacts) -> Check:
    if not driver.switches:
        return skipped(FABRIC, "the GPUs are not joined by NVSwitches")
    log = f"see journalctl -u {FABRIC_SERVICE}"
    if driver.fabric != "active":
        state = driver.fabric or "not there"
        cause = f"{FABRIC_SERVICE} is {state}, and without it CUDA does not start"
        return judged(FABRIC, cause, f"{log}; it must be of exactly the driver's version")
    other = driver.fabric_version and driver.loaded and driver.fabric_version != driver.loaded
    cause = f"it has version {driver.fabric_version}, the driver {driver.loaded}" if other else ""
    step = "install the fabric manager of the driver's version (gpu.node.gpu_nodes)"
    return judged(FABRIC, cause, step)
