# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver of a Debian node: which packages it takes, and the steps to get there."""

from __future__ import annotations

import dataclasses
import typing as t

from .apt import Policy, upstream
from .errors import InputError, NodeError
from .steps import Plan, Step

COMPONENTS = ("contrib", "non-free", "non-free-firmware")
USER_SPACE = ("libcuda1", "libnvidia-ml1", "nvidia-cuda-mps", "nvidia-persistenced", "nvidia-smi")
FIRMWARE = "firmware-nvidia-gsp"
KERNEL = {"open": "nvidia-open-kernel-dkms", "proprietary": "nvidia-kernel-dkms"}
RELEVANT = (*USER_SPACE, FIRMWARE, *KERNEL.values())
PROPRIETARY_ONLY = ("kepler", "maxwell", "pascal", "volta")
OPEN_ONLY = ("blackwell",)
SERVICE = "nvidia-persistenced.service"


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants."""

    state: str
    version: str
    kernel_modules: str
    hold: bool
    persistence: bool
    manage_sources: bool
    secure_boot: str


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the node has; ``record`` is what an earlier run wrote down of its additions."""

    distribution: str
    codename: str
    kernel: str
    headers: bool
    gpus: t.Tuple[t.Tuple[str, str], ...]
    policies: t.Mapping[str, Policy]
    holds: t.FrozenSet[str]
    broken: bool
    loaded: t.Optional[t.Tuple[str, str]]
    nouveau: bool
    secure_boot: bool
    service: t.Mapping[str, str]
    sources_file: bool
    record: t.Mapping[str, t.Any]

    def installed(self, package: str) -> t.Optional[str]:
        """Return an installed package's version."""
        policy = self.policies.get(package)
        return policy.installed if policy else None


def flavour(wanted: str, gpus: t.Sequence[t.Tuple[str, str]]) -> str:
    """Return open or proprietary for GPUs given as (address, architecture)."""
    for address, architecture in gpus:
        only = "open" if architecture in OPEN_ONLY else ""
        only = "proprietary" if architecture in PROPRIETARY_ONLY else only
        if wanted == "auto" and only:
            wanted = only
        if only and wanted != only:
            raise NodeError(
                f"the {wanted} kernel modules do not run on the {architecture} GPU {address}",
                cause=f"{architecture} GPUs run with the {only} ones only",
                hint=f"set kernel_modules to {only}, or take one of the GPUs out",
            )
    return "open" if wanted == "auto" else wanted


def resolve(package: str, wanted: str, policy: Policy) -> str:
    """Return the version of a package to install: exact, upstream version or branch."""
    if not wanted:
        found = policy.installed or policy.candidate
        return found or ""
    for version in policy.versions:
        if wanted in (version, upstream(version)) or upstream(version).startswith(f"{wanted}."):
            return version
    offered = ", ".join(policy.versions) or "none"
    raise InputError.of(
        "version", wanted, f"a version of {package} that the sources offer: {offered}"
    )


def plan(observed: Observed, desired: Desired, *, check_mode: bool) -> Plan:
    """Return the plan; NodeError where the node cannot be brought there."""
    if observed.distribution != "debian":
        raise NodeError(
            f"the distribution {observed.distribution!r} is not supported by this release",
            cause="expected debian",
            hint="install the driver yourself and leave the role nvidia_driver out",
        )
    steps: t.List[Step] = []
    if observed.broken:
        steps.append(Step("repair", "finish what an interrupted dpkg left: dpkg --configure -a"))
    if desired.state == "absent":
        return _absent(observed, steps)
    kind = flavour(desired.kernel_modules, observed.gpus)
    if (
        observed.secure_boot
        and desired.secure_boot == "refuse"
        and not observed.installed(KERNEL[kind])
    ):
        raise NodeError(
            "Secure Boot is on, so the kernel will not load modules that DKMS built unless their key is enrolled",
            hint="enrol a key (mokutil --import) and set secure_boot to ignore, or turn Secure Boot off",
        )
    packages = (*USER_SPACE, *([FIRMWARE] if kind == "open" else []), KERNEL[kind])
    missing = [one for one in packages if not observed.installed(one)]
    unknown = [
        one
        for one in missing
        if not (observed.policies.get(one) and observed.policies[one].candidate)
    ]
    if unknown and not (observed.sources_file and steps):
        steps += _sources(observed, desired, unknown)
        if not check_mode:
            return Plan(tuple(steps), _describe(observed), _describe(observed), more=True)
    steps += _packages(observed, desired, kind, packages, unknown)
    warnings = []
    if any(step.action == "install" for step in steps) and not observed.headers:
        warnings.append(
            f"no headers of the running kernel {observed.kernel} are installed: DKMS builds the modules once they are"
        )
    reboot = _reboot_reasons(
        observed, kind, installing=any(step.action == "install" for step in steps)
    )
    if observed.loaded is None and not reboot:
        steps.append(Step("load", "load the kernel module: modprobe nvidia"))
    if desired.persistence and not _service_runs(observed):
        steps.append(Step("persistence", f"enable and start {SERVICE}"))
    after = {**_describe(observed), "loaded": observed.loaded or "the installed version"}
    if any(step.action == "install" for step in steps):
        after["packages"] = {one: _target(observed, desired, one) for one in packages}
    if desired.hold:
        after["held"] = sorted(packages)
    return Plan(
        tuple(steps), _describe(observed), after, reboot_required=reboot, warnings=tuple(warnings)
    )


def _sources(observed: Observed, desired: Desired, unknown: t.Sequence[str]) -> t.List[Step]:
    if observed.sources_file:
        return [Step("refresh", "refresh the package lists: apt-get update")]
    if not desired.manage_sources:
        raise NodeError(
            f"the node's package sources do not offer {', '.join(unknown)}",
            hint=f"enable the components {', '.join(COMPONENTS)}, or set manage_sources",
        )
    words = f"enable the components {', '.join(COMPONENTS)} in a file of our own"
    return [Step("sources", words), Step("refresh", "refresh the package lists: apt-get update")]


def _target(observed: Observed, desired: Desired, package: str) -> str:
    policy = observed.policies.get(package, Policy(None, None, ()))
    if package == FIRMWARE or not policy.versions:
        return policy.installed or policy.candidate or f"the newest that {COMPONENTS[1]} offers"
    return resolve(package, desired.version, policy)


def _packages(
    observed: Observed,
    desired: Desired,
    kind: str,
    packages: t.Sequence[str],
    unknown: t.Sequence[str],
) -> t.List[Step]:
    targets = {one: _target(observed, desired, one) for one in packages}
    change = {
        one: version for one, version in targets.items() if observed.installed(one) != version
    }
    other = KERNEL["proprietary" if kind == "open" else "open"]
    drop = [other] if observed.installed(other) else []
    steps = []
    if change or drop:
        words = ", ".join(f"{one} ({version})" for one, version in sorted(change.items()))
        words = f"install {words}" if change else "change the kernel modules"
        words += f"; remove {other}" if drop else ""
        exact = {one: version for one, version in change.items() if one not in unknown}
        steps.append(
            Step("install", words, {"packages": sorted(change), "versions": exact, "remove": drop})
        )
    held = sorted(observed.holds & set(packages))
    wanted = sorted(packages) if desired.hold else []
    if held != wanted:
        words = (
            "hold the driver's packages at their version"
            if desired.hold
            else "release the driver's packages"
        )
        steps.append(
            Step("hold", words, {"hold": wanted, "release": sorted(set(held) - set(wanted))})
        )
    return steps


def _reboot_reasons(observed: Observed, kind: str, *, installing: bool) -> t.Tuple[str, ...]:
    if observed.nouveau:
        return ("the nouveau driver holds the GPUs",)
    if observed.loaded is None or installing:
        return ()
    version, loaded_kind = observed.loaded
    installed = upstream(observed.installed(KERNEL[kind]) or "")
    if installed and installed != version:
        return (f"version {version} of the driver is loaded, {installed} is installed",)
    if loaded_kind != kind:
        return (f"the {loaded_kind} kernel modules are loaded, the {kind} ones are installed",)
    return ()


def _service_runs(observed: Observed) -> bool:
    service = observed.service
    return service.get("ActiveState") == "active" and service.get("UnitFileState") == "enabled"


def _absent(observed: Observed, steps: t.List[Step]) -> Plan:
    record = observed.record
    added = [
        one for one in record.get("packages", ()) if observed.installed(one) or one not in RELEVANT
    ]
    held = sorted(observed.holds & set(RELEVANT)) if record else []
    if record:
        if held:
            steps.append(
                Step("hold", "release the driver's packages", {"hold": [], "release": held})
            )
        words = f"remove the {len(added)} packages that were added, and what was written"
        steps.append(Step("remove", words, {"packages": added}))
    reboot = (
        ("the driver is still loaded",)
        if observed.loaded and not observed.installed("nvidia-smi")
        else ()
    )
    after = {**_describe(observed), "packages": {}, "held": []}
    return Plan(tuple(steps), _describe(observed), after, reboot_required=reboot)


def _describe(observed: Observed) -> t.Dict[str, t.Any]:
    return {
        "packages": {one: observed.installed(one) for one in RELEVANT if observed.installed(one)},
        "held": sorted(observed.holds & set(RELEVANT)),
        "loaded": observed.loaded,
        "persistence": _service_runs(observed),
    }
