# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node shows of its driver without NVML: modules, libraries, kernels, reboots, the fabric manager, holds."""

from __future__ import annotations

import re
import typing as t

from ...._base import distributions
from ...._base.errors import NodeError
from ...._base.packages.package import Record
from ...._base.services.driver import FABRIC_SERVICE
from ...._driver.capability import RECORD as DRIVER
from ...._driver.machine.kernel import modules
from ...._driver.machine.loading import differing
from ...._machine.host import Host, properties
from ...._node.machine import facts
from ...._node.machine.dcgm import RECORD as DCGM
from ...._node.machine.recorded import package_manager
from ...._software.toolkit.capability import RECORD as TOOLKIT
from ..driver import Driver
from ..services import Holds

# By Debian's and Ubuntu's packages (update-notifier-common, unattended-upgrades), and by SUSE's zypper.
REBOOT = ("/run/reboot-required", "/run/reboot-needed")
PACKAGES = "/run/reboot-required.pkgs"
FABRIC_PROGRAM = "nv-fabricmanager"
VERSION = re.compile(r"\b\d{3,}\.\d+(?:\.\d+)?\b")
SECONDS = 5.0


def look(host: Host, problem: str, *, slow: bool = False) -> Driver:
    """Return what is there; ``problem`` is why NVML does not answer, which may be that it is ``slow``."""
    loaded, kernels = facts.loaded_driver(host), modules(host, (), added=False)
    switches = any(one.kind == "nvswitch" for one in facts.pci_devices(host))
    switches = switches or bool(facts.gpus(host) and facts.bridges(host))
    return Driver(
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
        **(_fabric(host) if switches else {}),
    )


def pending(host: Host) -> t.Optional[t.Tuple[str, ...]]:
    """Return the packages for which the distribution asks for a reboot, None where it does not."""
    if not any(host.exists(path) for path in REBOOT):
        return None
    return tuple(sorted(set((host.read(PACKAGES) or "").split())))


def _fabric(host: Host) -> t.Dict[str, str]:
    said = host.run([FABRIC_PROGRAM, "--version"], check=False, timeout=SECONDS)
    version = VERSION.search(said.out + said.err)
    state = properties(host, FABRIC_SERVICE, "ActiveState").get("ActiveState", "")
    return {"fabric": state, "fabric_version": version[0] if version else ""}


def holds(host: Host) -> Holds:
    """Return what the records say was put on hold, and what the package manager says of it."""
    try:
        records = [Record.load(host.read(path), path) for path in (DRIVER, TOOLKIT, DCGM)]
        wanted = frozenset(name for one in records for name in one.holds)
        return Holds(wanted, _held(host)) if wanted else Holds()
    except NodeError as error:
        return Holds(frozenset(["?"]), unknown=str(error))


def _held(host: Host) -> t.FrozenSet[str]:
    family = distributions.family(facts.os_release(host))
    if not family:
        raise NodeError("the package manager of this distribution is not known")
    found = package_manager(family, host, 0, "nothing").packages()
    return frozenset(name for name, one in found.items() if one.held)
