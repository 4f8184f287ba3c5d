# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan: what stands in the way, the steps of the source, those of the kernel, and the way back."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base import distributions
from .._base.errors import InputError, NodeError, not_ours, refuse_masked
from .._base.packages.package import still_there
from .._base.services.driver import FABRIC_SERVICE, SERVICE
from .._base.steps import IDLE_GPU, Plan, Step
from . import adoption, branches, packages, persistence, runfile
from .branches import Version, module_type
from .family import Choice
from .kernel import device_nodes
from .kernel.modules import blacklists, render
from .module_options import declared
from .module_options.in_force import MODPROBE_FILE
from .module_options.record import as_texts
from .report import (
    after,
    describe,
    look,
    of_release,
    options_loaded,
    reloaded,
    since_load,
    warnings,
    wins,
)
from .state import Desired, Observed, Record


def plan(observed: Observed, desired: Desired, *, check_mode: bool) -> Plan:
    """Return the plan; NodeError where the node cannot be brought there.

    What can only be planned once the package lists are there comes with the next plan, except
    in check mode, which tells all of it as far as it is known.
    """
    if desired.state == "absent":
        return _absent(observed, check_mode)
    if observed.modules.foreign and _own_file(observed, desired)[0]:
        raise not_ours(MODPROBE_FILE, "options of kernel modules")
    if desired.source == "preinstalled":
        return _preinstalled(observed, desired)
    _check(observed, desired)
    _told(observed, desired, desired.version, desired.kernel_modules)
    source = runfile.plan if desired.runfile else packages.plan
    steps, choice = source(observed, desired, check_mode)
    if choice is None:
        before = describe(observed)
        return Plan(steps, before, before, more=bool(steps))
    new = choice.version is not None and not observed.installed(choice.kernel)
    if new and not desired.runfile:
        _refuse_unsigned(observed, desired, choice.kernel)
    told = _told(observed, desired, choice.version or desired.version, choice.kind)
    observed = dataclasses.replace(observed, names=choice.names)
    exchange, reboot = look(observed, desired, choice)
    kernels = _kernel(observed, desired, exchange, reboot=bool(reboot))
    steps = (*steps, *kernels, *device_nodes.plan(observed.device_nodes))
    return Plan(
        _marked(steps, observed, choice),
        describe(observed),
        after(observed, choice, steps),
        reboot_required=reboot,
        warnings=warnings(observed, desired, choice, steps)
        + told
        + persistence.warnings(observed.persistence)
        + device_nodes.warnings(observed.device_nodes)
        + of_release(observed, desired, choice.version),
    )


def _told(observed: Observed, desired: Desired, version: Version, kind: str) -> t.Tuple[str, ...]:
    """Return what is to be told of the modules' options; InputError where a release of the driver lacks one."""
    loaded = observed.loaded[0] if observed.loaded else ""
    itself = {name: there or loaded for name, there in observed.modules.itself.items()}
    return declared.judge(desired.module_options, version, kind, itself)


def _check(observed: Observed, desired: Desired) -> None:
    if desired.runfile is None:
        _check_platform(observed)
    if desired.hold_kernel and not observed.family.apt:
        expected = "false, as only apt's packages of kernels are known"
        raise InputError.of("hold_kernel", True, expected)
    if desired.precompiled != "auto" and not observed.family.has_precompiled:
        wanted = "auto, as only the RHEL family has a choice"
        raise InputError.of("precompiled", desired.precompiled, wanted)
    kind = observed.wanted_type(desired.kernel_modules)
    if desired.runfile is not None:
        if not branches.able([desired.version], observed.gpus):
            raise branches.no_version([desired.version], observed.gpus)
        return
    names = observed.names
    if any(map(observed.installed, (names.kernel[kind], names.prebuilt.get(kind, "")))):
        return
    if observed.nvidia_installer and not desired.adopt and not observed.types:
        raise NodeError(
            "a driver from NVIDIA's own installer is on the node",
            cause=f"{runfile.UNINSTALLER} is there, and its files would mix with the packages",
            hint="keep it with source: preinstalled, have packages take its place by adopt: true, or run "
            "nvidia-uninstall on the node",
        )
    # Without lists nobody knows yet whether there are prebuilt ones.
    if not (names.prebuilt or observed.family.has_precompiled):
        _refuse_unsigned(observed, desired, names.kernel[kind])


def _refuse_unsigned(observed: Observed, desired: Desired, package: str) -> None:
    """Refuse kernel modules that the kernel would not load since it does not know their key."""
    signed = package in observed.names.signed
    if observed.signing_key and not signed and desired.secure_boot == "refuse":
        observed.family.refuse_unsigned(observed, desired, package)


def _check_platform(observed: Observed) -> None:
    if distributions.supported(observed.distribution, observed.codename) is None:
        raise NodeError(
            f"{observed.title or observed.distribution!r} is not supported",
            cause=f"found ID={observed.distribution} release {observed.codename or '(none)'}; "
            f"expected {distributions.in_words()}",
            hint="install the driver yourself and leave this module out",
        )


def _kernel(observed: Observed, desired: Desired, exchange: str, *, reboot: bool) -> t.List[Step]:
    """Return the kernel's steps, in their order; the services start where the driver is or gets loaded."""
    steps = _modprobe(observed, desired)
    usable = bool(observed.gpus) and not reboot
    if usable and desired.load and observed.loaded is None:
        waits = observed.family.builds and not desired.runfile
        steps.append(Step("load", "load the kernel module: modprobe nvidia", {"waits": waits}))
    steps += _reload(exchange)
    start = usable and (observed.loaded is not None or desired.load)
    # NVIDIA's installer brings the persistence daemon without a unit.
    known = observed.names.persistenced or observed.service.get("UnitFileState")
    if desired.persistence and known:
        steps += _service(
            "persistence", SERVICE, observed.service, start=start
        ) or persistence.plan(observed.persistence, has_drop_in=observed.record.persistence_mode)
    elif not desired.persistence and observed.record.persistence_mode:
        steps.append(persistence.give_back())
    if observed.nvswitch and observed.names.fabric:
        steps += _service("fabric", FABRIC_SERVICE, observed.fabric, start=start)
    return steps


def _reload(why: str) -> t.List[Step]:
    summary = f"reload the kernel modules: {why}"
    return [Step("reload", summary, needs=(IDLE_GPU,))] if why else []


def changes_file(observed: Observed, desired: Desired) -> bool:
    """Tell whether our modprobe file is to be another one, or to go."""
    have = observed.modules.own or ""
    if desired.state == "absent":
        return observed.record.modprobe
    return have != _own_file(observed, desired)[0]


def _own_file(observed: Observed, desired: Desired) -> t.Tuple[str, bool]:
    """Return the text of our modprobe file as it is to be, and whether it blacklists nouveau."""
    have = observed.modules
    # Another's blacklist does not help against an initramfs that was made before it.
    loose = have.nouveau and (observed.nouveau or not have.blacklisted)
    loose = loose and bool(observed.gpus) and desired.source != "preinstalled"
    nouveau = blacklists(have.own or "") or loose
    current = observed.distribution == "debian"
    return render(desired.module_options, nouveau=nouveau, current=current), nouveau


def _modprobe(observed: Observed, desired: Desired) -> t.List[Step]:
    """Keep nouveau away from the GPUs and set the modules' options, in the initramfs as well.

    A blacklist of ours stays though the packages may have brought theirs: the kernel reads both.
    """
    have = observed.modules
    text, nouveau = _own_file(observed, desired)
    changes = text != (have.own or "")
    kernels = have.images if changes else have.stale
    if not changes and not kernels and (text or not observed.record.modprobe):
        return []
    words = []
    if changes:
        parts = ["blacklist nouveau"] if nouveau and not blacklists(have.own or "") else []
        parts += ["set the options of the modules"] if desired.module_options else []
        what = " and ".join(parts) or "remove the modules' options"
        words.append(f"{what} in {MODPROBE_FILE}")
    if kernels:
        words.append(f"rebuild the initramfs of {', '.join(kernels)}")
    given = since_load(observed, desired)
    pending = tuple(sorted(f"{observed.load} {one}" for one in as_texts(given)))
    known = {"spared": have.spared, "pending": pending}
    params = {"text": text, "kernels": kernels, **{key: one for key, one in known.items() if one}}
    return [Step("modprobe", "; ".join(words) or "forget the modprobe file", params)]


def _service(action: str, unit: str, states: t.Mapping[str, str], *, start: bool) -> t.List[Step]:
    # Ubuntu's unit is static: udev starts it, and there is nothing to enable.
    enabled = states.get("UnitFileState") in ("enabled", "static")
    active = states.get("ActiveState") == "active"
    if enabled and (active or not start):
        return []
    otherwise = "set persistence to false" if unit == SERVICE else ""
    refuse_masked(unit, states.get("UnitFileState", ""), otherwise)
    words = f"enable {'and start ' if start else ''}{unit}"
    return [Step(action, words, {"start": start, "was_enabled": enabled})]


def _preinstalled(observed: Observed, desired: Desired) -> Plan:
    """Return the steps for the modules' options; NodeError where the driver that is there will not do."""
    if observed.loaded is None:
        raise NodeError(
            "no NVIDIA driver is loaded",
            cause="source is preinstalled, so nothing is installed or loaded here",
            hint="install and load the driver (modprobe nvidia), or set source to distribution",
        )
    version, kind = observed.loaded
    wanted = desired.version
    if not version.fits(wanted):
        raise InputError.of("version", wanted, f"the version that is loaded, {version}")
    asked = desired.kernel_modules
    if asked != "auto" and module_type(asked, observed.gpus) != kind:
        raise InputError.of("kernel_modules", asked, f"the loaded kernel module type, {kind}")
    if not observed.libraries:
        raise NodeError(
            "the driver's library libnvidia-ml.so is not on the node",
            cause=f"the kernel modules of {version} are loaded without their user space",
            hint="install the user space of the same version; one in a folder of its own needs that folder in "
            "/etc/ld.so.conf.d, and ldconfig",
        )
    said = _told(observed, desired, version, kind) + wins(observed, desired)
    exchange, reboot = reloaded(observed, desired, options_loaded(observed, desired))
    steps = [*_modprobe(observed, desired), *_reload(exchange)]
    # What is there by itself is left to whoever has installed the driver.
    steps += device_nodes.plan(observed.device_nodes) if observed.device_nodes.missing else []
    said += device_nodes.warnings(observed.device_nodes)
    said += of_release(observed, desired, version)
    choice = Choice(kind, version, {}, (), observed.names)
    return Plan(
        tuple(steps),
        describe(observed),
        after(observed, choice, steps),
        reboot_required=reboot + _apart(observed),
        warnings=said,
    )


def _absent(observed: Observed, check_mode: bool) -> Plan:
    record, removal, names = observed.record, observed.removal, observed.names
    before = describe(observed)
    if record and not record.runfile:
        _check_platform(observed)
    steps = [packages.REPAIR] if record and observed.unfinished else []
    if steps and not check_mode:
        return Plan(tuple(steps), before, before, more=True)
    stays, restored = bool(adoption.why_left(observed)), observed.back or {}
    blocking = record.requested & set(removal.kept if removal else ())
    if removal and blocking and not (stays or restored):
        raise NodeError(
            f"{', '.join(sorted(blocking))} cannot be removed",
            cause=f"{', '.join(removal.users)}, which this module did not install, need it",
            hint=f"remove them first: {observed.family.purge} {' '.join(removal.users)}",
        )
    # Without a simulation, which needs dpkg in order, all that was added goes.
    gone = removal.packages if removal else tuple(sorted(record.packages & set(observed.packages)))
    gone = () if stays else gone
    if restored:
        gone = tuple(sorted(still_there(record.packages, observed.packages)))
    if record:
        steps += _removal(observed, gone, stays=stays)
    left = {name: one for name, one in before["packages"].items() if name not in gone}
    back = {name: one for name, one in restored.items() if name in names.relevant}
    held = [name for name in before["held"] if name not in record.holds]
    after = {**before, "packages": {**left, **back}, "held": held}
    if record.repository:
        after.pop("repository", None)
    after.pop("runfile", None)
    after["modprobe"] = "" if record.modprobe else after["modprobe"]
    if names.persistenced in gone or record.service:
        after["persistence"] = False
    there = {*filter(observed.installed, observed.packages)} - {*gone} | {*restored}
    reboot = _left_loaded(observed, record or observed.undone, there)
    return Plan(_marked(steps, observed), before, after, reboot_required=reboot)


def _left_loaded(observed: Observed, ours: Record, there: t.Iterable[str]) -> t.Tuple[str, ...]:
    """Return why a driver that this module had a hand in must leave the kernel, by the packages that stay.

    What is loaded of a driver that others have brought is not judged.
    """
    modules = any(map(observed.type_of, ours.packages)) and not any(map(observed.type_of, there))
    if observed.loaded and (modules or (ours.runfile and not ours.replaced)):
        return ("the driver is still loaded, though its packages are gone",)
    return _apart(observed) if ours else ()


def _apart(observed: Observed) -> t.Tuple[str, ...]:
    """Say that the loaded driver and its libraries are not of one version."""
    found, version = observed.libraries, (observed.loaded or ("", ""))[0]
    if not version or not found or version in found:
        return ()
    return (f"version {version} of the driver is loaded, the libraries are of {', '.join(found)}",)


def _removal(observed: Observed, gone: t.Sequence[str], *, stays: bool) -> t.List[Step]:
    record = observed.record
    held = sorted(name for name in record.holds if observed.held(name))
    steps = []
    if held:
        summary = f"release the hold on {', '.join(held)}"
        steps.append(Step("hold", summary, {"hold": [], "release": held}))
    if record.runfile and not stays:
        summary = f"uninstall what NVIDIA's installer brought: {runfile.UNINSTALLER}"
        steps.append(Step("uninstall", summary))
    asked = ", ".join(name for name in gone if name in record.requested) or "dependencies only"
    summary = f"remove the {len(gone)} packages that were added ({asked})"
    summary = summary if gone else "forget the record of additions"
    summary += " and the sources file" if record.sources else ""
    summary += " and the repository with its key" if record.repository else ""
    summary += " and the module stream" if record.stream else ""
    summary += " and the modprobe file" if record.modprobe else ""
    summary += " and the unit for device nodes" if record.device_nodes else ""
    summary += f" and {persistence.DROP_IN}" if record.persistence_mode else ""
    summary = adoption.in_words(observed, summary)
    params = {
        "packages": gone,
        "back": observed.back or {},
        "stays": stays,
        "service": record.service and observed.names.persistenced not in gone,
        "fabric": record.fabric and observed.names.fabric not in gone,
        "kernels": observed.modules.images if record.modprobe else (),
    }
    return [*steps, Step("remove", summary, params)]


def disrupts(found: Plan) -> bool:
    """Tell whether a plan takes the loaded driver from its users, or reloads it."""
    return any(IDLE_GPU in step.needs for step in found.steps)


def replaces(found: Plan) -> bool:
    """Tell whether a plan takes the driver from its users, and does not only reload it where nobody is on a GPU."""
    return any(IDLE_GPU in step.needs and step.action != "reload" for step in found.steps)


def _marked(
    steps: t.Iterable[Step], observed: Observed, choice: t.Optional[Choice] = None
) -> t.Tuple[Step, ...]:
    """Return the steps; those that take the loaded driver from its users need idle GPUs."""
    found = [*steps]
    for at, one in enumerate(found if observed.loaded else ()):
        takes = one.action in ("runfile", "uninstall")
        if one.action == "remove":
            takes = any(one.params[key] for key in ("packages", "back", "fabric"))
        elif one.action == "install" and choice is not None:
            takes = _replaces(one.params, observed, choice)
        if takes and IDLE_GPU not in one.needs:
            found[at] = dataclasses.replace(one, needs=(*one.needs, IDLE_GPU))
    return tuple(found)


def _replaces(params: t.Mapping[str, t.Any], observed: Observed, choice: Choice) -> bool:
    """Tell whether a transaction brings another driver than the loaded one in place of one that is there."""
    if (choice.version, choice.kind) == observed.loaded:
        return False
    if not any(map(observed.installed, observed.packages)):
        return True
    for name, version in params["packages"].items():
        have = observed.installed(name)
        if have and (version is None or Version.of(version) != Version.of(have)):
            return True
        if not have and observed.type_of(name):
            return True
    return any(observed.type_of(name) and observed.installed(name) for name in params["remove"])
