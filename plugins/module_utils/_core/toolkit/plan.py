# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The NVIDIA container toolkit on a node: what it is to be, what is there, and the steps between them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..errors import OLD_LISTS, InputError, NodeError
from ..packages import package, repository
from ..packages.apt import Source, upstream
from ..packages.package import Package, Policy, Removal
from ..packages.repository import Known, Place, Repository
from ..steps import Plan, Step
from .version import MINIMUM_TEXT, is_safe

PLACE = Place(
    "gpu-node-container-toolkit",
    "The NVIDIA container toolkit, for gpu.node",
    "gpu.node.container_toolkit",
)
BASE = "nvidia-container-toolkit-base"
# The base is enough for CDI; the legacy hook and its library come with the rest.
PARTS = {
    "base": (BASE,),
    "all": (BASE, "libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit"),
}
ALL = PARTS["all"]
# From 1.18 on the base has a service that writes a specification of its own, which runtimes prefer to
# the one in /etc/cdi, and which does not follow changes of the MIG layout.
VENDOR_FILE = "/var/run/cdi/nvidia.yaml"
DROP_IN = "/etc/systemd/system/nvidia-cdi-refresh.service.d/gpu-node.conf"
DROP_IN_TEXT = """\
# Written by gpu.node.container_toolkit: gpu.node.cdi describes the GPUs to container runtimes.
[Unit]
ConditionPathExists=!/
"""
FAMILIES = {
    **dict.fromkeys(("debian", "ubuntu"), "debian"),
    **dict.fromkeys(("rhel", "rocky", "almalinux", "centos", "fedora", "amzn"), "rhel"),
    **dict.fromkeys(("sles", "opensuse-leap"), "suse"),
}
REPAIR = Step("repair", "finish what a killed package manager has begun")
REFRESH = Step("refresh", "refresh the package lists")


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants; without ``version`` any safe one is good."""

    state: str
    version: str
    parts: str
    hold: bool
    vendor_refresh: bool
    repository: t.Optional[Repository] = None


@dataclasses.dataclass(frozen=True)
class Record(package.Record):
    """What earlier runs added; ``drop_in`` says that the vendor's service has one of ours."""

    drop_in: bool = False


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the node has.

    ``drop_in`` is the text of ours, ``vendor_file`` says that there is a specification of the vendor's
    service. ``users`` name what still uses the toolkit. ``refreshed`` says that this run has fetched
    the package lists, ``note`` what went wrong with it. ``removal`` is there when additions are to be
    removed again and dpkg is in order.
    """

    family: str
    packages: t.Mapping[str, Package]
    policies: t.Mapping[str, Policy]
    repository: Known
    record: Record
    sources: t.Tuple[Source, ...] = ()
    drop_in: t.Optional[str] = None
    vendor_file: bool = False
    users: t.Tuple[str, ...] = ()
    interrupted: bool = False
    refreshed: bool = False
    note: str = ""
    removal: t.Optional[Removal] = None

    def version(self, name: str) -> t.Optional[str]:
        """Return the version of a package that is installed."""
        package = self.packages.get(name)
        return package.version if package and package.installed else None

    def held(self, name: str) -> bool:
        """Tell whether a package is on hold."""
        return name in self.packages and self.packages[name].held

    @property
    def unfinished(self) -> bool:
        """Tell whether a transaction of ours was killed."""
        return self.interrupted or any(one.broken for one in self.packages.values())


def check_version(version: str) -> None:
    """Refuse a version with known holes before anything is looked at."""
    if version and not is_safe(version):
        expected = f"{MINIMUM_TEXT} or later, as containers could break out through earlier ones"
        raise InputError.of("version", version, expected)


def plan(observed: Observed, desired: Desired, *, check_mode: bool) -> Plan:
    """Return the plan; NodeError where the node cannot be brought there.

    What can only be planned once the package lists are there comes with the next plan, except
    in check mode, which tells all of it as far as it is known.
    """
    before = describe(observed)
    if desired.state == "absent":
        return _absent(observed, before, check_mode)
    first = [REPAIR] if observed.unfinished else []
    named = repository.step(
        desired.repository, PLACE, observed.family, observed.repository, observed.sources
    )
    if named:
        first += [named] if observed.refreshed else [named, REFRESH]
    if first and not check_mode:
        return Plan(tuple(first), before, before, more=True)
    try:
        version = choose(observed, desired)
    except NodeError as error:
        error.until = "" if observed.refreshed else OLD_LISTS
        if observed.refreshed or check_mode:
            raise
        return Plan((REFRESH,), before, before, more=True)  # the lists may be old
    if version is None:
        return _unknown(observed, desired, first, check_mode)
    steps = [*first, *_vendor(observed, desired), *_install(observed, desired, version)]
    if not any(step.action == "install" for step in steps):
        steps += _hold(observed, desired)
    elif desired.hold:
        steps.append(_held(PARTS[desired.parts]))
    return Plan(tuple(steps), before, _after(observed, desired, version))


def _after(observed: Observed, desired: Desired, version: str) -> t.Dict[str, t.Any]:
    named = {} if desired.repository is None else {"repository": desired.repository.url}
    packages = dict.fromkeys(PARTS[desired.parts], version)
    return {**describe(observed), **named, "packages": packages}


def _unknown(
    observed: Observed, desired: Desired, first: t.Sequence[Step], check_mode: bool
) -> Plan:
    """Plan where no source offers the packages: they may once the lists are there."""
    before = describe(observed)
    names = PARTS[desired.parts]
    if check_mode and (first or not observed.refreshed):
        what = desired.version or f"the newest that is offered, {MINIMUM_TEXT} at least"
        steps = [*first] or [REFRESH]
        steps += _vendor(observed, desired)
        steps.append(Step("install", f"install {', '.join(names)} ({what})"))
        steps += [_held(names)] if desired.hold else []
        return Plan(tuple(steps), before, _after(observed, desired, what))
    if not observed.refreshed:
        return Plan((REFRESH,), before, before, more=True)
    raise NodeError(
        f"the sources do not offer {', '.join(names)}",
        cause=observed.note or "the package lists were refreshed",
        hint="set repository to one that has the NVIDIA container toolkit",
    )


def _vendor(observed: Observed, desired: Desired) -> t.List[Step]:
    """Return the steps that leave one writer of specifications on the node.

    They come before the packages, which start the vendor's service at once.
    """
    if desired.vendor_refresh:
        if observed.drop_in is None:
            return []
        return [Step("vendor", f"remove {DROP_IN}", {"text": None, "file": False})]
    parts = [f"write {DROP_IN}, so that one program describes the GPUs"]
    parts = parts if observed.drop_in != DROP_IN_TEXT else []
    parts += [f"remove {VENDOR_FILE} of the toolkit's service"] if observed.vendor_file else []
    if not parts:
        return []
    params = {"text": DROP_IN_TEXT, "file": observed.vendor_file}
    return [Step("vendor", "; ".join(parts), params)]


def _install(observed: Observed, desired: Desired, version: str) -> t.List[Step]:
    names = PARTS[desired.parts]
    steps = []
    others = observed.record.packages & set(ALL) - set(names)
    surplus = tuple(sorted(filter(observed.version, others)))
    if surplus:
        steps.append(Step("purge", f"remove {', '.join(surplus)}", {"packages": surplus}))
    missing = {name: version for name in names if observed.version(name) != version}
    if not missing:
        return steps
    held = sorted(filter(observed.held, set(missing) - observed.record.holds))
    if held:
        raise NodeError(
            f"the NVIDIA container toolkit cannot become {version}: {', '.join(held)} is on hold",
            cause="the hold was not set by this module",
            hint="release it, or ask for the version that is there if it is safe",
        )
    # All of them are named, also those that fit: what one of them pulls in is of the same version.
    packages = dict.fromkeys(names, version)
    summary = f"install {', '.join(missing)} ({version})"
    return [*steps, Step("install", summary, {"packages": packages})]


def _held(names: t.Sequence[str]) -> Step:
    return Step("hold", f"hold {', '.join(names)} at their version", {"hold": tuple(names)})


def _hold(observed: Observed, desired: Desired) -> t.List[Step]:
    if desired.hold:
        loose = [name for name in PARTS[desired.parts] if not observed.held(name)]
        return [_held(loose)] if loose else []
    ours = sorted(filter(observed.held, observed.record.holds))
    return [Step("release", f"release {', '.join(ours)}")] if ours else []


def _absent(observed: Observed, before: t.Dict[str, t.Any], check_mode: bool) -> Plan:
    record = observed.record
    files = observed.repository.files
    if not (record or files):
        return Plan()
    if observed.unfinished:
        steps = (REPAIR,)
        if not check_mode:
            return Plan(steps, before, before, more=True)
    if observed.users and not check_mode:  # a run before it may take these first
        raise NodeError(
            "the NVIDIA container toolkit is in use",
            cause="; ".join(observed.users),
            hint="first set mode to cdi in gpu.node.container_runtime, or generator to nvml in gpu.node.cdi",
        )
    removal = observed.removal
    gone = removal.packages if removal else ()
    parts = [f"remove {', '.join(gone)}"] if gone else []
    parts += [f"remove {', '.join(sorted(files))}"] if files else []
    parts += [f"remove {DROP_IN}"] if record.drop_in else []
    warnings = [f"the NVIDIA container toolkit is in use: {one}" for one in observed.users]
    if removal and removal.kept:
        users = ", ".join(removal.users) or "others"
        warnings += [f"{', '.join(removal.kept)} stays, as {users} needs it"]
    params = {"packages": gone, "files": tuple(sorted(files))}
    step = Step("remove", "; ".join(parts) or "forget what was added", params)
    packages = {name: one for name, one in before["packages"].items() if name not in gone}
    after = {**before, "packages": packages, "repository": None}
    return Plan((step,), before, after, blocked_by=observed.users, warnings=tuple(warnings))


def describe(observed: Observed) -> t.Dict[str, t.Any]:
    """Return the node for the diff."""
    text = "\n".join(observed.repository.files.values())
    uri = re.search(r"^(?:URIs: |baseurl=)(.*)", text, flags=re.M)
    found = {name: observed.version(name) for name in ALL}
    return {
        "repository": uri[1] if uri else None,
        "packages": {name: version for name, version in found.items() if version},
    }


def choose(observed: Observed, desired: Desired) -> t.Optional[str]:
    """Return the one version for all packages, None where the sources offer none of them yet.

    NodeError where they offer some, but not the wanted one, or none that is safe.
    """
    names = PARTS[desired.parts]
    have = {observed.version(name) for name in names}
    offers = [observed.policies.get(name, Policy(None, ())).versions for name in names]
    offered = [one for one in offers[0] if all(one in versions for versions in offers)]
    present = filter(None, have if len(have) == 1 else ())
    for version in [*present, *offered]:
        if _fits(version, desired.version):
            return version
    if not offered:
        return None
    if desired.version:
        raise NodeError(
            f"the sources do not offer the NVIDIA container toolkit {desired.version}",
            cause=f"they offer {', '.join(offered)}",
            hint="ask for one of these, or name another repository",
        )
    raise NodeError(
        "the sources offer no NVIDIA container toolkit that is safe to use",
        cause=f"they offer {', '.join(offered)}, and before {MINIMUM_TEXT} containers could break out through it",
        hint="name a repository that has a later one",
    )


def _fits(version: str, wanted: str) -> bool:
    if wanted:
        return wanted in (version, upstream(version)) and is_safe(version)
    # Without being asked for, a release candidate is not taken.
    return is_safe(version) and "rc" not in version
