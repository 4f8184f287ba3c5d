# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan of the driver: what stands in the way, the steps of its source, those of the kernel, and the report."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base import distributions
from .._base.errors import InputError, NodeError
from .._base.steps import IDLE_GPU, Plan, Step
from . import removal, report
from .branches import Version
from .desired import Desired
from .facts import DriverState, Machine
from .family import Family
from .kernel import plan as kernel
from .packages.versions import Choice, Draft
from .sources import packages, preinstalled, runfile

SourcePlan = t.Callable[[Family, DriverState, Desired, bool], Draft]
SOURCES: t.Mapping[str, SourcePlan] = {"preinstalled": preinstalled.plan, "runfile": runfile.plan}


def plan(family: Family, state: DriverState, desired: Desired, *, check_mode: bool) -> Plan:
    """Return the plan of a driver.

    What can only be planned once the package lists are there comes with the next plan. Check mode plans all of it as
    far as it is known.

    Raises:
        NodeError: if the node can't be brought there.
    """
    if desired.state == "absent":
        if state.history.record and not state.history.record.runfile:
            _check_platform(state.machine)
        taken_back = removal.plan(state, check_mode=check_mode)
        return dataclasses.replace(taken_back, steps=_marked(taken_back.steps, state))
    if desired.source != "preinstalled":
        _check(family, state, desired)
    kernel.check(state, desired)
    source = SOURCES.get(desired.source, packages.plan)
    steps, choice = source(family, state, desired, check_mode)
    before = report.describe(state)
    if choice is None:
        return Plan(steps, before, before, more=bool(steps))
    state = state.with_software(names=choice.names)
    of_kernel = kernel.plan(family, state, desired, choice)
    reboot = of_kernel.reboot
    if desired.source == "preinstalled":
        reboot += removal.mismatched_libraries(state)
    steps = (*steps, *of_kernel.steps)
    return Plan(
        _marked(steps, state, choice, reboot=bool(of_kernel.reboot)),
        before,
        report.after(state, choice, steps),
        reboot_required=reboot,
        warnings=report.warnings(family, state, desired, choice, steps) + of_kernel.warnings,
    )


def _check(family: Family, state: DriverState, desired: Desired) -> None:
    """Refuse options that do not fit the node, and a driver of NVIDIA's installer that packages would mix with."""
    machine, software = state.machine, state.software
    if desired.runfile is None:
        _check_platform(machine)
    if desired.hold_kernel and not machine.traits.apt:
        expected = "false, as only apt's packages of kernels are known"
        raise InputError.of("hold_kernel", True, expected)
    if desired.precompiled != "auto" and not machine.traits.has_precompiled:
        expected = "auto, as only the RHEL family has a choice"
        raise InputError.of("precompiled", desired.precompiled, expected)
    kind, names = state.wanted_type(desired.kernel_modules), software.names
    if desired.runfile is not None:
        return
    family.refuse_foreign(state)
    if any(map(software.installed, (names.kernel[kind], names.prebuilt.get(kind, "")))):
        return
    if software.nvidia_installer and not desired.adopt and not state.types:
        raise NodeError(
            "a driver from NVIDIA's own installer is on the node",
            cause=f"{runfile.UNINSTALLER} is there, and its files would mix with the packages",
            hint="keep it with source: preinstalled, have packages take its place by adopt: true, or run "
            "nvidia-uninstall on the node",
        )
    # Without lists nobody knows yet whether there are prebuilt ones.
    if not (names.prebuilt or machine.traits.has_precompiled):
        family.check_signature(state, desired, names.kernel[kind])


def _check_platform(machine: Machine) -> None:
    if distributions.supported(machine.distribution, machine.codename) is None:
        raise NodeError(
            f"{machine.title or machine.distribution!r} is not supported",
            cause=f"found ID={machine.distribution} release {machine.codename or '(none)'}; "
            f"expected {distributions.in_words()}",
            hint="install the driver yourself and leave this module out",
        )


def disrupts(planned: Plan) -> bool:
    """Return whether a plan takes the loaded driver from its users, or reloads it."""
    return any(IDLE_GPU in step.needs for step in planned.steps)


def replaces(planned: Plan) -> bool:
    """Return whether a plan takes the driver from its users, and does not only reload it if nobody uses a GPU."""
    return any(IDLE_GPU in step.needs and step.action != "reload" for step in planned.steps)


def _marked(
    steps: t.Iterable[Step],
    state: DriverState,
    choice: t.Optional[Choice] = None,
    *,
    reboot: bool = False,
) -> t.Tuple[Step, ...]:
    """Return the steps with what they need: idle GPUs if they replace the loaded driver, a reboot to take effect."""
    marked = []
    for step in steps:
        needs = [*step.needs]
        if reboot and step.action == "install" and _changes_driver(step, choice):
            needs.append("reboot")
        if state.loaded.driver and IDLE_GPU not in needs and _takes_driver(step, state, choice):
            needs.append(IDLE_GPU)
        marked.append(dataclasses.replace(step, needs=tuple(needs)))
    return tuple(marked)


def _changes_driver(step: Step, choice: t.Optional[Choice]) -> bool:
    """Return whether a transaction has packages of the driver, and not only what it is built with."""
    targets = choice.targets if choice else {}
    return bool(step.params["remove"] or targets.keys() & step.params["packages"].keys())


def _takes_driver(step: Step, state: DriverState, choice: t.Optional[Choice]) -> bool:
    """Return whether a step takes the loaded driver from its users."""
    if step.action == "remove":
        return any(step.params[key] for key in ("packages", "back", "fabric"))
    if step.action == "install" and choice is not None:
        return _replaces_packages(step.params, state, choice)
    return step.action in ("runfile", "uninstall")


def _replaces_packages(params: t.Mapping[str, t.Any], state: DriverState, choice: Choice) -> bool:
    """Return whether a transaction brings another driver than the loaded one in place of one that is installed."""
    software = state.software
    if (choice.version, choice.kind) == state.loaded.driver:
        return False
    if not any(map(software.installed, software.packages)):
        return True
    for name, version in params["packages"].items():
        installed = software.installed(name)
        if installed and (version is None or Version.of(version) != software.driver(name)):
            return True
        if not installed and state.type_of(name):
            return True
    return any(state.type_of(name) and software.installed(name) for name in params["remove"])
