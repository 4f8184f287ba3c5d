# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan that removes what gpu.node has added, and puts back what was there before."""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError
from .._base.packages.package import still_there
from .._base.steps import Plan, Step
from .facts import DriverState
from .kernel import persistence
from .packages import adoption
from .record import Record
from .report import describe
from .sources import runfile
from .sources.packages import REPAIR


def plan(state: DriverState, *, check_mode: bool) -> Plan:
    """Return the plan for ``state: absent``, without what its steps need.

    Raises:
        NodeError: if packages that gpu.node has not installed depend on those to be removed.
    """
    record, software = state.history.record, state.software
    before = describe(state)
    # apt takes our packages away whatever state they, and those of others, are in.
    needs_repair = record and software.unfinished and not state.machine.traits.apt
    steps = [REPAIR] if needs_repair else []
    if steps and not check_mode:
        return Plan(tuple(steps), before, before, more=True)
    restored = software.back or {}
    packages = _packages(state)
    if record:
        steps += _steps(state, packages)
    names = software.names
    left = {name: package for name, package in before["packages"].items() if name not in packages}
    back = {name: version for name, version in restored.items() if name in names.relevant}
    held = [name for name in before["held"] if name not in record.holds]
    after = {**before, "packages": {**left, **back}, "held": held}
    if record.repository:
        after.pop("repository", None)
    after.pop("runfile", None)
    after["modprobe"] = "" if record.modprobe else after["modprobe"]
    if names.persistenced in packages or record.service:
        after["persistence"] = False
    installed = {*filter(software.installed, software.packages)} - {*packages} | {*restored}
    reboot = _reboot(state, record or state.history.undone, installed)
    return Plan(tuple(steps), before, after, reboot_required=reboot)


def _packages(state: DriverState) -> t.Tuple[str, ...]:
    """Return the packages to be removed."""
    record, removal, software = state.history.record, state.software.removal, state.software
    stays, restored = bool(adoption.why_left(state)), software.back or {}
    blocking = record.requested & set(removal.needed if removal else ())
    if removal and blocking and not (stays or restored):
        raise NodeError(
            f"{', '.join(sorted(blocking))} cannot be removed",
            cause=f"{', '.join(removal.users)}, which this module did not install, need it",
            hint=f"remove them first: {state.machine.traits.purge} {' '.join(removal.users)}",
        )
    if restored:
        return tuple(sorted(still_there(record.packages, software.packages)))
    if stays:
        return ()
    # Without a simulation, which needs dpkg in order, all that was added goes.
    added = tuple(sorted(record.packages & set(software.packages)))
    return removal.packages if removal else added


def _reboot(state: DriverState, added: Record, installed: t.Iterable[str]) -> t.Tuple[str, ...]:
    """Return why a reboot is needed: a driver that gpu.node installed is loaded and its packages are gone.

    A loaded driver that others have brought is not judged.
    """
    modules = any(map(state.type_of, added.packages)) and not any(map(state.type_of, installed))
    if state.loaded.driver and (modules or (added.runfile and not added.replaced)):
        return ("the driver is still loaded, though its packages are gone",)
    return mismatched_libraries(state) if added else ()


def mismatched_libraries(state: DriverState) -> t.Tuple[str, ...]:
    """Return why a reboot is needed if the loaded driver and its libraries are of different versions."""
    libraries, driver = state.loaded.libraries, state.loaded.driver
    if driver is None or not libraries or driver.version in libraries:
        return ()
    versions = ", ".join(libraries)
    return (f"version {driver.version} of the driver is loaded, the libraries are of {versions}",)


def _steps(state: DriverState, packages: t.Sequence[str]) -> t.List[Step]:
    record, software = state.history.record, state.software
    stays = bool(adoption.why_left(state))
    held = sorted(name for name in record.holds if software.held(name))
    steps = []
    if held:
        summary = f"release the hold on {', '.join(held)}"
        steps.append(Step("hold", summary, {"hold": [], "release": held}))
    if record.runfile and not stays:
        summary = f"uninstall what NVIDIA's installer brought: {runfile.UNINSTALLER}"
        steps.append(Step("uninstall", summary))
    params = {
        "packages": packages,
        "back": software.back or {},
        "stays": stays,
        "service": record.service and software.names.persistenced not in packages,
        "fabric": record.fabric and software.names.fabric not in packages,
        "kernels": state.loaded.modules.images if record.modprobe else (),
    }
    asked = ", ".join(name for name in packages if name in record.requested) or "dependencies only"
    removed = f"remove the {len(packages)} packages that were added ({asked})"
    extras = (
        (record.sources, "the sources file"),
        (record.repository, "the repository with its key"),
        (record.stream, "the module stream"),
        (record.modprobe, "the modprobe file"),
        (record.device_nodes, "the unit for device nodes"),
        (record.persistence_mode, persistence.DROP_IN),
    )
    parts = [removed if packages else "forget the record of additions"]
    parts += [text for added, text in extras if added]
    summary = adoption.in_words(state, " and ".join(parts))
    return [*steps, Step("remove", summary, params)]
