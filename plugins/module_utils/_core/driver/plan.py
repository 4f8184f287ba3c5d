# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps from a node as it is to one with the wanted driver, or without it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import NodeError
from ..packages import streams as dnf_streams
from ..packages.apt_sources import Source, additions, render
from ..packages.package import WAITING, State
from ..steps import Plan, Step
from . import branches as driver_branches
from . import runfile as driver_runfile
from .absent import REPAIR, absent
from .kernel import MODPROBE_FILE, blacklists, differing
from .kernel import render as render_modules
from .preinstalled import check
from .refusals import check_node, check_platform
from .report import describe, offered_headers, uses_dkms, warnings
from .repository_plan import repository_step
from .select import Choice, Desired, NoCommonVersion, Observed, UnknownVersion, choose, flavour

# What apt configures along with whatever it installs.
CONFIGURED_ALONG = (State.UNPACKED, *WAITING)
SERVICE = "nvidia-persistenced.service"
FABRIC_SERVICE = "nvidia-fabricmanager.service"
REFRESH = Step("refresh", "refresh the package lists")
NEWEST = "the newest that the sources offer"


def plan(observed: Observed, desired: Desired, *, check_mode: bool) -> Plan:
    """Return the plan; NodeError where the node cannot be brought there.

    What can only be planned once the package lists are there comes with the next plan, except
    in check mode, which tells all of it as far as it is known.
    """
    if desired.state == "present" and desired.source == "preinstalled":
        return check(observed, desired)
    absently = desired.state == "absent"
    record = observed.record
    if bool(record) and not record.runfile if absently else desired.runfile is None:
        check_platform(observed)
    if absently:
        return absent(observed, check_mode)
    kind = flavour(desired.kernel_modules, observed.gpus)
    if desired.runfile is not None:
        return _by_installer(observed, desired, desired.runfile, kind, check_mode=check_mode)
    check_node(observed, desired, kind)
    named = _named(observed, desired, kind)
    if named and not check_mode:
        return Plan(tuple(named), describe(observed), describe(observed), more=True)
    try:
        choice = choose(observed, desired, kind)
    except (UnknownVersion, NoCommonVersion, driver_branches.NoSupport):
        enable = named or (_enable(observed) if desired.manage_sources else [])
        if not enable and (observed.refreshed or check_mode):
            raise
        return Plan(tuple(enable) or (REFRESH,), describe(observed), describe(observed), more=True)
    sources = named or _sources(observed, desired, choice.unknown)
    install = _install(observed, desired, choice)
    first = [REPAIR] if _needs_repair(observed, choice, [*sources, *install]) else []
    if (first or sources) and not check_mode:
        steps = tuple(first or sources)
        return Plan(steps, describe(observed), describe(observed), more=True)
    return _complete(observed, desired, choice, [*first, *sources, *install], bool(install))


def _by_installer(
    observed: Observed,
    desired: Desired,
    runfile: driver_runfile.Runfile,
    kind: str,
    *,
    check_mode: bool,
) -> Plan:
    """Return the plan where NVIDIA's own installer brings the driver."""
    if not driver_branches.able([desired.version], observed.gpus):
        raise driver_branches.no_version([desired.version], observed.gpus)
    steps = driver_runfile.steps(
        observed,
        runfile,
        desired.version,
        kind,
        ours=observed.record.runfile,
        packages=[one for one in observed.names.relevant if observed.installed(one)],
        refuse_unsigned=desired.secure_boot == "refuse",
    )
    if steps and not check_mode:
        return Plan(tuple(steps), describe(observed), describe(observed), more=True)
    # The installer brings the persistence daemon without a unit.
    unit = observed.service.get("UnitFileState", "")
    desired = dataclasses.replace(desired, persistence=desired.persistence and bool(unit))
    choice = Choice(kind, desired.version, {}, (), driver_runfile.NAMES)
    bare = dataclasses.replace(observed, names=driver_runfile.NAMES)
    found = _complete(bare, desired, choice, steps, False)
    after = {**found.after, "runfile": f"{desired.version} {kind}"}
    return dataclasses.replace(found, after=after)


def _complete(
    observed: Observed, desired: Desired, choice: Choice, steps: t.List[Step], installing: bool
) -> Plan:
    """Add to the steps what comes after the installation, and the words around them."""
    reboot = _reboot_reasons(observed, desired, choice)
    reloads = _reloads(observed, desired, choice)
    changed = {name for step in steps for name in step.params.get("packages", ())}
    steps += _holds(observed, desired, choice, changed) + _modprobe(observed, desired)
    usable = not reboot and bool(observed.gpus)
    loads = desired.load and usable and observed.loaded is None
    if loads:
        steps.append(Step("load", "load the kernel module: modprobe nvidia"))
    if reloads:
        words = f"reload the kernel modules: {_mismatch(observed, desired, choice)}"
        steps.append(Step("reload", words, needs=("idle_gpu",)))
    start = loads or (usable and observed.loaded is not None)
    if desired.persistence:
        steps += _service("persistence", SERVICE, observed.service, start=start)
    if observed.nvswitch and observed.names.fabric:
        steps += _service("fabric", FABRIC_SERVICE, observed.fabric, start=start)
    after = describe(observed)
    after["packages"] = {
        **after["packages"],
        **{name: version or NEWEST for name, version in choice.targets.items()},
    }
    for step in steps:
        for name in step.params.get("remove", ()):
            after["packages"].pop(name, None)
    for step in steps:
        if step.action == "hold":
            kept = set(after["held"]) - set(step.params["release"])
            after["held"] = sorted(kept | set(step.params["hold"]))
    for step in steps:
        if step.action == "modprobe":
            after["modprobe"] = step.params["text"]
    if loads or reloads:
        after["loaded"] = [choice.version or NEWEST, choice.kind]
    if any(step.action == "persistence" for step in steps):
        after["persistence"] = True
    return Plan(
        tuple(steps),
        describe(observed),
        after,
        reboot_required=reboot,
        warnings=warnings(observed, choice, installing),
    )


# --- steps, in their order ---


def _needs_repair(observed: Observed, choice: Choice, others: t.Sequence[Step]) -> bool:
    """Tell whether dpkg must be brought in order: apt will not work before, or it concerns us.

    A package that is to have another version is not repaired but replaced: it may well be that its
    own version cannot be finished.
    """
    broken = {name for name, one in observed.packages.items() if one.broken}
    if any(observed.packages[name].state is State.TWICE for name in broken):
        return True  # a package manager that installs another version leaves the twin there
    replaced = {
        name
        for step in others
        for name, version in step.params.get("packages", {}).items()
        if name in broken and version and version != observed.packages[name].version
        if not observed.held(name) or name in observed.record.holds
    }
    waiting = {
        name
        for name in broken
        if observed.packages[name].state in CONFIGURED_ALONG and not observed.names.is_kernel(name)
    }
    if replaced and not observed.interrupted and not broken - replaced - waiting:
        return False
    ours = {*choice.targets, *observed.names.relevant, *observed.record.packages}
    return bool(ours & broken) or (bool(others) and observed.unfinished)


def _named(observed: Observed, desired: Desired, kind: str) -> t.List[Step]:
    """Make the node know the repository that the user names, and what its packages need besides."""
    steps = [one for one in [repository_step(observed, desired)] if one]
    if desired.source == "repository" and desired.manage_sources:
        steps += _enable(observed)
    if steps:
        return steps if steps[-1] is REFRESH else [*steps, REFRESH]
    version = desired.version or driver_branches.last(observed.gpus)
    stream = dnf_streams.step(observed.streams, version, kind)
    return [stream] if stream else []


def _sources(observed: Observed, desired: Desired, unknown: t.Sequence[str]) -> t.List[Step]:
    wanted = _lacking(observed)
    own = observed.own_sources
    stale = own is not None and bool(wanted) and own != render(wanted or ())
    if not unknown and not (stale and desired.manage_sources):
        return []
    if wanted and not desired.manage_sources:
        raise NodeError(
            f"the node's package sources do not offer {', '.join(unknown)}",
            hint=f"enable the components {', '.join(observed.names.components)}, or set manage_sources to true",
        )
    if wanted is None and own is None and desired.manage_sources:
        raise NodeError(
            f"no source of {observed.names.title} {observed.codename} main was found in /etc/apt",
            hint="add one, or enable the components of the driver yourself and set manage_sources to false",
        )
    steps = _enable(observed)
    if steps:
        return steps
    if observed.refreshed:
        raise NodeError(
            f"the package sources offer no {', '.join(unknown)}",
            cause=observed.refresh_note or _enabled(observed),
            hint="check that the mirror carries them, that the node reaches it, and that no pin forbids them",
        )
    return [REFRESH]


def _enabled(observed: Observed) -> str:
    components = observed.names.components
    if components:
        return f"the components {', '.join(components)} are enabled"
    return "no enabled repository or module stream has them; NVIDIA's for this release does"


def _lacking(observed: Observed) -> t.Optional[t.List[Source]]:
    """Return what the node's sources lack, None where they cannot be told; only apt has components."""
    components = observed.names.components
    return additions(observed.sources, observed.codename, components) if components else []


def _enable(observed: Observed) -> t.List[Step]:
    """Enable what the node's own sources lack, unless that was done."""
    wanted = _lacking(observed)
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
    drop = [name for name in observed.packages if _superseded(observed, choice, name)]
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
    dkms = uses_dkms(observed, choice.kind)
    needed = dkms and (observed.loaded is None or bool(change) or bool(drop))
    headers = offered_headers(observed) if needed else []
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


def _superseded(observed: Observed, choice: Choice, name: str) -> bool:
    """Tell whether a package has other kernel modules than those wanted, and must give way.

    Modules of the same kind for another kernel stay: that kernel may be booted again.
    """
    names = observed.names
    if name in choice.targets or not names.is_kernel(name) or not observed.installed(name):
        return False
    if name in names.kernel.values() or name in names.prebuilt.values():
        return True
    prefix = names.prebuilt[choice.kind][: -len(observed.kernel)] if names.prebuilt else ""
    same = name.startswith(prefix) and name[len(prefix) :][:1].isdigit()
    return name in observed.record.packages and not same


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


def _modprobe(observed: Observed, desired: Desired) -> t.List[Step]:
    """Keep nouveau away from the GPUs and set the modules' options, in the initramfs as well.

    A blacklist of ours stays though the packages may have brought theirs: the kernel reads both.
    """
    have = observed.modules
    ours = have.own is not None and blacklists(have.own)
    # Another's blacklist does not help against an initramfs that was made before it.
    loose = have.nouveau and (observed.nouveau or not have.blacklisted)
    nouveau = ours or (bool(observed.gpus) and loose)
    current = observed.distribution == "debian"
    text = render_modules(desired.module_options, nouveau=nouveau, current=current)
    kernels = have.images if text != (have.own or "") else have.stale
    if text == (have.own or "") and not kernels and (text or not observed.record.modprobe):
        return []
    words = []
    if text != (have.own or ""):
        parts = [
            "blacklist nouveau" if nouveau and not ours else "",
            "set the options of the modules" if desired.module_options else "",
        ]
        what = " and ".join(part for part in parts if part) or "remove the modules' options"
        words.append(f"{what} in {MODPROBE_FILE}")
    if kernels:
        words.append(f"rebuild the initramfs of {', '.join(kernels)}")
    params = {"text": text, "kernels": kernels}
    return [Step("modprobe", "; ".join(words) or "forget the modprobe file", params)]


def _service(action: str, unit: str, states: t.Mapping[str, str], *, start: bool) -> t.List[Step]:
    # Ubuntu's unit is static: udev starts it, and there is nothing to enable.
    enabled = states.get("UnitFileState") in ("enabled", "static")
    active = states.get("ActiveState") == "active"
    if enabled and (active or not start):
        return []
    words = f"enable {'and start ' if start else ''}{unit}"
    return [Step(action, words, {"start": start, "was_enabled": enabled})]


# --- what else there is to say ---


def _mismatch(observed: Observed, desired: Desired, choice: Choice) -> str:
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
    differences = differing(desired.module_options, observed.modules.options)
    return (
        f"the modules were loaded with other options: {', '.join(differences)}"
        if differences
        else ""
    )


def _reloads(observed: Observed, desired: Desired, choice: Choice) -> bool:
    """Tell whether the loaded modules may be exchanged: asked for, and nobody is on a GPU."""
    wanted = desired.reload == "when_idle" and not observed.nouveau
    hindered = bool(observed.users or observed.reload_note)
    return wanted and not hindered and bool(_mismatch(observed, desired, choice))


def _reboot_reasons(observed: Observed, desired: Desired, choice: Choice) -> t.Tuple[str, ...]:
    if observed.nouveau:
        return ("the nouveau driver holds the GPUs",)
    words = _mismatch(observed, desired, choice)
    if not words or _reloads(observed, desired, choice):
        return ()
    if desired.reload == "when_idle":
        users = f"processes have the GPUs open: {', '.join(observed.users)}"
        words += f" (not reloaded: {observed.reload_note or users})"
    return (words,)
