# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Debian nodes as the driver's planner sees them, and what its steps do to them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.distributions import SUPPORTED
from ansible_collections.gpu.node.plugins.module_utils._base.packages.apt import (
    Source,
    render,
    upstream,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import (
    WAITING,
    Package,
    Policy,
    Removal,
    State,
)
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan, Step
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import NO_VERSION, Version
from ansible_collections.gpu.node.plugins.module_utils._driver.desired import Desired
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import (
    Driver,
    DriverState,
    Machine,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.families import debian
from ansible_collections.gpu.node.plugins.module_utils._driver.family import Family, load_family
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Offer,
    Requirements,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.plan import plan
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record

BY_TITLE = {one.title: load_family(one.family) for one in SUPPORTED}
DEBIAN = debian.DEBIAN.names(Offer(), Requirements())
COMPONENTS, PERSISTENCED = DEBIAN.archive.components, DEBIAN.persistenced
KERNEL, USER_SPACE = DEBIAN.modules.by_type, DEBIAN.user_space
RELEVANT, MATCHED = DEBIAN.relevant, DEBIAN.matched
OLD, NEW = "535.261.03-1", "550.163.01-2"
WANTED = (*USER_SPACE, "libnvidia-cfg1", "firmware-nvidia-gsp", KERNEL["open"])
MAIN = Source("http://mirror/debian", "trixie", ("main",))
FULL = dataclasses.replace(MAIN, components=("main", *COMPONENTS))
OFFERED = dict.fromkeys(RELEVANT, Policy(NEW, (NEW, OLD)))
OPTIONS = (("nvidia.NVreg_ResmanDebugLevel", "7"),)
RUNNING = {"ActiveState": "active", "UnitFileState": "enabled"}
DESIRED = Desired("present", NO_VERSION, USER_SPACE)
# Options that are fields of a part, by names of their own or not.
OF_SOURCE = {"source": "name", "manage_sources": "manage_lists"}
OF_KERNEL = {"kernel_modules": "module_type"}


def recording(name: str) -> str:
    """Return what apt or dpkg has printed on a real node."""
    return (Path(__file__).parent / f"recordings/apt-{name}.txt").read_text()


def package(
    version: str = NEW, state: State = State.INSTALLED, *, held: bool = False, torn: bool = False
) -> Package:
    return Package(version, "nvidia-graphics-drivers", state, held, torn)


def node(**changes: Any) -> DriverState:
    """Return a node with an H100 and nothing installed, whose sources have the driver; of its names' family.

    ``changes`` are fields of the four parts of its state.
    """
    values: dict[str, Any] = {
        "distribution": "debian",
        "codename": "trixie",
        "title": "Debian GNU/Linux 13 (trixie)",
        "kernel": "6.12.1",
        "headers": True,
        "gpus": (("0000:18:00.0", "hopper"),),
        "policies": OFFERED,
        "sources": (FULL,),
        "names": DEBIAN,
        **changes,
    }
    values.setdefault("traits", BY_TITLE[values["names"].title].traits)
    machine = {name: values.pop(name) for name in fields(Machine) & values.keys()}
    return changed(DriverState(Machine(**machine)), **values)


def fields(part: type) -> set[str]:
    """Return the names of the fields of a part of the state."""
    return {field.name for field in dataclasses.fields(part)}


def changed(state: DriverState, **changes: Any) -> DriverState:
    """Return the state with fields of its parts changed, whichever part has them."""
    if changes.get("driver"):
        version, kind = changes["driver"]
        changes["driver"] = Driver(Version(version), kind)
    if "libraries" in changes:
        changes["libraries"] = tuple(map(Version, changes["libraries"]))
    parts = {}
    for name in ("machine", "software", "loaded", "history"):
        part = getattr(state, name)
        own = {key: changes.pop(key) for key in fields(type(part)) & changes.keys()}
        parts[name] = dataclasses.replace(part, **own)
    assert not changes, f"no part of the state has {', '.join(changes)}"
    return DriverState(**parts)


def family_of(state: DriverState) -> Family:
    """Return the family of a node."""
    return load_family(state.machine.traits.name)


def plan_of(state: DriverState, desired: Desired, *, check_mode: bool = False) -> Plan:
    """Return the plan of a node."""
    return plan(family_of(state), state, desired, check_mode=check_mode)


def fresh(**changes: Any) -> DriverState:
    """Return a node that knows the component main only."""
    return node(**{"policies": {}, "sources": (MAIN,), **changes})


def converged(**changes: Any) -> DriverState:
    """Return a node with all that DESIRED asks for, brought there by the module."""
    values: dict[str, Any] = {
        "packages": dict.fromkeys(WANTED, package(held=True)),
        "driver": (upstream(NEW), "open"),
        "firmware": (upstream(NEW),),
        "service": RUNNING,
        "record": Record(
            packages=frozenset(WANTED), requested=frozenset(WANTED), holds=frozenset(WANTED)
        ),
    }
    return node(**{**values, **changes})


def after(state: DriverState, step: Step) -> DriverState:
    """Return the node after a step, as apt, systemd and the kernel would leave it."""
    return getattr(_Effects, step.action)(state, step.params)


class _Effects:
    @staticmethod
    def repair(state: DriverState, _params: Any) -> DriverState:
        packages = {
            name: found._replace(state=State.INSTALLED, torn=False)
            for name, found in state.software.packages.items()
        }
        return changed(state, packages=packages, interrupted=False)

    @staticmethod
    def sources(state: DriverState, params: Any) -> DriverState:
        record = dataclasses.replace(state.history.record, sources=True)
        return changed(state, own_sources=params["text"], record=record)

    @staticmethod
    def refresh(state: DriverState, _params: Any) -> DriverState:
        additions = [dataclasses.replace(MAIN, components=COMPONENTS)]
        software = state.software
        has_components = FULL in software.sources or software.own_sources == render(additions)
        return changed(state, refreshed=True, policies=OFFERED if has_components else {})

    @staticmethod
    def install(state: DriverState, params: Any) -> DriverState:
        # apt also configures what waits for it, whoever left it so.
        packages = {
            k: v._replace(state=State.INSTALLED) if v.state in (State.UNPACKED, *WAITING) else v
            for k, v in state.software.packages.items()
            if k not in params["remove"]
        }
        new = {name for name in params["packages"] if state.software.installed(name) is None}
        packages.update({name: package(version) for name, version in params["packages"].items()})
        record = state.history.record
        record = dataclasses.replace(
            record, packages=record.packages | new, requested=record.requested | new
        )
        return changed(state, packages=packages, record=record)

    @staticmethod
    def hold(state: DriverState, params: Any) -> DriverState:
        packages, record = dict(state.software.packages), state.history.record
        release = [name for name in params["release"] if name in packages]
        for held, names in ((False, release), (True, params["hold"])):
            packages.update({name: packages[name]._replace(held=held) for name in names})
        holds = (record.holds - set(params["release"])) | set(params["hold"])
        return changed(state, packages=packages, record=dataclasses.replace(record, holds=holds))

    @staticmethod
    def modprobe(state: DriverState, params: Any) -> DriverState:
        modules = state.loaded.modules
        stale = tuple(name for name in modules.stale if name not in params["kernels"])
        modules = dataclasses.replace(modules, own=params["text"] or None, stale=stale)
        record = dataclasses.replace(state.history.record, modprobe=bool(params["text"]))
        return changed(state, modules=modules, record=record)

    @staticmethod
    def load(state: DriverState, _params: Any) -> DriverState:
        kind = next(kind for kind, name in KERNEL.items() if state.software.installed(name))
        version = upstream(str(state.software.installed(KERNEL[kind])))
        modules = state.loaded.modules
        text = modules.own or ""
        options = dict.fromkeys(modules.options, "0")
        options.update({key: value for key, value in OPTIONS if f"={value}\n" in text})
        modules = dataclasses.replace(modules, options=options)
        return changed(state, driver=(version, kind), modules=modules)

    @staticmethod
    def reload(state: DriverState, params: Any) -> DriverState:
        return _Effects.load(state, params)

    @staticmethod
    def persistence(state: DriverState, params: Any) -> DriverState:
        service = {**state.loaded.service, "UnitFileState": "enabled"}
        service["ActiveState"] = "active" if params["start"] else service.get("ActiveState", "")
        record = state.history.record
        record = dataclasses.replace(record, service=record.service or not params["was_enabled"])
        return changed(state, service=service, record=record)

    @staticmethod
    def remove(state: DriverState, params: Any) -> DriverState:
        software, record, modules = state.software, state.history.record, state.loaded.modules
        packages = {k: v for k, v in software.packages.items() if k not in params["packages"]}
        gone = params["service"] or PERSISTENCED in params["packages"]
        if record.modprobe:
            modules = dataclasses.replace(modules, own=None, stale=())
        return changed(
            state,
            packages=packages,
            own_sources=None if record.sources else software.own_sources,
            service={} if gone else state.loaded.service,
            record=Record(),
            removal=None,
            modules=modules,
            undone=record,
        )


def with_removal(state: DriverState, **changes: Any) -> DriverState:
    """Return the node with what a simulated purge of the additions comes to."""
    packages = tuple(sorted(state.history.record.packages & set(state.software.packages)))
    return changed(state, removal=Removal(packages, (), ())._replace(**changes))


def asked(version: str = "", **options: Any) -> Desired:
    """Return DESIRED with options of the module."""
    return with_options(DESIRED, version=Version(version), **options)


def with_options(desired: Desired, **options: Any) -> Desired:
    """Return the desired driver with other options, whichever part has them."""
    for part, names in (("source", OF_SOURCE), ("kernel", OF_KERNEL)):
        value = getattr(desired, part)
        known = {**{name: name for name in fields(type(value))}, **names}
        own = {known[name]: options.pop(name) for name in known.keys() & options.keys()}
        options[part] = dataclasses.replace(value, **own)
    return dataclasses.replace(desired, **options)


def planned(state: DriverState, /, *, check_mode: bool = False, **desired: Any) -> Plan:
    return plan_of(state, asked(**desired), check_mode=check_mode)


def actions(state: DriverState, /, *, check_mode: bool = False, **desired: Any) -> list[str]:
    found = planned(state, check_mode=check_mode, **desired)
    return [step.action for step in found.steps]
