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
from ansible_collections.gpu.node.plugins.module_utils._driver.families import debian
from ansible_collections.gpu.node.plugins.module_utils._driver.known_families import FAMILIES
from ansible_collections.gpu.node.plugins.module_utils._driver.names import Offer, Wanted
from ansible_collections.gpu.node.plugins.module_utils._driver.plan import plan
from ansible_collections.gpu.node.plugins.module_utils._driver.state import (
    Desired,
    Observed,
    Record,
)

BY_TITLE = {one.title: FAMILIES[one.family] for one in SUPPORTED}
DEBIAN = debian.DEBIAN.names(Offer(), Wanted())
COMPONENTS, PERSISTENCED = DEBIAN.components, DEBIAN.persistenced
KERNEL, USER_SPACE = DEBIAN.kernel, DEBIAN.user_space
RELEVANT, MATCHED = DEBIAN.relevant, DEBIAN.matched
OLD, NEW = "535.261.03-1", "550.163.01-2"
WANTED = (*USER_SPACE, "libnvidia-cfg1", "firmware-nvidia-gsp", KERNEL["open"])
MAIN = Source("http://mirror/debian", "trixie", ("main",))
FULL = dataclasses.replace(MAIN, components=("main", *COMPONENTS))
OFFERED = dict.fromkeys(RELEVANT, Policy(NEW, (NEW, OLD)))
OPTIONS = (("nvidia.NVreg_ResmanDebugLevel", "7"),)
RUNNING = {"ActiveState": "active", "UnitFileState": "enabled"}
DESIRED = Desired(
    state="present",
    version=NO_VERSION,
    kernel_modules="auto",
    components=USER_SPACE,
    hold=True,
    load=True,
    persistence=True,
    manage_sources=True,
    secure_boot="refuse",
    reload="never",
)


def recording(name: str) -> str:
    """Return what apt or dpkg has printed on a real node."""
    return (Path(__file__).parent / f"recordings/apt-{name}.txt").read_text()


def package(
    version: str = NEW, state: State = State.INSTALLED, *, held: bool = False, torn: bool = False
) -> Package:
    return Package(version, "nvidia-graphics-drivers", state, held, torn)


def node(**changes: Any) -> Observed:
    """Return a node with an H100 and nothing installed, whose sources have the driver; of its names' family."""
    values: dict[str, Any] = {
        "distribution": "debian",
        "codename": "trixie",
        "title": "Debian GNU/Linux 13 (trixie)",
        "kernel": "6.12.1",
        "headers": True,
        "gpus": (("0000:18:00.0", "hopper"),),
        "packages": {},
        "policies": OFFERED,
        "interrupted": False,
        "loaded": None,
        "nouveau": False,
        "service": {},
        "sources": (FULL,),
        "own_sources": None,
        "record": Record(),
        "names": DEBIAN,
    }
    values.update(changes)
    if values["loaded"]:
        version, kind = values["loaded"]
        values["loaded"] = Version(version), kind
    values["libraries"] = tuple(map(Version, values.get("libraries", ())))
    return Observed(**{"family": BY_TITLE[values["names"].title], **values})


def fresh(**changes: Any) -> Observed:
    """Return a node that knows the component main only."""
    return node(**{"policies": {}, "sources": (MAIN,), **changes})


def converged(**changes: Any) -> Observed:
    """Return a node with all that DESIRED asks for, brought there by the module."""
    values: dict[str, Any] = {
        "packages": dict.fromkeys(WANTED, package(held=True)),
        "loaded": (upstream(NEW), "open"),
        "firmware": (upstream(NEW),),
        "service": RUNNING,
        "record": Record(
            packages=frozenset(WANTED), requested=frozenset(WANTED), holds=frozenset(WANTED)
        ),
    }
    return node(**{**values, **changes})


def after(observed: Observed, step: Step) -> Observed:
    """Return the node after a step, as apt, systemd and the kernel would leave it."""
    return getattr(_Effects, step.action)(observed, step.params)


class _Effects:
    @staticmethod
    def repair(one: Observed, _params: Any) -> Observed:
        packages = {
            name: found._replace(state=State.INSTALLED, torn=False)
            for name, found in one.packages.items()
        }
        return dataclasses.replace(one, packages=packages, interrupted=False)

    @staticmethod
    def sources(one: Observed, params: Any) -> Observed:
        record = dataclasses.replace(one.record, sources=True)
        return dataclasses.replace(one, own_sources=params["text"], record=record)

    @staticmethod
    def refresh(one: Observed, _params: Any) -> Observed:
        additions = [dataclasses.replace(MAIN, components=COMPONENTS)]
        found = FULL in one.sources or one.own_sources == render(additions)
        return dataclasses.replace(one, refreshed=True, policies=OFFERED if found else {})

    @staticmethod
    def install(one: Observed, params: Any) -> Observed:
        # apt also configures what waits for it, whoever left it so.
        packages = {
            k: v._replace(state=State.INSTALLED) if v.state in (State.UNPACKED, *WAITING) else v
            for k, v in one.packages.items()
            if k not in params["remove"]
        }
        new = {name for name in params["packages"] if one.installed(name) is None}
        packages.update({name: package(version) for name, version in params["packages"].items()})
        record = dataclasses.replace(
            one.record,
            packages=one.record.packages | new,
            requested=one.record.requested | new,
        )
        return dataclasses.replace(one, packages=packages, record=record)

    @staticmethod
    def hold(one: Observed, params: Any) -> Observed:
        packages = dict(one.packages)
        release = [name for name in params["release"] if name in packages]
        for held, names in ((False, release), (True, params["hold"])):
            packages.update({name: packages[name]._replace(held=held) for name in names})
        holds = (one.record.holds - set(params["release"])) | set(params["hold"])
        record = dataclasses.replace(one.record, holds=holds)
        return dataclasses.replace(one, packages=packages, record=record)

    @staticmethod
    def modprobe(one: Observed, params: Any) -> Observed:
        stale = tuple(name for name in one.modules.stale if name not in params["kernels"])
        found = dataclasses.replace(one.modules, own=params["text"] or None, stale=stale)
        record = dataclasses.replace(one.record, modprobe=bool(params["text"]))
        return dataclasses.replace(one, modules=found, record=record)

    @staticmethod
    def load(one: Observed, _params: Any) -> Observed:
        kind = next(kind for kind, name in KERNEL.items() if one.installed(name))
        version = upstream(str(one.installed(KERNEL[kind])))
        text = one.modules.own or ""
        options = dict.fromkeys(one.modules.options, "0")
        options.update({key: value for key, value in OPTIONS if f"={value}\n" in text})
        found = dataclasses.replace(one.modules, options=options)
        return dataclasses.replace(one, loaded=(version, kind), modules=found)

    @staticmethod
    def reload(one: Observed, params: Any) -> Observed:
        return _Effects.load(one, params)

    @staticmethod
    def persistence(one: Observed, params: Any) -> Observed:
        service = {**one.service, "UnitFileState": "enabled"}
        service["ActiveState"] = "active" if params["start"] else service.get("ActiveState", "")
        record = dataclasses.replace(
            one.record, service=one.record.service or not params["was_enabled"]
        )
        return dataclasses.replace(one, service=service, record=record)

    @staticmethod
    def remove(one: Observed, params: Any) -> Observed:
        packages = {k: v for k, v in one.packages.items() if k not in params["packages"]}
        gone = params["service"] or PERSISTENCED in params["packages"]
        return dataclasses.replace(
            one,
            packages=packages,
            own_sources=None if one.record.sources else one.own_sources,
            service={} if gone else one.service,
            record=Record(),
            removal=None,
            modules=dataclasses.replace(one.modules, own=None, stale=())
            if one.record.modprobe
            else one.modules,
            undone=one.record,
        )


def with_removal(one: Observed, **changes: Any) -> Observed:
    """Return the node with what a simulated purge of the additions comes to."""
    packages = tuple(sorted(one.record.packages & set(one.packages)))
    return dataclasses.replace(one, removal=Removal(packages, (), ())._replace(**changes))


def asked(version: str = "", **desired: Any) -> Desired:
    return dataclasses.replace(DESIRED, version=Version(version), **desired)


def planned(observed: Observed, *, check_mode: bool = False, **desired: Any) -> Plan:
    return plan(observed, asked(**desired), check_mode=check_mode)


def actions(observed: Observed, *, check_mode: bool = False, **desired: Any) -> list[str]:
    found = planned(observed, check_mode=check_mode, **desired)
    return [step.action for step in found.steps]
