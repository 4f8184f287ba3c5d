# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps that make the kernel run the driver: options, nouveau, loading, services, device nodes."""

from __future__ import annotations

import typing as t

from ..._base.errors import refuse_masked
from ..._base.services.driver import FABRIC_SERVICE, SERVICE
from ..._base.steps import IDLE_GPU, Step
from ..._node.users import holders
from ..branches import Version
from ..desired import Desired
from ..facts import DriverState
from ..family import Family
from ..module_options import declared, in_force
from ..packages.versions import Choice
from . import device_nodes, modprobe, persistence


class KernelPlan(t.NamedTuple):
    """The kernel's part of a plan.

    Attributes:
        steps: In their order.
        reboot: Why a reboot is needed, empty if none is.
        warnings: What is to be said of options and device nodes.
    """

    steps: t.Tuple[Step, ...]
    reboot: t.Tuple[str, ...]
    warnings: t.Tuple[str, ...]


def check(state: DriverState, desired: Desired) -> None:
    """Refuse options that can't be written, or that the desired version does not have.

    Raises:
        NodeError: if somebody else has written the modprobe file.
        InputError: if a release of the driver lacks an option.
    """
    _judge(state, desired, desired.version, desired.kernel_modules)
    modprobe.check(state, desired)


def plan(family: Family, state: DriverState, desired: Desired, choice: Choice) -> KernelPlan:
    """Return the kernel's steps; the services start where the driver is or gets loaded."""
    exchange, reboot = _exchange(family, state, desired, choice)
    steps = modprobe.plan(state, desired)
    loaded, names = state.loaded, choice.names
    usable = bool(state.machine.gpus) and not reboot
    if usable and desired.load and loaded.driver is None:
        waits = state.machine.traits.builds and not desired.runfile
        steps.append(Step("load", "load the kernel module: modprobe nvidia", {"waits": waits}))
    if exchange:
        summary = f"reload the kernel modules: {exchange}"
        steps.append(Step("reload", summary, needs=(IDLE_GPU,)))
    start = usable and (loaded.driver is not None or desired.load)
    has_drop_in = state.history.record.persistence_mode
    # NVIDIA's installer brings the persistence daemon without a unit.
    has_daemon = names.persistenced or loaded.service.get("UnitFileState")
    if desired.persistence and has_daemon:
        enable = _enable_service("persistence", SERVICE, loaded.service, start=start)
        steps += enable or persistence.plan(loaded.persistence, has_drop_in=has_drop_in)
    elif not desired.persistence and has_drop_in:
        steps.append(persistence.give_back())
    if state.machine.nvswitch and names.fabric:
        steps += _enable_service("fabric", FABRIC_SERVICE, loaded.fabric, start=start)
    # Device nodes that are there by themselves are left to whoever has installed the driver.
    if desired.source != "preinstalled" or loaded.device_nodes.missing:
        steps += device_nodes.plan(loaded.device_nodes)
    options = desired.module_options
    warnings = (
        *in_force.in_words(options, loaded.modules.overruled, loaded.modules.options),
        *_judge(state, desired, choice.version or desired.version, choice.kind),
        *persistence.warnings(loaded.persistence),
        *device_nodes.warnings(loaded.device_nodes),
    )
    return KernelPlan(tuple(steps), reboot, warnings)


def _judge(state: DriverState, desired: Desired, version: Version, kind: str) -> t.Tuple[str, ...]:
    """Return the warnings about the modules' options, for a version of the driver."""
    if not desired.module_options:
        return ()
    driver = state.loaded.driver
    loaded = driver.version if driver else ""
    itself = {name: there or loaded for name, there in state.loaded.modules.itself.items()}
    return declared.judge(desired.module_options, version, kind, itself)


def _exchange(
    family: Family, state: DriverState, desired: Desired, choice: Choice
) -> t.Tuple[str, t.Tuple[str, ...]]:
    """Return why the loaded modules are to be exchanged now, or why a reboot is needed.

    They are exchanged only if that was asked for, and nobody uses a GPU.
    """
    if state.loaded.nouveau:
        return "", ("the nouveau driver holds the GPUs",)
    waits = family.waits(state, choice)
    if choice.boot:
        boot = f"the kernel {choice.boot} has the modules of {choice.version}"
        waits = f"{boot}, the running one has not"
    if waits and (choice.version, choice.kind) != state.loaded.driver:
        return "", (waits,)
    difference = _difference(state, desired, choice)
    if not difference or desired.reload != "when_idle":
        return "", (difference,) if difference else ()
    obstacle = _obstacle(state)
    if obstacle:
        return "", (f"{difference} (not reloaded: {obstacle})",)
    return difference, ()


def _obstacle(state: DriverState) -> str:
    """Say why the loaded modules can't be exchanged now."""
    loaded = state.loaded
    if not loaded.reload_note and loaded.users:
        parts = ", ".join(map(str, loaded.users)), holders.advice(loaded.users)
        return f"processes have the GPUs open: {'; '.join(filter(None, parts))}"
    if not loaded.reload_note and loaded.allocated:
        return f"pods have been given GPUs: {', '.join(loaded.allocated)}"
    return loaded.reload_note


def _difference(state: DriverState, desired: Desired, choice: Choice) -> str:
    """Say how the loaded driver differs from the desired one."""
    if state.loaded.driver is None:
        return ""
    version, kind = state.loaded.driver
    if choice.version is not None and choice.version != version:
        return (
            f"version {version} of the driver is loaded, {choice.version} belongs to the packages"
        )
    if kind != choice.kind:
        return f"the {kind} kernel modules are loaded, the packages have the {choice.kind} ones"
    return _other_options(state, desired)


def _other_options(state: DriverState, desired: Desired) -> str:
    """Say how the options of the loaded modules differ from the desired ones."""
    modules = state.loaded.modules
    differences = in_force.differing(desired.module_options, modules.options, modules.overruled)
    changed = {
        name: value
        for name, value in modprobe.changed_options(state, desired).items()
        if name.partition(".")[0] in modules.present and name not in modules.overruled
    }
    differences += in_force.unseen(desired.module_options, changed, modules.options)
    text = f"the modules were loaded with other options: {', '.join(differences)}"
    return text if differences else ""


def _enable_service(
    action: str, unit: str, properties: t.Mapping[str, str], *, start: bool
) -> t.List[Step]:
    # Ubuntu's unit is static: udev starts it, and there is nothing to enable.
    enabled = properties.get("UnitFileState") in ("enabled", "static")
    active = properties.get("ActiveState") == "active"
    if enabled and (active or not start):
        return []
    otherwise = "set persistence to false" if unit == SERVICE else ""
    refuse_masked(unit, properties.get("UnitFileState", ""), otherwise)
    summary = f"enable {'and start ' if start else ''}{unit}"
    return [Step(action, summary, {"start": start, "was_enabled": enabled})]
