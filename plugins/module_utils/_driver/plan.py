# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan of the driver: refusals, the steps of its source, those that make the kernel run it, and the report."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base import distributions
from .._base.errors import InputError, NodeError, not_ours, refuse_masked
from .._base.services.driver import FABRIC_SERVICE, SERVICE
from .._base.steps import IDLE_GPU, Plan, Step
from .._node.users import holders
from . import removal, report
from .branches import Version
from .desired import Desired
from .facts import DriverState, Machine
from .family import Family
from .kernel import device_nodes, persistence
from .kernel.modules import blacklists, render
from .module_options import declared, in_force
from .module_options.in_force import MODPROBE_FILE
from .packages.versions import Choice, Draft
from .record import as_texts, parse_pairs
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
    if desired.source.name != "preinstalled":
        _check(family, state, desired)
    _judge(state, desired, desired.version, desired.kernel.module_type)
    if state.loaded.modules.foreign and _render_modprobe(state, desired)[0]:
        raise not_ours(MODPROBE_FILE, "options of kernel modules")
    source = SOURCES.get(desired.source.name, packages.plan)
    steps, choice = source(family, state, desired, check_mode)
    before = report.describe(state)
    if choice is None:
        return Plan(steps, before, before, more=bool(steps))
    state = state.with_software(names=choice.names)
    kernel_steps, reboot, warnings = _plan_kernel(family, state, desired, choice)
    steps = (*steps, *kernel_steps)
    mismatch = desired.source.name == "preinstalled" and removal.mismatched_libraries(state)
    return Plan(
        _marked(steps, state, choice, reboot=bool(reboot)),
        before,
        report.after(state, choice, steps),
        reboot_required=(*reboot, *(mismatch or ())),
        warnings=report.warnings(family, state, desired, choice, steps) + warnings,
    )


def _check(family: Family, state: DriverState, desired: Desired) -> None:
    """Refuse options that do not fit the node, and a driver of NVIDIA's installer that packages would mix with."""
    machine, software = state.machine, state.software
    if desired.source.runfile is None:
        _check_platform(machine)
    if desired.hold_kernel and not machine.traits.apt:
        expected = "false, as only apt's packages of kernels are known"
        raise InputError.of("hold_kernel", True, expected)
    if desired.kernel.precompiled != "auto" and not machine.traits.has_precompiled:
        expected = "auto, as only the RHEL family has a choice"
        raise InputError.of("precompiled", desired.kernel.precompiled, expected)
    kind, names = state.wanted_type(desired.kernel.module_type), software.names
    if desired.source.runfile is not None:
        return
    family.refuse_foreign(state)
    if any(
        map(software.installed, (names.modules.by_type[kind], names.modules.prebuilt.get(kind, "")))
    ):
        return
    if software.nvidia_installer and not desired.adopt and not state.types:
        raise NodeError(
            "a driver from NVIDIA's own installer is on the node",
            cause=f"{runfile.UNINSTALLER} is there, and its files would mix with the packages",
            hint="keep it with source: preinstalled, have packages take its place by adopt: true, or run "
            "nvidia-uninstall on the node",
        )
    # Without lists nobody knows yet whether there are prebuilt ones.
    if not (names.modules.prebuilt or machine.traits.has_precompiled):
        family.check_signature(state, desired, names.modules.by_type[kind])


def _check_platform(machine: Machine) -> None:
    if distributions.supported(machine.distribution, machine.codename) is None:
        raise NodeError(
            f"{machine.title or machine.distribution!r} is not supported",
            cause=f"found ID={machine.distribution} release {machine.codename or '(none)'}; "
            f"expected {distributions.in_words()}",
            hint="install the driver yourself and leave this module out",
        )


def _plan_kernel(
    family: Family, state: DriverState, desired: Desired, choice: Choice
) -> t.Tuple[t.List[Step], t.Tuple[str, ...], t.Tuple[str, ...]]:
    """Return the kernel's steps, why a reboot is needed, and warnings about options and device nodes.

    The services start if the driver is or gets loaded.
    """
    exchange, reboot = _exchange(family, state, desired, choice)
    steps = _modprobe_steps(state, desired)
    loaded, names = state.loaded, choice.names
    usable = bool(state.machine.gpus) and not reboot
    if usable and desired.kernel.load and loaded.driver is None:
        waits = state.machine.traits.builds and not desired.source.runfile
        steps.append(Step("load", "load the kernel module: modprobe nvidia", {"waits": waits}))
    if exchange:
        summary = f"reload the kernel modules: {exchange}"
        steps.append(Step("reload", summary, needs=(IDLE_GPU,)))
    start = usable and (loaded.driver is not None or desired.kernel.load)
    has_drop_in = state.history.record.persistence_mode
    # NVIDIA's installer brings the persistence daemon without a unit.
    has_daemon = names.persistenced or loaded.service.get("UnitFileState")
    if desired.kernel.persistence and has_daemon:
        enable = _enable_service("persistence", SERVICE, loaded.service, start=start)
        steps += enable or persistence.plan(loaded.persistence, has_drop_in=has_drop_in)
    elif not desired.kernel.persistence and has_drop_in:
        steps.append(persistence.give_back())
    if state.machine.nvswitch and names.fabric:
        steps += _enable_service("fabric", FABRIC_SERVICE, loaded.fabric, start=start)
    # Device nodes that are there by themselves are left to whoever has installed the driver.
    if desired.source.name != "preinstalled" or loaded.device_nodes.missing:
        steps += device_nodes.plan(loaded.device_nodes)
    options = desired.kernel.module_options
    warnings = (
        *in_force.in_words(options, loaded.modules.overruled, loaded.modules.options),
        *_judge(state, desired, choice.version or desired.version, choice.kind),
        *persistence.warnings(loaded.persistence),
        *device_nodes.warnings(loaded.device_nodes),
    )
    return steps, reboot, warnings


def _changed_options(state: DriverState, desired: Desired) -> t.Dict[str, str]:
    """Return the options that have changed since the modules were loaded, with their values then."""
    load, record = state.loaded.load, state.history.record
    if not load:
        return {}
    written = parse_pairs(record.options, "=") or in_force.parse_own(state.loaded.modules.own or "")
    return in_force.changed(desired.kernel.module_options, written, record.before_load(load))


def changes_modprobe(state: DriverState, desired: Desired) -> bool:
    """Return whether the modprobe file has to be written or removed."""
    if desired.state == "absent":
        return state.history.record.modprobe
    return (state.loaded.modules.own or "") != _render_modprobe(state, desired)[0]


def _render_modprobe(state: DriverState, desired: Desired) -> t.Tuple[str, bool]:
    """Return the desired text of the modprobe file, and whether it blacklists nouveau."""
    modules = state.loaded.modules
    # Another's blacklist does not help against an initramfs that was made before it.
    loose = modules.nouveau and (state.loaded.nouveau or not modules.blacklisted)
    loose = loose and bool(state.machine.gpus) and desired.source.name != "preinstalled"
    nouveau = blacklists(modules.own or "") or loose
    current = state.machine.distribution == "debian"
    return render(desired.kernel.module_options, nouveau=nouveau, current=current), nouveau


def _modprobe_steps(state: DriverState, desired: Desired) -> t.List[Step]:
    """Return the step that blacklists nouveau and sets the modules' options, in each initramfs as well.

    A blacklist of ours stays though the packages may have brought theirs: the kernel reads both.
    """
    modules = state.loaded.modules
    text, nouveau = _render_modprobe(state, desired)
    changes = text != (modules.own or "")
    kernels = modules.images if changes else modules.stale
    if not changes and not kernels and (text or not state.history.record.modprobe):
        return []
    summary = []
    if changes:
        parts = ["blacklist nouveau"] if nouveau and not blacklists(modules.own or "") else []
        parts += ["set the options of the modules"] if desired.kernel.module_options else []
        parts = parts or ["remove the modules' options"]
        summary.append(f"{' and '.join(parts)} in {MODPROBE_FILE}")
    if kernels:
        summary.append(f"rebuild the initramfs of {', '.join(kernels)}")
    options = as_texts(_changed_options(state, desired))
    pending = tuple(sorted(f"{state.loaded.load} {option}" for option in options))
    params: t.Dict[str, t.Any] = {"text": text, "kernels": kernels}
    params.update({"spared": modules.spared} if modules.spared else {})
    params.update({"pending": pending} if pending else {})
    return [Step("modprobe", "; ".join(summary) or "forget the modprobe file", params)]


def _judge(state: DriverState, desired: Desired, version: Version, kind: str) -> t.Tuple[str, ...]:
    """Return the warnings about the modules' options, for a version of the driver."""
    if not desired.kernel.module_options:
        return ()
    driver = state.loaded.driver
    loaded = driver.version if driver else ""
    itself = {name: there or loaded for name, there in state.loaded.modules.itself.items()}
    return declared.judge(desired.kernel.module_options, version, kind, itself)


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
    if not difference or desired.kernel.reload != "when_idle":
        return "", (difference,) if difference else ()
    obstacle = _obstacle(state)
    if obstacle:
        return "", (f"{difference} (not reloaded: {obstacle})",)
    return difference, ()


def _obstacle(state: DriverState) -> str:
    """Return why the loaded modules can't be exchanged now, empty if they can."""
    loaded = state.loaded
    if loaded.reload_note:
        return loaded.reload_note
    if loaded.users:
        parts = ", ".join(map(str, loaded.users)), holders.advice(loaded.users)
        return f"processes have the GPUs open: {'; '.join(filter(None, parts))}"
    if loaded.allocated:
        return f"pods have been given GPUs: {', '.join(loaded.allocated)}"
    return ""


def _difference(state: DriverState, desired: Desired, choice: Choice) -> str:
    """Return how the loaded driver or its options differ from the desired ones, empty if they do not."""
    if state.loaded.driver is None:
        return ""
    version, kind = state.loaded.driver
    if choice.version is not None and choice.version != version:
        return (
            f"version {version} of the driver is loaded, {choice.version} belongs to the packages"
        )
    if kind != choice.kind:
        return f"the {kind} kernel modules are loaded, the packages have the {choice.kind} ones"
    modules = state.loaded.modules
    differences = in_force.differing(
        desired.kernel.module_options, modules.options, modules.overruled
    )
    changed = {
        name: value
        for name, value in _changed_options(state, desired).items()
        if name.partition(".")[0] in modules.present and name not in modules.overruled
    }
    differences += in_force.unseen(desired.kernel.module_options, changed, modules.options)
    if not differences:
        return ""
    return f"the modules were loaded with other options: {', '.join(differences)}"


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
    """Return the steps with what they need: idle GPUs if they replace the loaded driver, or a reboot."""
    marked = []
    for step in steps:
        needs = [*step.needs]
        if reboot and step.action == "install":
            # Not if it brings only what the driver is built with.
            targets = choice.targets.keys() if choice else set()
            if step.params["remove"] or targets & step.params["packages"].keys():
                needs.append("reboot")
        if state.loaded.driver and IDLE_GPU not in needs and _takes_driver(step, state, choice):
            needs.append(IDLE_GPU)
        marked.append(dataclasses.replace(step, needs=tuple(needs)))
    return tuple(marked)


def _takes_driver(step: Step, state: DriverState, choice: t.Optional[Choice]) -> bool:
    """Return whether a step takes the loaded driver from its users."""
    if step.action == "remove":
        return any(step.params[key] for key in ("packages", "back", "fabric"))
    if step.action != "install" or choice is None:
        return step.action in ("runfile", "uninstall")
    # A transaction that brings another driver than the loaded one in place of one that is installed.
    software, params = state.software, step.params
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
