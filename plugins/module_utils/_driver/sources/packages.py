# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver from packages: sources, the transaction and holds."""

from __future__ import annotations

import typing as t

from ..._base.errors import OLD_LISTS, NodeError, not_ours
from ..._base.packages import repository
from ..._base.packages.apt import Source, additions, render
from ..._base.packages.package import WAITING, Package, State
from ..._base.steps import Step
from ..branches import BY_LISTS, NotOffered
from ..desired import Desired
from ..facts import DriverState
from ..family import Family
from ..packages import adoption, components
from ..packages.names import PLACE, kernel_packages, mark, part
from ..packages.versions import Choice, Draft

REPAIR = Step("repair", "finish what a transaction that was killed has left")
UNNEEDED = Step(
    "sources",
    "remove the sources file, as the node's own sources have the components",
    {"text": ""},
)
REFRESH = Step("refresh", "refresh the package lists")


def plan(family: Family, state: DriverState, desired: Desired, check_mode: bool) -> Draft:
    """Return the plan in the order of its steps: sources, repair, the transaction, holds."""
    kind = state.wanted_type(desired.kernel.module_type)
    named = _repository_steps(state, desired)
    if named and not check_mode:
        return tuple(named), None
    previewed = state.history.previewed
    asked = () if named and not previewed else desired.components
    if asked:
        missing = components.missing(state, asked)
        if missing and (state.history.refreshed or check_mode):
            raise missing
        if missing:
            return (REFRESH,), None
    streams = family.streams(state, desired)
    try:
        choice = family.choose(state, desired, kind)
    except BY_LISTS:
        enable = named or (_enable_components(state) if desired.source.manage_lists else [])
        if previewed or (not enable and (state.history.refreshed or check_mode)):
            raise
        return tuple(enable) or (REFRESH,), None
    if previewed and choice.unknown:
        raise _not_offered(state, choice.unknown)
    sources = named or _source_steps(state, desired, choice.unknown, check_mode)
    sources = sources or family.prerequisites(state, desired, choice)
    install = _install_steps(family, state, desired, choice)
    first = [REPAIR] if _needs_repair(state, choice, [*sources, *install]) else []
    if (first or sources) and not check_mode:
        return tuple(first or sources), None
    changed = {name for step in install for name in step.params["packages"]}
    # They bring new kernels and their headers.
    forms = ("linux-{}", "linux-image-{}", "linux-headers-{}") if desired.hold_kernel else ()
    kernels = [form.format(flavour) for flavour in state.flavours for form in forms]
    kernels += kernel_packages(state.machine.kernel) if desired.hold_kernel else ()
    held = {*choice.targets, *filter(state.software.installed, kernels)} if desired.hold else ()
    taken = adoption.steps(state, install) if desired.adopt else []
    holds = state.software.holds(held, changed, state.history.record.holds)
    if choice.version is not None and not state.software.installed(choice.kernel):
        family.check_signature(state, desired, choice.kernel)
    return (*first, *sources, *streams, *taken, *install, *holds), choice


def headers_package(state: DriverState) -> str:
    """Return the package with the headers of the running kernel."""
    return state.software.names.headers.package_for(state.machine.kernel)


def offered_headers(state: DriverState) -> t.List[str]:
    """Return the packages of the running kernel's headers that are missing and can be had."""
    name = headers_package(state)
    missing = not state.machine.headers and state.software.installed(name) is None
    names = [name] if missing else []
    if state.software.names.headers.tie and not state.software.installed("dkms"):
        names.append(state.software.names.headers.tie.format(state.machine.kernel))
    return [package for package in names if state.software.candidate(package)]


def newer_headers(state: DriverState) -> t.List[str]:
    """Return the packages of the headers that newer kernels without the driver lack and that can be had.

    rpm's names do not tell whether they are there.
    """
    bare = [kernel for kernel in state.newer if kernel in state.loaded.modules.bare]
    names = [state.software.names.headers.package_for(kernel) for kernel in bare]
    known = not state.software.names.headers.first
    packages = state.software.packages
    # One that is half configured is there: it waits for a driver that DKMS can build.
    missing = (name for name in names if known and (name not in packages or packages[name].gone))
    return [kernel for kernel in missing if state.software.candidate(kernel)]


def _needs_repair(state: DriverState, choice: Choice, changes: t.Sequence[Step]) -> bool:
    """Return whether packages must be repaired first, as they are the driver's or keep apt from working.

    A package that is to have another version is not repaired but replaced: it may well be that its
    own version cannot be finished. Over what is others', apt carries a change out.
    """
    packages = state.software.packages.items()
    broken = {name: package.state for name, package in packages if package.broken}
    if State.TWICE in broken.values():
        return True  # a package manager that installs another version leaves the twin there
    if changes and state.software.interrupted:
        return True
    replaced = {
        name
        for step in changes
        for name, version in step.params.get("packages", {}).items()
        if name in broken and version and version != state.software.packages[name].version
        if not state.software.held(name) or name in state.history.record.holds
    }
    # What apt configures along with whatever it installs.
    along = {name for name, known in broken.items() if known in (State.UNPACKED, *WAITING)}
    waiting = {name for name in along if replaced and not state.type_of(name)}
    return bool(_driver_packages(state, choice) & broken.keys() - replaced - waiting)


def _driver_packages(state: DriverState, choice: Choice) -> t.Set[str]:
    """Return the packages that the driver consists of, which must be in order."""
    return {*choice.targets, *state.software.names.relevant, *state.history.record.packages}


def broken_others(state: DriverState, choice: Choice) -> t.Dict[str, Package]:
    """Return the packages of others that are not in order."""
    packages, ours = state.software.packages.items(), _driver_packages(state, choice)
    return {name: package for name, package in packages if package.broken and name not in ours}


def _repository_steps(state: DriverState, desired: Desired) -> t.List[Step]:
    """Return the steps that add the repository which the user names, and what its packages need besides."""
    known, of_family = state.software.repository, state.machine.traits.name
    # What the node's driver is from stays known as it is where nobody names another.
    stays = desired.source.name == "repository" and desired.source.repository is None
    named = repository.step(
        desired.source.repository, PLACE, of_family, known, state.software.sources
    )
    steps = [named] if named and not stays else []
    if desired.source.name == "repository" and desired.source.manage_lists:
        steps += _enable_components(state)
    return [*steps, REFRESH] if steps and steps[-1] is not REFRESH else steps


def _source_steps(
    state: DriverState, desired: Desired, unknown: t.Sequence[str], check_mode: bool
) -> t.List[Step]:
    missing, own = _missing_components(state), state.software.own_sources
    components = state.software.names.archive.components
    ours = own is not None or state.history.record.sources
    stale = ours and bool(missing) and own != render(missing or ())
    if own is not None and missing == [] and components:
        # After an upgrade of the distribution, or once somebody has enabled the components, nothing is missing.
        return [UNNEEDED, REFRESH] if desired.source.manage_lists else []
    if not unknown and not (stale and desired.source.manage_lists):
        return []
    if missing and not desired.source.manage_lists:
        raise NodeError(
            f"the node's package sources do not have {', '.join(unknown)}",
            hint=f"enable the components {', '.join(components)}, or set manage_sources to true",
        )
    if missing is None and own is None and desired.source.manage_lists:
        error = NodeError(
            f"no source of {state.software.names.title} {state.machine.codename} main was found in /etc/apt",
            hint="add one, or enable the components of the driver yourself and set manage_sources to false",
        )
        # A mirror whose lists were never fetched offers what they will have.
        error.until = "" if state.history.refreshed else OLD_LISTS
        raise error
    steps = _enable_components(state)
    # dnf fetches what is old by itself; check mode looks once more before it believes this.
    is_known = state.history.refreshed or (check_mode and state.machine.traits.module)
    if not steps and (is_known or state.history.explain(unknown)[0]):
        raise _not_offered(state, unknown)
    return steps or [REFRESH]


def _not_offered(state: DriverState, unknown: t.Sequence[str]) -> NodeError:
    """Return the error for packages that no source has."""
    cause, hint = state.history.explain(unknown)
    if cause:
        missing = f"the package sources do not offer {', '.join(unknown)}"
        return NodeError(missing, cause=cause, hint=hint)
    components = state.software.names.archive.components
    enabled = "no enabled repository or module stream has them; NVIDIA's for this release does"
    if components:
        enabled = f"the components {', '.join(components)} are enabled"
    return NotOffered(
        f"the package sources have no {', '.join(unknown)}",
        cause=state.history.refresh_note or enabled,
        hint="check that the mirror carries them, that the node reaches it, and that no pin forbids them",
    )


def _missing_components(state: DriverState) -> t.Optional[t.List[Source]]:
    """Return the components that the node's sources lack, None if it is unknown; only apt has components."""
    components = state.software.names.archive.components
    own = [source for source in state.software.sources if source.signed_by not in PLACE.apt_keys]
    return additions(own, state.machine.codename, components) if components else []


def _enable_components(state: DriverState) -> t.List[Step]:
    """Return the steps that enable the components which the node's own sources lack."""
    missing = _missing_components(state)
    if not missing or state.software.own_sources == render(missing):
        return []
    if state.software.foreign_sources:
        raise not_ours(
            state.software.foreign_sources, "the components that the node's own sources lack"
        )
    parts = ", ".join(dict.fromkeys(word for source in missing for word in source.components))
    text = f"enable the components {parts} of {', '.join(source.suite for source in missing)}"
    return [Step("sources", text, {"text": render(missing)}), REFRESH]


def _changes(
    family: Family,
    state: DriverState,
    desired: Desired,
    choice: Choice,
    taken: t.FrozenSet[str],
) -> t.Tuple[t.Dict[str, t.Optional[str]], t.List[str]]:
    """Return the packages to install, with their versions, and those to remove.

    Args:
        taken: Packages that were adopted, or are to be.

    Raises:
        NodeError: if packages of others would change or go.
    """
    software, ours = state.software, state.history.record.holds
    change = {
        name: version
        for name, version in choice.targets.items()
        if (software.installed(name) or "") != version
    }
    drop = [name for name in software.packages if _superseded(family, state, choice, name, taken)]
    drop += [name for name in _left_behind(family, state, choice, taken) if name not in drop]
    further = (*software.surplus, *family.displaced(state, desired, choice))
    drop += [name for name in further if name not in drop]
    drop += family.objects(state, drop, taken)
    held = (name for name in (*change, *drop) if software.held(name) and name not in ours)
    held_packages = [name for name in held if not software.packages[name].broken]
    if held_packages:
        have = ", ".join(f"{name} {software.installed(name) or '(none)'}" for name in held_packages)
        raise NodeError(
            f"{', '.join(held_packages)} must change, but is on hold, and not by this module",
            cause=f"installed: {have}",
            hint="ask for the version that is installed, or release it: "
            f"{state.machine.traits.unhold} {' '.join(held_packages)}",
        )
    if change:
        family.refuse_others(filter(software.installed, software.packages))
    mine = {*state.history.record.packages, *choice.targets, *taken}
    excluded = family.excluded(software.packages, choice.targets) - mine
    installed = sorted(filter(software.installed, excluded))
    advice = adoption.advice(state.machine.traits, desired.adopt, desired.source.name)
    if lost := [name for name in installed if not state.type_of(name)]:
        raise would_remove(lost, advice)
    # Another type of kernel modules, which this module has not installed, is not exchanged unasked.
    foreign = (name for name in drop if name not in mine)
    unasked = [name for name in foreign if state.type_of(name) != choice.kind]
    if unasked and desired.kernel.module_type == "auto":
        raise NodeError(
            f"{', '.join(unasked)} would have to give way to the {choice.kind} kernel modules, and this module did "
            "not install it",
            cause=f"the GPUs of this node run with the {choice.kind} kernel modules",
            hint=f"have it exchanged with kernel_modules: {choice.kind}, "
            f"{advice}or keep the driver that is there with source: preinstalled",
        )
    return change, drop


def _install_steps(
    family: Family, state: DriverState, desired: Desired, choice: Choice
) -> t.List[Step]:
    """Return the transactions that bring the packages of the choice, and the headers that DKMS builds with."""
    taken = state.taken(desired.adopt)
    change, drop = _changes(family, state, desired, choice, taken)
    needed = choice.dkms and (state.loaded.driver is None or bool(change) or bool(drop))
    headers = offered_headers(state) if needed else []
    if needed and choice.version and not (headers or state.machine.headers):
        _check_headers(state, desired, choice)
    headers += newer_headers(state) if choice.dkms else []
    if not (change or drop or headers):
        return []
    versions = {
        name: f"{name} ({version or choice.awaited})" for name, version in sorted(change.items())
    }
    # First what a list that is cut short must not lose.
    modules = [versions.pop(name) for name in [*versions] if state.type_of(name)]
    built = [f"{name} ({state.software.candidate(name)})" for name in headers]
    packages: t.Dict[str, t.Optional[str]] = dict.fromkeys(headers)
    steps = []
    if headers and state.software.names.headers.first:
        bare = {"packages": packages, "remove": (), "pins": {}, "taken": ()}
        steps.append(Step("install", f"install {', '.join(built)}", bare))
        packages, built = {}, []
    parts = [*modules, *built, *versions.values()]
    texts = [f"install {', '.join(parts)}"] if parts else []
    texts += [f"remove {', '.join(drop)}"] if drop else []
    if texts:
        change.update({**packages, **family.dependencies(state, choice, change)})
        params = {"packages": change, "remove": drop, "pins": choice.pins, "taken": taken}
        steps.append(Step("install", "; ".join(texts), params))
    return steps


def would_remove(names: t.Sequence[str], advice: str) -> NodeError:
    """Return the error for an installation that would remove packages of others."""
    return NodeError(
        f"the installation would remove {', '.join(names)}; nothing was changed",
        cause="there is no other way to the wanted versions, and this module has not added them",
        hint=keep_or(advice),
    )


def keep_or(advice: str) -> str:
    """Return the hint for a node whose driver is of others; ``advice`` is that of adoption."""
    return (
        f"keep the driver that is there with source: preinstalled, {advice}or ask for a version or components that "
        "leave these packages"
    )


def _check_headers(state: DriverState, desired: Desired, choice: Choice) -> None:
    """Refuse modules that DKMS can't build for the running kernel, if they are to be loaded."""
    knows = state.machine.traits.apt or choice.names.headers.first
    # A kernel without any modules on the node is a container's, whose host has the headers: a warning says it.
    loads = desired.kernel.load and state.machine.gpus
    if not knows or not state.machine.own_kernel or not loads:
        return
    cause, hint = state.history.explain([headers_package(state)])
    raise NodeError(
        f"DKMS can't build the kernel modules for the running kernel {state.machine.kernel}: its headers are neither "
        f"installed nor available as {headers_package(state)}",
        cause=cause
        or "the package sources have moved on to newer kernels, or lack the one with the headers",
        hint=hint
        or "boot a kernel whose headers are available, make the package known, or have the driver installed and not "
        "loaded with load: false",
    )


def _superseded(
    family: Family, state: DriverState, choice: Choice, name: str, taken: t.Collection[str]
) -> bool:
    """Return whether a package has other kernel modules than the desired ones, and must go.

    Modules of other kernels that are built for the desired version are among the targets. Of what was taken over,
    those of the desired branch and type stay, whichever kernel they are for, and so they do beside those that DKMS
    builds, where a tracking package brings them and no exact version is asked for.
    """
    names = state.software.names
    if name in choice.targets or not state.type_of(name) or not state.software.installed(name):
        return False
    alike = family.alike(state, choice.kind, name)
    branch = not choice.prebuilt and "." not in choice.asked
    if alike and branch and family.tracks(state, choice.kind):
        return False
    if name in names.modules.by_type.values() or name in names.modules.prebuilt.values():
        return True
    return name in state.history.record.packages or (name in taken and not alike)


def _left_behind(
    family: Family, state: DriverState, choice: Choice, taken: t.Collection[str]
) -> t.List[str]:
    """Return packages of another branch, ours or adopted, that the targets replace, and their siblings.

    apt removes by itself nothing that is on hold, so it is told to.
    """
    ours = state.history.record.packages | state.history.record.holds | {*taken}
    there = [name for name in ours if name not in choice.targets and state.software.installed(name)]
    parts = {part(name) for name in choice.targets}
    replaced = {name for name in there if part(name) in parts}
    marks = {mark(name) for name in replaced} - {""}
    gone = replaced | family.excluded(there, choice.targets)
    return sorted(name for name in there if name in gone or mark(name) in marks)
