# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps to DCGM as it is wanted: its packages, its service, its exporter; and the way back."""

from __future__ import annotations

import typing as t

from ..driver.components.packages import ALL_DCGM, DCGM
from ..errors import OLD_LISTS, InputError, NodeError
from ..packages.apt import upstream
from ..steps import Plan, Step
from . import serving
from .desired import Desired
from .exporter import DCGM_UNIT, PROGRAM, UNIT
from .state import Observed

REPAIR = Step("repair", "finish what a killed package manager has begun")
REFRESH = Step("refresh", "refresh the package lists")
EVERY = (*ALL_DCGM, f"{DCGM}-cuda-all")
Targets = t.Dict[str, str]


def plan(observed: Observed, desired: Desired, *, check_mode: bool) -> Plan:
    """Return the plan; NodeError where the node cannot be brought there.

    What can only be planned once the package lists are there comes with the next plan, except in check mode, which
    tells all of it as far as it is known.
    """
    before = describe(observed)
    if desired.state == "absent":
        return _absent(observed, before, check_mode)
    serving.check(observed, desired)
    first = [REPAIR] if observed.unfinished else []
    if first and not check_mode:
        return Plan(tuple(first), before, before, more=True)
    try:
        targets = _targets(observed, desired)
    except InputError as error:
        error.until = "" if observed.refreshed else OLD_LISTS
        if observed.refreshed or check_mode:
            raise
        return Plan((REFRESH,), before, before, more=True)  # the lists may be old
    if targets is None:
        return _unknown(observed, desired, before, check_mode)
    install = _install(observed, desired, targets)
    steps = [*first, *install, *_holds(observed, desired, targets, install)]
    steps += serving.plan(observed, desired, changed=bool(install))
    after = {**before, "packages": targets, "service": "active"}
    after["exporter"] = desired.exporter.address if desired.exporter else None
    return Plan(tuple(steps), before, after)


def _targets(observed: Observed, desired: Desired) -> t.Optional[Targets]:
    """Return the version of each package, None where one is not offered in any."""
    names = desired.packages(observed.driver)
    version = _choose(observed, names, desired.version, "version")
    if version is None:
        return None
    targets = dict.fromkeys(names, version)
    exporter = desired.exporter
    if exporter and exporter.package:
        one = _choose(observed, (exporter.package,), exporter.version, "exporter.version")
        if one is None:
            return None
        targets[exporter.package] = one
    return targets


def _choose(
    observed: Observed, names: t.Sequence[str], wanted: str, option: str
) -> t.Optional[str]:
    """Return the version for all of some packages: what is there, else the newest. InputError: not the wanted one."""
    offers = {name: observed.versions(name) for name in names}
    common = [one for one in offers[names[0]] if all(one in found for found in offers.values())]
    have = [one for one in map(observed.version, names) if one in common]
    for one in (*have, *common):
        if one and wanted in ("", one, upstream(one)):
            return one
    if not common:
        return None
    raise InputError.of(
        option,
        wanted,
        f"a version that the sources offer for {', '.join(names)}: {', '.join(common)}",
    )


def _unknown(
    observed: Observed, desired: Desired, before: t.Dict[str, t.Any], check_mode: bool
) -> Plan:
    """Plan where no source offers the packages: they may once the lists are there."""
    names = [*desired.packages(observed.driver), *desired.exporters_package]
    lacking = [name for name in names if not observed.versions(name)] or names
    if not observed.refreshed:
        steps = [REFRESH]
        if check_mode:
            what = desired.version or "the newest that is offered"
            steps.append(Step("install", f"install {', '.join(names)} ({what})"))
            steps += serving.plan(observed, desired, changed=True)
        return Plan(tuple(steps), before, before, more=not check_mode)
    raise NodeError(
        f"the sources do not offer {', '.join(lacking)} in one version",
        cause=observed.note
        or "no distribution has DCGM, NVIDIA's repositories do; the lists were refreshed",
        hint="make the node know NVIDIA's repository, as nvidia_driver_repository does with nvidia_driver_source: "
        "repository, or leave dcgm_state out",
    )


def _ours(observed: Observed, desired: Desired, targets: Targets) -> t.List[str]:
    """Return what earlier runs have installed and is not wanted any more."""
    there = [name for name in observed.record.packages if name not in targets]
    return sorted(name for name in there if observed.version(name) and _is_part(name))


def _is_part(name: str) -> bool:
    return name in EVERY or "exporter" in name


def _install(observed: Observed, desired: Desired, targets: Targets) -> t.List[Step]:
    missing = {name: one for name, one in targets.items() if observed.version(name) != one}
    drop = _ours(observed, desired, targets)
    held = sorted(filter(observed.held, set(missing) - observed.record.holds))
    if held:
        raise NodeError(
            f"{', '.join(held)} must change, but is on hold, and not by this module",
            hint="release the hold, or ask for the version that is installed",
        )
    parts = [f"install {', '.join(f'{name} ({one})' for name, one in missing.items())}"]
    parts = parts if missing else []
    parts += [f"remove {', '.join(drop)}"] if drop else []
    if not parts:
        return []
    # All are named, also those that fit: what one of them pulls in is of the same version.
    params = {"packages": targets if missing else {}, "remove": drop}
    return [Step("install", "; ".join(parts), params)]


def _holds(
    observed: Observed, desired: Desired, targets: Targets, install: t.Sequence[Step]
) -> t.List[Step]:
    ours = {name for name in observed.record.holds if observed.held(name)}
    wanted = set(targets) if desired.hold else set()
    changed = {name for name in targets if observed.version(name) != targets[name]}
    hold = sorted(name for name in wanted if name in changed or not observed.held(name))
    release = sorted(ours - wanted)
    parts = [f"hold {', '.join(hold)} at their version"] if hold else []
    parts += [f"release the hold on {', '.join(release)}"] if release else []
    return [Step("hold", "; ".join(parts), {"hold": hold, "release": release})] if parts else []


def _absent(observed: Observed, before: t.Dict[str, t.Any], check_mode: bool) -> Plan:
    record, removal = observed.record, observed.removal
    if not record:
        return Plan((), before, before)
    if record.packages and observed.unfinished and not check_mode:
        return Plan((REPAIR,), before, before, more=True)
    gone = removal.packages if removal else ()
    parts = [f"stop, disable and remove {UNIT}"] if record.exporter else []
    parts += [f"stop and disable {DCGM_UNIT}"] if DCGM_UNIT in record.enabled else []
    parts += [f"remove {', '.join(gone)}"] if gone else []
    warnings = []
    if removal and removal.kept:
        users = ", ".join(removal.users) or "others"
        warnings = [f"{', '.join(removal.kept)} stays, as {users} needs it"]
    step = Step("remove", "; ".join(parts) or "forget what was added", {"packages": gone})
    packages = {name: one for name, one in before["packages"].items() if name not in gone}
    after = {**before, "packages": packages, "exporter": None}
    return Plan((step,), before, after, warnings=tuple(warnings))


def describe(observed: Observed) -> t.Dict[str, t.Any]:
    """Return the node for the diff."""
    listen = "Environment=DCGM_EXPORTER_LISTEN="
    lines = "\n".join(observed.files.values()).split("\n")
    found = {name: observed.version(name) for name in sorted(observed.packages) if _is_part(name)}
    return {
        "packages": {name: version for name, version in found.items() if version},
        "service": observed.services.get(DCGM_UNIT, {}).get("ActiveState"),
        "exporter": next((one[len(listen) :] for one in lines if one.startswith(listen)), None),
        "program": f"{PROGRAM} {observed.digest}" if observed.digest else None,
    }
