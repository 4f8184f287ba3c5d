# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node shows without NVML: its driver, what is on hold, and by their files which parts of gpu.node it has."""

from __future__ import annotations

import re
import typing as t

from ...._base import distributions
from ...._base.boot import unit_file
from ...._base.dra.names import UNIT as DRA_UNIT
from ...._base.errors import NodeError
from ...._base.packages.package import Record
from ...._base.services import dcgm
from ...._base.services.driver import FABRIC_SERVICE, SERVICE
from ...._base.services.mig import UNIT as MIG_UNIT
from ...._cdi import boot as cdi_boot
from ...._device_plugin.plan import LABELS_UNIT, UNIT
from ...._device_plugin.state import SETTINGS
from ...._driver.capability import RECORD as DRIVER
from ...._driver.machine.kernel import modules
from ...._driver.machine.loading import differing, missing
from ...._driver.record import Record as DriverRecord
from ...._machine.host import Host
from ...._machine.units import properties, properties_of
from ...._mig import boot as mig_boot
from ...._node.machine import facts
from ...._node.machine.recorded import package_manager
from ...._runtime.machine.record import RECORD as RUNTIME
from ...._settings import boot as settings_boot
from ...._software.toolkit.capability import RECORD as TOOLKIT
from ..driver import DriverFacts
from ..services import Holds, Unit

# By Debian's and Ubuntu's packages (update-notifier-common, unattended-upgrades), and by SUSE's zypper.
REBOOT = ("/run/reboot-required", "/run/reboot-needed")
PACKAGES = "/run/reboot-required.pkgs"
FABRIC_PROGRAM = "nv-fabricmanager"
VERSION = re.compile(r"\b\d{3,}\.\d+(?:\.\d+)?\b")
SECONDS = 5.0
# Of a part, the file that shows that it is there, and the units that it has started; those that end when they are done
# are to be enabled, and not to have failed.
PARTS: t.Mapping[str, t.Tuple[str, t.Mapping[str, bool]]] = {
    "runtime": (RUNTIME, {}),
    "mig": (mig_boot.CONFIG, {MIG_UNIT: False}),
    "settings": (
        settings_boot.CONFIG,
        {settings_boot.UNIT: False, settings_boot.PATH_UNIT: True},
    ),
    "cdi": (cdi_boot.CONFIG, {cdi_boot.UNIT: False, cdi_boot.PATH_UNIT: True}),
    "device_plugin": (unit_file(UNIT), {UNIT: True}),
    "labels": (SETTINGS, {LABELS_UNIT: True}),
    "dra": (unit_file(DRA_UNIT), {DRA_UNIT: True}),
}


def look(host: Host, problem: str, *, slow: bool = False) -> DriverFacts:
    """Return what is there; ``problem`` is why NVML does not answer, which may be that it is ``slow``."""
    loaded, kernels = facts.loaded_driver(host), modules(host, (), added=False)
    switches = any(pci_device.kind == "nvswitch" for pci_device in facts.pci_devices(host))
    switches = switches or bool(facts.gpus(host) and facts.bridges(host))
    return DriverFacts(
        problem=problem,
        slow=slow,
        loaded=loaded.version if loaded else "",
        libraries=facts.library_versions(host),
        nouveau=host.exists("/sys/module/nouveau"),
        pending=pending(host),
        bare=kernels.bare,
        kernels=kernels.kernels,
        switches=switches,
        device_nodes=differing(host),
        **(_missing(host) if loaded else {}),
        **(_fabric(host) if switches else {}),
    )


def _missing(host: Host) -> t.Dict[str, t.Any]:
    """Return which device nodes are missing in words, or why that is not known."""
    try:
        return {
            "missing_nodes": tuple(
                f"{path} has another number than the loaded driver's, so nothing can use it"
                if host.exists(path)
                else f"{path} does not exist"
                for path in missing(host)
            )
        }
    except NodeError as error:
        return {"nodes_unknown": str(error)}


def pending(host: Host) -> t.Optional[t.Tuple[str, ...]]:
    """Return the packages for which the distribution asks for a reboot, None where it does not."""
    if not any(host.exists(path) for path in REBOOT):
        return None
    return tuple(sorted(set((host.read(PACKAGES) or "").split())))


def _fabric(host: Host) -> t.Dict[str, t.Any]:
    completed = host.run([FABRIC_PROGRAM, "--version"], check=False, timeout=SECONDS)
    version = VERSION.search(completed.out + completed.err)
    state = properties(host, FABRIC_SERVICE, "ActiveState").get("ActiveState", "")
    return {"fabric": state, "fabric_version": version[0] if version else ""}


def holds(host: Host) -> Holds:
    """Return what the records say was put on hold, and what the package manager says of it."""
    try:
        records = [Record.load(host.read(path), path) for path in (DRIVER, TOOLKIT, dcgm.RECORD)]
        desired = frozenset(name for record in records for name in record.holds)
        if not desired:
            return Holds()
        family = distributions.family(facts.os_release(host))
        if not family:
            raise NodeError("the package manager of this distribution is not known")
        packages = package_manager(family, host, 0, "nothing").packages()
        return Holds(desired, frozenset(name for name, package in packages.items() if package.held))
    except NodeError as error:
        return Holds(frozenset(["?"]), unknown=str(error))


def parts(host: Host) -> t.FrozenSet[str]:
    """Return the parts that are on the node."""
    return frozenset(part for part, (path, _units) in PARTS.items() if host.exists(path))


def units(host: Host, there: t.Collection[str]) -> t.Tuple[Unit, ...]:
    """Return the units of the parts as systemd has them, asked for all at once."""
    expected = {name: runs for part in sorted(there) for name, runs in PARTS[part][1].items()}
    expected.update(dict.fromkeys(_recorded(host), True))
    if not expected:
        return ()
    unit_properties = properties_of(host, tuple(expected), "UnitFileState", "ActiveState")
    return tuple(
        Unit(
            name,
            unit_properties[name].get("UnitFileState", ""),
            unit_properties[name].get("ActiveState", ""),
            runs,
        )
        for name, runs in expected.items()
    )


def _recorded(host: Host) -> t.Tuple[str, ...]:
    """Return the units that records name: nvidia-persistenced where we have enabled it, and those of DCGM."""
    try:
        enabled = DriverRecord.load(host.read(DRIVER), DRIVER).service
        return (*((SERVICE,) if enabled else ()), *dcgm.managed(host.read(dcgm.RECORD)))
    except NodeError:
        return ()
