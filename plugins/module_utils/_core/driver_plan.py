# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps from a node as it is to one with the wanted driver, or without it."""

from __future__ import annotations

import typing as t

from .apt import upstream
from .apt_sources import additions, render
from .driver import (
    COMPONENTS,
    KERNEL,
    PERSISTENCED,
    RELEASES,
    RELEVANT,
    Choice,
    Desired,
    NoCommonVersion,
    Observed,
    UnknownVersion,
    choose,
    flavour,
)
from .errors import NodeError
from .steps import Plan, Step

SERVICE = "nvidia-persistenced.service"
REFRESH = Step("refresh", "refresh the package lists: apt-get update")
REPAIR = Step("repair", "finish what an interrupted dpkg left: dpkg --configure -a")
NEWEST = "the newest that non-free offers"


def plan(observed: Observed, desired: Desired, *, check_mode: bool) -> Plan:
    """Return the plan; NodeError where the node cannot be brought there.

    What can only be planned once the package lists are there comes with the next plan, except
    in check mode, which tells all of it as far as it is known.
    """
    _check_platform(observed)
    if desired.state == "absent":
        return _absent(observed, check_mode)
    kind = flavour(desired.kernel_modules, observed.gpus)
    _check_node(observed, desired, kind)
    try:
        choice = choose(observed, desired, kind)
    except (UnknownVersion, NoCommonVersion):
        enable = _enable(observed) if desired.manage_sources else []
        if not enable and (observed.refreshed or check_mode):
            raise
        return Plan(
            tuple(enable) or (REFRESH,), _describe(observed), _describe(observed), more=True
        )
    sources = _sources(observed, desired, choice.unknown)
    install = _install(observed, desired, choice)
    first = [REPAIR] if _needs_repair(observed, choice, [*sources, *install]) else []
    if (first or sources) and not check_mode:
        steps = tuple(first or sources)
        return Plan(steps, _describe(observed), _describe(observed), more=True)
    return _complete(observed, desired, choice, [*first, *sources, *install], bool(install))


def _complete(
    observed: Observed, desired: Desired, choice: Choice, steps: t.List[Step], installing: bool
) -> Plan:
    """Add to the steps what comes after the installation, and the words around them."""
    reboot = _reboot_reasons(observed, desired, choice)
    reloads = _reloads(observed, desired, choice)
    changed = {name for step in steps for name in step.params.get("packages", ())}
    steps += _holds(observed, desired, choice, changed)
    usable = not reboot and bool(observed.gpus)
    loads = desired.load and usable and observed.loaded is None
    if loads:
        steps.append(Step("load", "load the kernel module: modprobe nvidia"))
    if reloads:
        words = f"reload the kernel modules: {_mismatch(observed, choice)}"
        steps.append(Step("reload", words, needs=("idle_gpu",)))
    if desired.persistence:
        steps += _service(observed, start=loads or (usable and observed.loaded is not None))
    after = _describe(observed)
    after["packages"] = {
        **after["packages"],
        **{name: version or NEWEST for name, version in choice.targets.items()},
    }
    for name in KERNEL.values():
        if name != KERNEL[choice.kind]:
            after["packages"].pop(name, None)
    for step in steps:
        if step.action == "hold":
            kept = set(after["held"]) - set(step.params["release"])
            after["held"] = sorted(kept | set(step.params["hold"]))
    if loads or reloads:
        after["loaded"] = [choice.version or NEWEST, choice.kind]
    if any(step.action == "persistence" for step in steps):
        after["persistence"] = True
    return Plan(
        tuple(steps),
        _describe(observed),
        after,
        reboot_required=reboot,
        warnings=_warnings(observed, choice, installing),
    )


# --- what is refused ---


def _check_platform(observed: Observed) -> None:
    if observed.distribution != "debian" or observed.codename not in RELEASES:
        supported = ", ".join(f"Debian {RELEASES[name]} ({name})" for name in RELEASES)
        raise NodeError(
            f"{observed.title or observed.distribution!r} is not supported",
            cause=f"found ID={observed.distribution} VERSION_CODENAME={observed.codename or '(none)'}; "
            f"expected {supported}",
            hint="install the driver yourself and leave this module out",
        )


def _check_node(observed: Observed, desired: Desired, kind: str) -> None:
    if observed.installed(KERNEL[kind]):
        return
    if observed.foreign_installer and not any(map(observed.installed, KERNEL.values())):
        raise NodeError(
            "a driver from NVIDIA's own installer is on the node",
            cause="/usr/bin/nvidia-uninstall is there, and its files would mix with the packages",
            hint="run nvidia-uninstall on the node, then run again",
        )
    if observed.secure_boot and desired.secure_boot == "refuse":
        raise NodeError(
            "Secure Boot is on",
            cause="the kernel loads modules that DKMS built only if the key that signed them is enrolled",
            hint="enrol DKMS's key (mokutil --import) and set secure_boot to ignore, or turn Secure Boot off",
        )


# --- steps, in their order ---


def _needs_repair(observed: Observed, choice: Choice, others: t.Sequence[Step]) -> bool:
    """Tell whether dpkg must be brought in order: apt will not work before, or it concerns us."""
    ours = {*choice.targets, *RELEVANT, *observed.record.packages}
    concerned = any(observed.packages[name].broken for name in ours & set(observed.packages))
    return concerned or (bool(others) and observed.unfinished)


def _sources(observed: Observed, desired: Desired, unknown: t.Sequence[str]) -> t.List[Step]:
    wanted = additions(observed.sources, observed.codename, COMPONENTS)
    own = observed.own_sources
    stale = own is not None and bool(wanted) and own != render(wanted or ())
    if not unknown and not (stale and desired.manage_sources):
        return []
    if wanted and not desired.manage_sources:
        raise NodeError(
            f"the node's package sources do not offer {', '.join(unknown)}",
            hint=f"enable the components {', '.join(COMPONENTS)}, or set manage_sources to true",
        )
    if wanted is None and own is None and desired.manage_sources:
        raise NodeError(
            f"no source of Debian {observed.codename} main was found in /etc/apt",
            hint="add one, or enable the components of the driver yourself and set manage_sources to false",
        )
    steps = _enable(observed)
    if steps:
        return steps
    if observed.refreshed:
        raise NodeError(
            f"the package sources offer no {', '.join(unknown)}",
            cause=observed.refresh_note or f"the components {', '.join(COMPONENTS)} are enabled",
            hint="check that the mirror carries them, that the node reaches it, and that no pin forbids them",
        )
    return [REFRESH]


def _enable(observed: Observed) -> t.List[Step]:
    """Enable what the node's own sources lack, unless that was done."""
    wanted = additions(observed.sources, observed.codename, COMPONENTS)
    if not wanted or observed.own_sources == render(wanted):
        return []
    words = ", ".join(dict.fromkeys(word for one in wanted for word in one.components))
    text = f"enable the components {words} of {', '.join(one.suite for one in wanted)}"
    return [Step("sources", text, {"text": render(wanted)}), REFRESH]


def _install(observed: Observed, desired: Desired, choice: Choice) -> t.List[Step]:
    change = {
        name: version
        for name, version in choice.targets.items()
        if observed.installed(name) is None or observed.installed(name) != version
    }
    drop = [
        name for name in KERNEL.values() if name not in choice.targets and observed.installed(name)
    ]
    foreign = [
        name
        for name in (*change, *drop)
        if observed.held(name)
        and not observed.packages[name].broken
        and name not in observed.record.holds
    ]
    if foreign:
        have = ", ".join(f"{name} {observed.installed(name) or '(none)'}" for name in foreign)
        raise NodeError(
            f"{', '.join(foreign)} must change, but is on hold, and not by this module",
            cause=f"installed: {have}",
            hint=f"ask for the version that is installed, or release it: apt-mark unhold {' '.join(foreign)}",
        )
    headers = _offered_headers(observed) if observed.loaded is None or change or drop else []
    if not (change or drop or headers):
        return []
    words = [f"{name} ({version or NEWEST})" for name, version in sorted(change.items())]
    words += [f"{name} ({observed.candidate(name)})" for name in headers]
    text = "; ".join(
        ([f"install {', '.join(words)}"] if words else [])
        + ([f"remove {', '.join(drop)}"] if drop else [])
    )
    needs = ("reboot",) if _reboot_reasons(observed, desired, choice) else ()
    params = {
        "packages": {**change, **dict.fromkeys(headers)},
        "remove": drop,
        "pins": choice.pins,
    }
    return [Step("install", text, params, needs)]


def headers_package(kernel: str) -> str:
    """Return the package with the headers of a kernel."""
    return f"linux-headers-{kernel}"


def _offered_headers(observed: Observed) -> t.List[str]:
    name = headers_package(observed.kernel)
    missing = not observed.headers and observed.installed(name) is None
    return [name] if missing and observed.candidate(name) else []


def _holds(
    observed: Observed, desired: Desired, choice: Choice, changed: t.Collection[str]
) -> t.List[Step]:
    """Hold what is not on hold; apt drops the hold of what it brings to another version."""
    ours = {name for name in observed.record.holds if observed.held(name)}
    hold = sorted(name for name in choice.targets if name in changed or not observed.held(name))
    hold = hold if desired.hold else []
    release = sorted(ours - set(choice.targets) if desired.hold else ours)
    words = []
    if hold:
        words.append(f"hold {', '.join(hold)} at their version")
    if release:
        words.append(f"release the hold on {', '.join(release)}")
    return [Step("hold", "; ".join(words), {"hold": hold, "release": release})] if words else []


def _service(observed: Observed, *, start: bool) -> t.List[Step]:
    enabled = observed.service.get("UnitFileState") == "enabled"
    active = observed.service.get("ActiveState") == "active"
    if enabled and (active or not start):
        return []
    words = f"enable {'and start ' if start else ''}{SERVICE}"
    return [Step("persistence", words, {"start": start, "was_enabled": enabled})]


# --- what else there is to say ---


def _mismatch(observed: Observed, choice: Choice) -> str:
    """Return in words how the loaded driver differs from the wanted one."""
    if observed.loaded is None:
        return ""
    version, kind = observed.loaded
    if choice.version is not None and choice.version != version:
        return (
            f"version {version} of the driver is loaded, {choice.version} belongs to the packages"
        )
    if kind != choice.kind:
        return f"the {kind} kernel modules are loaded, the packages have the {choice.kind} ones"
    return ""


def _reloads(observed: Observed, desired: Desired, choice: Choice) -> bool:
    """Tell whether the loaded modules may be exchanged: asked for, and nobody is on a GPU."""
    wanted = desired.reload == "when_idle" and not observed.nouveau
    hindered = bool(observed.users or observed.reload_note)
    return wanted and not hindered and bool(_mismatch(observed, choice))


def _reboot_reasons(observed: Observed, desired: Desired, choice: Choice) -> t.Tuple[str, ...]:
    if observed.nouveau:
        return ("the nouveau driver holds the GPUs",)
    words = _mismatch(observed, choice)
    if not words or _reloads(observed, desired, choice):
        return ()
    if desired.reload == "when_idle":
        users = f"processes have the GPUs open: {', '.join(observed.users)}"
        words += f" (not reloaded: {observed.reload_note or users})"
    return (words,)


def _warnings(observed: Observed, choice: Choice, installing: bool) -> t.Tuple[str, ...]:
    found = []
    if installing and not observed.headers and not _offered_headers(observed):
        found.append(
            f"the headers of the running kernel {observed.kernel} are neither installed nor offered as "
            f"{headers_package(observed.kernel)}: DKMS cannot build the modules for this kernel"
        )
    if not observed.gpus:
        found.append("no NVIDIA GPU was found on the PCI bus: the driver is not loaded")
    other = KERNEL["proprietary"]
    candidate = observed.candidate(other)
    architectures = {architecture for _address, architecture in observed.gpus}
    if (
        installing
        and choice.kind == "open"
        and choice.version
        and candidate
        and upstream(candidate) not in {upstream(one) for one in observed.versions(KERNEL["open"])}
        and upstream(candidate) != choice.version
        and "blackwell" not in architectures
    ):
        found.append(
            f"the open kernel modules are offered in version {choice.version} at most, the proprietary "
            f"ones in {upstream(candidate)}: kernel_modules: proprietary would give the newer driver"
        )
    return tuple(found)


def _absent(observed: Observed, check_mode: bool) -> Plan:
    record, removal = observed.record, observed.removal
    steps: t.List[Step] = []
    if record:
        if observed.unfinished:
            steps.append(REPAIR)
            if not check_mode:
                return Plan(tuple(steps), _describe(observed), _describe(observed), more=True)
        blocking = record.requested & set(removal.kept if removal else ())
        if removal and blocking:
            raise NodeError(
                f"{', '.join(sorted(blocking))} cannot be removed",
                cause=f"{', '.join(removal.users)}, which this module did not install, need it",
                hint=f"remove them first: apt-get purge {' '.join(removal.users)}",
            )
        steps += _take_back(observed)
    gone = set(_removed(observed))
    after = _describe(observed)
    after["packages"] = {
        name: version for name, version in after["packages"].items() if name not in gone
    }
    after["held"] = [name for name in after["held"] if name not in record.holds]
    if PERSISTENCED in gone or record.service:
        after["persistence"] = False
    smi = observed.smi and "nvidia-smi" not in gone
    loaded = observed.loaded is not None and not smi
    reboot = ("the driver is still loaded, though its packages are gone",) if loaded else ()
    return Plan(tuple(steps), _describe(observed), after, reboot_required=reboot)


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
    words = f"remove the {len(packages)} packages that were added ({asked or 'dependencies only'})"
    if not packages:
        words = "forget the record of additions"
    words += " and the sources file" if record.sources else ""
    service = record.service and PERSISTENCED not in packages
    steps.append(Step("remove", words, {"packages": packages, "service": service}))
    return steps


def _describe(observed: Observed) -> t.Dict[str, t.Any]:
    service = observed.service
    return {
        "packages": {
            name: package.version
            for name, package in sorted(observed.packages.items())
            if name in RELEVANT and package.installed
        },
        "held": sorted(name for name in RELEVANT if observed.held(name)),
        "loaded": list(observed.loaded) if observed.loaded else None,
        "persistence": service.get("ActiveState") == "active"
        and service.get("UnitFileState") == "enabled",
    }
