# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What there is to say of a driver: how the loaded one differs, its state for the diff, warnings, releases, facts."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.errors import NodeError
from .._base.packages.repository import texts
from .._base.steps import Step
from .._node.users import holders
from . import branches, persistence
from .branches import NO_VERSION, Version
from .family import Choice
from .kernel.modules import NO_SOURCES
from .module_options import in_force
from .module_options.record import as_options
from .names import PLACE
from .state import Desired, Observed


def headers_package(observed: Observed) -> str:
    """Return the package with the headers of the running kernel."""
    return observed.names.headers_of(observed.kernel)


def offered_headers(observed: Observed) -> t.List[str]:
    """Return the packages of the running kernel's headers that are missing and can be had."""
    name = headers_package(observed)
    missing = not observed.headers and observed.installed(name) is None
    names = [name] if missing else []
    if observed.names.tie and not observed.installed("dkms"):
        names.append(observed.names.tie.format(observed.kernel))
    return [one for one in names if observed.candidate(one)]


def newer_headers(observed: Observed) -> t.List[str]:
    """Return the packages of the headers that newer kernels without the driver lack and that can be had.

    rpm's names do not tell whether they are there.
    """
    bare = [one for one in observed.newer if one in observed.modules.bare]
    names = [observed.names.headers_of(one) for one in bare]
    known = not observed.names.headers_first
    missing = (one for one in names if known and not observed.installed(one))
    return [one for one in missing if observed.candidate(one)]


def look(observed: Observed, desired: Desired, choice: Choice) -> t.Tuple[str, t.Tuple[str, ...]]:
    """Return how the loaded driver differs from the wanted one, if it may be exchanged now, and why a reboot is needed.

    It may be where that was asked for, and nobody is on a GPU.
    """
    if observed.nouveau:
        return "", ("the nouveau driver holds the GPUs",)
    waits = observed.family.waits(observed, choice)
    if choice.boot:
        boot = f"the kernel {choice.boot} has the modules of {choice.version}"
        waits = f"{boot}, the running one has not"
    if waits and (choice.version, choice.kind) != observed.loaded:
        return "", (waits,)
    return reloaded(observed, desired, _mismatch(observed, desired, choice))


def reloaded(observed: Observed, desired: Desired, words: str) -> t.Tuple[str, t.Tuple[str, ...]]:
    """Return how the loaded driver differs, if it may be loaded again now, and why a reboot is needed."""
    if not words or desired.reload != "when_idle":
        return "", (words,) if words else ()
    why = observed.reload_note
    if not why and observed.users:
        who = ", ".join(map(str, observed.users)), holders.advice(observed.users)
        why = f"processes have the GPUs open: {'; '.join(filter(None, who))}"
    elif not why and observed.allocated:
        why = f"pods have been given GPUs: {', '.join(observed.allocated)}"
    return ("", (f"{words} (not reloaded: {why})",)) if why else (words, ())


def _mismatch(observed: Observed, desired: Desired, choice: Choice) -> str:
    if observed.loaded is None:
        return ""
    (version, kind), wanted = observed.loaded, choice.version
    if wanted is not None and wanted != version:
        return f"version {version} of the driver is loaded, {wanted} belongs to the packages"
    if kind != choice.kind:
        return f"the {kind} kernel modules are loaded, the packages have the {choice.kind} ones"
    return options_loaded(observed, desired)


def options_loaded(observed: Observed, desired: Desired) -> str:
    """Return how the options of the loaded modules differ from the wanted ones, empty where they don't."""
    have, wanted = observed.modules, desired.module_options
    differences = in_force.differing(wanted, have.options, have.overruled)
    given = {
        name: value
        for name, value in since_load(observed, desired).items()
        if name.partition(".")[0] in have.present and name not in have.overruled
    }
    differences += in_force.unseen(wanted, given, have.options)
    words = f"the modules were loaded with other options: {', '.join(differences)}"
    return words if differences else ""


def since_load(observed: Observed, desired: Desired) -> t.Dict[str, str]:
    """Return the options that are otherwise than when the loaded modules were loaded, with their values then."""
    if not observed.load:
        return {}
    written = as_options(observed.record.options) or in_force.parse_own(observed.modules.own or "")
    before = observed.record.before_load(observed.load)
    return in_force.changed(desired.module_options, written, before)


def describe(observed: Observed) -> t.Dict[str, t.Any]:
    """Return what a user sees of the node's driver."""
    service, files = observed.service, observed.repository.files
    known = {*observed.names.relevant, *observed.record.before}
    return {
        **({"runfile": observed.record.runfile} if observed.record.runfile else {}),
        **({"repository": texts(files, PLACE)} if files else {}),
        **({"adopted": sorted(observed.record.before)} if observed.record.before else {}),
        "packages": observed.there(sorted(known)),
        "held": sorted(name for name in known if observed.held(name)),
        "loaded": list(observed.loaded) if observed.loaded else None,
        "modprobe": observed.modules.own or "",
        "persistence": service.get("ActiveState") == "active"
        and service.get("UnitFileState") in ("enabled", "static")
        and not persistence.plan(observed.persistence, has_drop_in=False),
    }


def after(observed: Observed, choice: Choice, steps: t.Iterable[Step]) -> t.Dict[str, t.Any]:
    """Return what a user will see of it after the steps."""
    found = describe(observed)
    wanted = {name: version or choice.awaited for name, version in choice.targets.items()}
    found["packages"] = {**found["packages"], **wanted}
    for step in steps:
        params = step.params
        if step.action == "install":
            for name in params["remove"]:
                found["packages"].pop(name, None)
        elif step.action == "adopt" and params["packages"]:
            found["adopted"] = sorted({*found.get("adopted", ()), *params["packages"]})
        elif step.action == "hold":
            kept = set(found["held"]) - set(params["release"])
            found["held"] = sorted(kept | set(params["hold"]))
        elif step.action == "repository":
            # The text of a key that is to be fetched is not known yet.
            key = {params["fetch"].path: ""} if params.get("fetch") else {}
            there = {**observed.repository.files, **params["files"], **key}
            left = {path: one for path, one in there.items() if path not in params["stale"]}
            found["repository"] = texts(left, PLACE)
        elif step.action == "modprobe":
            found["modprobe"] = params["text"]
        elif step.action in ("load", "reload"):
            found["loaded"] = [choice.version or choice.awaited, choice.kind]
        elif step.action in ("persistence", persistence.ACTION):
            found["persistence"] = True
        elif step.action == "runfile":
            found["runfile"] = f"{choice.version} {choice.kind}"
    return found


def warnings(
    observed: Observed, desired: Desired, choice: Choice, steps: t.Iterable[Step]
) -> t.Tuple[str, ...]:
    """Return what is not as it might be expected."""
    installing = any(step.action == "install" for step in steps)
    found = branches.warnings(choice.version, observed.gpus)
    dkms = choice.dkms
    if installing and dkms and not observed.headers and not offered_headers(observed):
        found.append(
            f"the headers of the running kernel {observed.kernel} are neither installed nor available as "
            f"{headers_package(observed)}: DKMS can't build the modules for this kernel"
        )
    found += [
        f"DKMS could not build {one.module} {one.version} for the kernel {one.kernel}: see {one.log}"
        for one in observed.dkms
        if one.state == "failed" and not installing
    ]
    found += [
        f"DKMS has no sources of {one.module} {one.version} any more: no kernel that comes gets the driver. Next step: "
        "reinstall the package that they are of"
        for one in observed.dkms
        if one.state == NO_SOURCES and not installing
    ]
    found += [
        f"{path} keeps the driver from being loaded ({line}): after a boot no GPU works. Next step: take that out"
        for path, line in observed.modules.kept_away.items()
    ]
    found += wins(observed, desired)
    if observed.gpus and not installing:
        found += [
            f"the kernel {kernel} has no modules of the driver: after a boot into it no GPU works"
            + observed.family.remedy(observed, choice, kernel)
            for kernel in observed.modules.bare
        ]
    version = observed.loaded[0] if observed.loaded else ""
    if observed.loaded == (version, "open") and version not in observed.firmware and not installing:
        found.append(
            f"the node has no GSP firmware of version {version}, which the open kernel modules need: "
            f"/lib/firmware/nvidia/{version}/gsp*.bin"
        )
    if observed.nvswitch and not observed.names.fabric:
        found.append(
            f"the GPUs are joined by NVSwitches, and no fabric manager for {observed.names.title} is known: CUDA "
            "does not start until one of exactly the driver's version runs"
        )
    if observed.bridged and observed.names.fabric and not observed.names.subnet:
        found.append(
            "the NVSwitches are managed through InfiniBand, and the sources have no nvlsm, without which "
            "the fabric manager does not start"
        )
    if not observed.gpus:
        found.append("no NVIDIA GPU was found on the PCI bus: the driver is not loaded")
    newest = Version.of(observed.candidate(observed.names.kernel["proprietary"]))
    if (
        installing
        and choice.kind == "open"
        and choice.version
        and newest not in ("", choice.version, *observed.drivers(observed.names.kernel["open"]))
        and "blackwell" not in dict(observed.gpus).values()
    ):
        found.append(
            f"the open kernel modules are available in version {choice.version} at most, the proprietary "
            f"ones in {newest}: kernel_modules: proprietary would give the newer driver"
        )
    return tuple(found)


def wins(observed: Observed, desired: Desired) -> t.Tuple[str, ...]:
    """Return what wins over the modules' options."""
    have = observed.modules
    return in_force.in_words(desired.module_options, have.overruled, have.options)


def facts(observed: Observed) -> t.Dict[str, t.Any]:
    """Return the node's hardware, kernel, firmware, services and GPU clients, JSON-able."""
    key = observed.signing_key
    return {
        "gpus": dict(observed.gpus),
        "nvswitch": observed.nvswitch,
        "kernel": observed.kernel,
        "headers": observed.headers,
        "held": sorted(name for name in observed.names.relevant if observed.held(name)),
        "nouveau": _nouveau(observed),
        "kernels_without_driver": list(observed.modules.bare),
        "stale_initramfs": list(observed.modules.stale),
        "secure_boot": key is not None,
        "signing_key": key.path if key else "",
        "signing_key_state": key.state if key else "",
        "libraries": list(observed.libraries),
        "firmware": list(observed.firmware),
        "persistence_daemon": observed.service.get("ActiveState", ""),
        "fabric_manager": observed.fabric.get("ActiveState", ""),
        "gpu_users": [str(one) for one in observed.users],
    }


def _nouveau(observed: Observed) -> str:
    if observed.nouveau:
        return "loaded"
    if not observed.modules.nouveau:
        return "absent"
    ours = "nouveau" in (observed.modules.own or "")
    return "blacklisted" if observed.modules.blacklisted or ours else "available"


def installed(observed: Observed) -> Version:
    """Return the version that is installed, empty where there is none."""
    there = map(observed.driver, observed.names.user_space)
    return next(filter(None, there), observed.runfile.version)


def _newest(observed: Observed, desired: Desired, version: Version) -> Version:
    """Return the newest version of a version's branch that an update would bring, itself where none is newer.

    It is empty where no packages are asked for.
    """
    if not version or desired.runfile or desired.source == "preinstalled":
        return NO_VERSION
    wanted = dataclasses.replace(desired, version=Version(version.branch), update=True)
    try:
        kind = observed.wanted_type(wanted.kernel_modules)
        found = observed.family.newest(observed, wanted, kind)
    except NodeError:
        found = NO_VERSION
    known = [one for one in (found, version) if one.fits(version.branch)]
    return max(known, key=lambda one: one.numbers)


def of_release(
    observed: Observed, desired: Desired, version: t.Optional[Version]
) -> t.Tuple[str, ...]:
    """Return what is wrong with the version that a plan leads to, and with the lists that it was chosen by."""
    of = version or NO_VERSION
    names = observed.names
    there = observed.drivers(names.user_space[0]) if names.prebuilt and of else ()
    offered = next((one for one in there if one.fits(of.branch)), NO_VERSION)
    best = _newest(observed, desired, of)
    found = branches.complaints(of, best, desired.releases, observed.today, observed.gpus, offered)
    complaints = observed.refresh_note.split("; ") if desired.update else []
    # apt also warns of what is no failure.
    failed = "; ".join(one for one in complaints if "fetch" in one or not one.startswith("W:"))
    if failed:
        missed = "the package lists could not be fetched, so a newer driver may be missed"
        found.append(f"{missed}: {failed}")
    return tuple(found)


def releases(
    observed: Observed, desired: Desired, planned: t.Mapping[str, str]
) -> t.Dict[str, t.Any]:
    """Return what the module reports of the driver that is there, by the packages that a run leads to."""
    version, known = NO_VERSION, desired.releases
    if desired.state == "present":
        # What is installed, or loaded where nothing is known of that.
        there = NO_VERSION if desired.source == "preinstalled" else installed(observed)
        version = there or (observed.loaded[0] if observed.loaded else NO_VERSION)
    offered = _newest(observed, desired, version)
    newer = "" if offered == version else offered
    brought = [Version.of(planned[one]) for one in observed.names.user_space if one in planned]
    return {
        "newer_version": newer,
        "support": branches.support(version, known, observed.today) if version and known else {},
        "security": branches.security(version, known) if version and known else {},
        "releases": branches.age(known, observed.today) if known else {},
        "notes": branches.notes("" if newer in brought else newer, version, known, observed.today),
    }
