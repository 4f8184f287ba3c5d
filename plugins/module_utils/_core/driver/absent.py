# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps that take back what nvidia_driver has added, and only that."""

from __future__ import annotations

import typing as t

from ..errors import NodeError
from ..steps import Plan, Step
from .refusals import check_platform
from .report import describe
from .runfile import UNINSTALLER
from .state import Observed

REPAIR = Step("repair", "finish what a transaction that was killed has left")


def absent(observed: Observed, check_mode: bool) -> Plan:
    """Return the plan of the way back."""
    record, removal = observed.record, observed.removal
    steps: t.List[Step] = []
    if record and not record.runfile:
        check_platform(observed)
    if record:
        if observed.unfinished:
            steps.append(REPAIR)
            if not check_mode:
                return Plan(tuple(steps), describe(observed), describe(observed), more=True)
        blocking = record.requested & set(removal.kept if removal else ())
        if removal and blocking:
            raise NodeError(
                f"{', '.join(sorted(blocking))} cannot be removed",
                cause=f"{', '.join(removal.users)}, which this module did not install, need it",
                hint=f"remove them first: apt-get purge {' '.join(removal.users)}",
            )
        steps += _take_back(observed)
    gone = set(_removed(observed))
    after = describe(observed)
    after["packages"] = {
        name: version for name, version in after["packages"].items() if name not in gone
    }
    after["held"] = [name for name in after["held"] if name not in record.holds]
    if record.repository:
        after.pop("repository", None)
    after.pop("runfile", None)
    after["modprobe"] = "" if record.modprobe else after["modprobe"]
    if observed.names.persistenced in gone or record.service:
        after["persistence"] = False
    smi = observed.smi and "nvidia-smi" not in gone
    loaded = observed.loaded is not None and (not smi or bool(record.runfile))
    reboot = ("the driver is still loaded, though its packages are gone",) if loaded else ()
    return Plan(tuple(steps), describe(observed), after, reboot_required=reboot)


def _removed(observed: Observed) -> t.Tuple[str, ...]:
    """Return what goes; without a simulation, which needs dpkg in order, all that was added."""
    if observed.removal is not None:
        return observed.removal.packages
    return tuple(sorted(name for name in observed.record.packages if name in observed.packages))


def _take_back(observed: Observed) -> t.List[Step]:
    record, packages = observed.record, _removed(observed)
    held = sorted(name for name in record.holds if observed.held(name))
    steps = []
    if held:
        words = f"release the hold on {', '.join(held)}"
        steps.append(Step("hold", words, {"hold": [], "release": held}))
    asked = ", ".join(name for name in packages if name in record.requested)
    if record.runfile:
        steps.append(Step("uninstall", f"uninstall what NVIDIA's installer brought: {UNINSTALLER}"))
    words = f"remove the {len(packages)} packages that were added ({asked or 'dependencies only'})"
    if not packages:
        words = "forget the record of additions"
    words += " and the sources file" if record.sources else ""
    words += " and the repository with its key" if record.repository else ""
    words += " and the module stream" if record.stream else ""
    words += " and the modprobe file" if record.modprobe else ""
    service = record.service and observed.names.persistenced not in packages
    fabric = record.fabric and observed.names.fabric not in packages
    kernels = observed.modules.images if record.modprobe else ()
    params = {"packages": packages, "service": service, "kernels": kernels, "fabric": fabric}
    steps.append(Step("remove", words, params))
    return steps
