# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The report of a driver: its state for the diff, warnings, releases, facts."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.errors import NodeError
from .._base.packages.apt import describe_broken
from .._base.packages.repository import texts
from .._base.steps import Step
from . import branches
from .branches import NO_VERSION, Version
from .desired import Desired
from .facts import DriverState
from .family import Family
from .kernel import persistence
from .kernel.modules import NO_SOURCES
from .packages.names import PLACE
from .packages.versions import Choice
from .sources.packages import broken_others, headers_package, offered_headers


def describe(state: DriverState) -> t.Dict[str, t.Any]:
    """Return the node's driver as ``--diff`` shows it."""
    software, loaded, record = state.software, state.loaded, state.history.record
    files = software.repository.files
    names = {*software.names.relevant, *record.adopted_versions}
    is_active = loaded.service.get("ActiveState") == "active"
    is_enabled = loaded.service.get("UnitFileState") in ("enabled", "static")
    return {
        **({"runfile": record.runfile} if record.runfile else {}),
        **({"repository": texts(files, PLACE)} if files else {}),
        **({"adopted": sorted(record.adopted_versions)} if record.adopted_versions else {}),
        "packages": software.there(sorted(names)),
        "held": sorted(filter(software.held, names)),
        "loaded": list(loaded.driver) if loaded.driver else None,
        "modprobe": loaded.modules.own or "",
        "persistence": is_active
        and is_enabled
        and not persistence.plan(loaded.persistence, has_drop_in=False),
    }


def after(state: DriverState, choice: Choice, steps: t.Iterable[Step]) -> t.Dict[str, t.Any]:
    """Return the description of the driver as it will be after the steps."""
    result = describe(state)
    targets = {name: version or choice.awaited for name, version in choice.targets.items()}
    result["packages"] = {**result["packages"], **targets}
    for step in steps:
        params = step.params
        if step.action == "install":
            for name in params["remove"]:
                result["packages"].pop(name, None)
        elif step.action == "adopt" and params["packages"]:
            result["adopted"] = sorted({*result.get("adopted", ()), *params["packages"]})
        elif step.action == "hold":
            held = set(result["held"]) - set(params["release"])
            result["held"] = sorted(held | set(params["hold"]))
        elif step.action == "repository":
            # The text of a key that is to be fetched is not known yet.
            key = {params["fetch"].path: ""} if params.get("fetch") else {}
            files = {**state.software.repository.files, **params["files"], **key}
            left = {path: text for path, text in files.items() if path not in params["stale"]}
            result["repository"] = texts(left, PLACE)
        elif step.action == "modprobe":
            result["modprobe"] = params["text"]
        elif step.action in ("load", "reload"):
            result["loaded"] = [choice.version or choice.awaited, choice.kind]
        elif step.action in ("persistence", persistence.ACTION):
            result["persistence"] = True
        elif step.action == "runfile":
            result["runfile"] = f"{choice.version} {choice.kind}"
    return result


def warnings(
    family: Family,
    state: DriverState,
    desired: Desired,
    choice: Choice,
    steps: t.Collection[Step],
) -> t.Tuple[str, ...]:
    """Return the warnings of a plan.

    A driver that gpu.node does not install is judged by its version alone.
    """
    result: t.List[str] = []
    if desired.source.name != "preinstalled":
        is_installing = any(step.action == "install" for step in steps)
        unsupported = branches.unsupported_gpus(choice.version or NO_VERSION, state.machine.gpus)
        result += [
            f"the {architecture} GPU {address} does not run with the driver {choice.version}: "
            f"{branches.describe_range(architecture)}"
            for address, architecture in unsupported
        ]
        result += (
            _install_warnings(state, choice)
            if is_installing
            else _module_warnings(family, state, choice)
        )
        result += [
            f"{path} keeps the driver from being loaded ({line}): after a boot no GPU works. Next step: take that out"
            for path, line in state.loaded.modules.kept_away.items()
        ]
        result += _hardware_warnings(state)
        if not any(step.action in ("repair", "install") for step in steps):
            result += filter(None, [describe_broken(broken_others(state, choice))])
    return (*result, *_release_warnings(family, state, desired, choice.version or NO_VERSION))


def _install_warnings(state: DriverState, choice: Choice) -> t.List[str]:
    """Return the warnings about packages that are to be installed."""
    result, software = [], state.software
    if choice.dkms and not state.machine.headers and not offered_headers(state):
        result.append(
            f"the headers of the running kernel {state.machine.kernel} are neither installed nor available as "
            f"{headers_package(state)}: DKMS can't build the modules for this kernel"
        )
    newest = Version.of(software.candidate(software.names.modules.by_type["proprietary"]))
    is_open = choice.kind == "open" and choice.version
    needs_open = "blackwell" in dict(state.machine.gpus).values()
    offered = ("", choice.version, *software.drivers(software.names.modules.by_type["open"]))
    if is_open and not needs_open and newest not in offered:
        result.append(
            f"the open kernel modules are available in version {choice.version} at most, the proprietary "
            f"ones in {newest}: kernel_modules: proprietary would give the newer driver"
        )
    return result


def _module_warnings(family: Family, state: DriverState, choice: Choice) -> t.List[str]:
    """Return the warnings about kernel modules and firmware that are on the node."""
    loaded = state.loaded
    result = [
        f"DKMS could not build {build.module} {build.version} for the kernel {build.kernel}: see {build.log}"
        for build in loaded.dkms
        if build.state == "failed"
    ]
    result += [
        f"DKMS has no sources of {build.module} {build.version} any more: no kernel that comes gets the driver. Next "
        "step: reinstall the package that they are of"
        for build in loaded.dkms
        if build.state == NO_SOURCES
    ]
    result += [
        f"the kernel {kernel} has no modules of the driver: after a boot into it no GPU works"
        + family.remedy(state, choice, kernel)
        for kernel in (loaded.modules.bare if state.machine.gpus else ())
    ]
    driver = loaded.driver
    if driver and driver.module_type == "open" and driver.version not in loaded.firmware:
        result.append(
            f"the node has no GSP firmware of version {driver.version}, which the open kernel modules need: "
            f"/lib/firmware/nvidia/{driver.version}/gsp*.bin"
        )
    return result


def _hardware_warnings(state: DriverState) -> t.List[str]:
    """Return the warnings about NVSwitches without a manager, and a node without GPUs."""
    result, machine, names = [], state.machine, state.software.names
    if machine.nvswitch and not names.fabric:
        result.append(
            f"the GPUs are joined by NVSwitches, and no fabric manager for {names.title} is known: CUDA "
            "does not start until one of exactly the driver's version runs"
        )
    if machine.bridged and names.fabric and not names.subnet:
        result.append(
            "the NVSwitches are managed through InfiniBand, and the sources have no nvlsm, without which "
            "the fabric manager does not start"
        )
    if not machine.gpus:
        result.append("no NVIDIA GPU was found on the PCI bus: the driver is not loaded")
    return result


def _release_warnings(
    family: Family, state: DriverState, desired: Desired, version: Version
) -> t.List[str]:
    """Return the warnings about the version that a plan leads to, and about the lists that it was chosen by."""
    software, machine = state.software, state.machine
    prebuilt = software.names.modules.prebuilt and version
    drivers = software.drivers(software.names.user_space[0]) if prebuilt else ()
    offered = next((driver for driver in drivers if driver.fits(version.branch)), NO_VERSION)
    newest = _newest(family, state, desired, version)
    result = branches.version_warnings(
        version, newest, desired.releases, machine.today, machine.gpus, offered
    )
    notes = state.history.refresh_note.split("; ") if desired.update else []
    # apt also warns of what is no failure.
    failed = "; ".join(note for note in notes if "fetch" in note or not note.startswith("W:"))
    if failed:
        missed = "the package lists could not be fetched, so a newer driver may be missed"
        result.append(f"{missed}: {failed}")
    return result


def facts(state: DriverState) -> t.Dict[str, t.Any]:
    """Return the node's hardware, kernel, firmware, services and GPU clients, JSON-able."""
    machine, software, loaded = state.machine, state.software, state.loaded
    key, modules = machine.signing_key, loaded.modules
    nouveau = "loaded" if loaded.nouveau else "absent"
    if modules.nouveau and not loaded.nouveau:
        is_blacklisted = modules.blacklisted or "nouveau" in (modules.own or "")
        nouveau = "blacklisted" if is_blacklisted else "available"
    return {
        "gpus": dict(machine.gpus),
        "nvswitch": machine.nvswitch,
        "kernel": machine.kernel,
        "headers": machine.headers,
        "held": sorted(filter(software.held, software.names.relevant)),
        "nouveau": nouveau,
        "kernels_without_driver": list(modules.bare),
        "stale_initramfs": list(modules.stale),
        "secure_boot": key is not None,
        "signing_key": key.path if key else "",
        "signing_key_state": key.state if key else "",
        "libraries": list(loaded.libraries),
        "firmware": list(loaded.firmware),
        "persistence_daemon": loaded.service.get("ActiveState", ""),
        "fabric_manager": loaded.fabric.get("ActiveState", ""),
        "gpu_users": [str(user) for user in loaded.users],
    }


def installed(state: DriverState) -> Version:
    """Return the version that is installed, or an empty one if none is."""
    versions = map(state.software.driver, state.software.names.user_space)
    return next(filter(None, versions), state.software.runfile.version)


def _newest(family: Family, state: DriverState, desired: Desired, version: Version) -> Version:
    """Return the newest version of a version's branch that an update would bring, or itself if none is newer.

    Empty if no packages are asked for.
    """
    if not version or desired.source.runfile or desired.source.name == "preinstalled":
        return NO_VERSION
    update = dataclasses.replace(desired, version=Version(version.branch), update=True)
    try:
        kind = state.wanted_type(update.kernel.module_type)
        newest = family.newest(state, update, kind)
    except NodeError:
        newest = NO_VERSION
    known = [known for known in (newest, version) if known.fits(version.branch)]
    return max(known, key=lambda known: known.numbers)


def releases(
    family: Family, state: DriverState, desired: Desired, planned: t.Mapping[str, str]
) -> t.Dict[str, t.Any]:
    """Return the module's report of the driver on the node, by the packages that a run leads to."""
    version, table, today = NO_VERSION, desired.releases, state.machine.today
    if desired.state == "present":
        # What is installed, or loaded if nothing is known of packages.
        version = NO_VERSION if desired.source.name == "preinstalled" else installed(state)
        version = version or (state.loaded.driver.version if state.loaded.driver else NO_VERSION)
    offered = _newest(family, state, desired, version)
    newer = "" if offered == version else offered
    user_space = [name for name in state.software.names.user_space if name in planned]
    is_planned = newer in [Version.of(planned[name]) for name in user_space]
    return {
        "newer_version": newer,
        "support": branches.support_status(version, table, today) if version and table else {},
        "security": branches.security_status(version, table) if version and table else {},
        "releases": branches.table_age(table, today) if table else {},
        "notes": branches.version_notes("" if is_planned else newer, version, table, today),
    }
