# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The NVIDIA container toolkit on a node: what it is to be, what is there, and the steps between them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.errors import NodeError
from ..._base.packages import package, repository
from ..._base.packages.apt import Source, upstream
from ..._base.packages.repository import Known, Place, Repository
from ..._base.steps import Plan, Step
from ..._base.toolkit import MINIMUM_TEXT, is_safe
from .. import plan as software
from ..plan import Diff, Planner, Targets, Way, common

PLACE = Place.of(
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


@dataclasses.dataclass(frozen=True)
class DesiredToolkit:
    """The desired toolkit; without ``version`` any safe one is good."""

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
class ToolkitState(software.SoftwareState[Record]):
    """What the node has.

    ``drop_in`` is the text of ours, ``vendor_file`` says that there is a specification of the vendor's
    service. ``users`` name what still uses the toolkit.
    """

    repository: Known = dataclasses.field(default_factory=Known)
    sources: t.Tuple[Source, ...] = ()
    drop_in: t.Optional[str] = None
    vendor_file: bool = False
    users: t.Tuple[str, ...] = ()


def plan(observed: ToolkitState, desired: DesiredToolkit, *, check_mode: bool) -> Plan:
    """Return the plan.

    Raises:
        NodeError: if the node can't be brought there.
    """
    planner = _Planner(observed, desired, PARTS[desired.parts], check_mode=check_mode)
    if desired.state == "absent":
        return planner.absent(observed.repository.files, observed.users)
    known, sources = observed.repository, observed.sources
    named = repository.step(desired.repository, PLACE, observed.family, known, sources)
    return planner.present([named] if named else [])


class _Planner(Planner[ToolkitState, DesiredToolkit]):
    added, taken = "repository", "the NVIDIA container toolkit is in use"
    on_hold = (
        "the NVIDIA container toolkit can't become VERSION: NAMES is on hold",
        "the hold was not set by this module",
        "release it, or ask for the version that is there if it is safe",
    )
    not_offered = (
        "the sources do not have NAMES",
        "the package lists were refreshed",
        "set repository to one that has the NVIDIA container toolkit",
    )
    free = (
        "first set mode to cdi in gpu.node.container_runtime, or generator to nvml in gpu.node.cdi"
    )

    def describe(self) -> Diff:
        text = "\n".join(self.observed.repository.files.values())
        uri = re.search(r"^(?:URIs: |baseurl=)(.*)", text, flags=re.M)
        return {"repository": uri[1] if uri else None, "packages": self.observed.there(ALL)}

    def choose(self) -> t.Optional[Targets]:
        have = {self.observed.installed(name) for name in self.names}
        offered = common(self.names, self.observed.offered)
        desired_version = self.desired.version
        for version in [*filter(None, have if len(have) == 1 else ()), *offered]:
            if _fits(version, desired_version):
                return dict.fromkeys(self.names, version)
        if not offered:
            return None
        cause = f"they have {', '.join(offered)}"
        if desired_version:
            raise NodeError(
                f"the sources do not have the NVIDIA container toolkit {desired_version}",
                cause=cause,
                hint="ask for one of these, or name another repository",
            )
        raise NodeError(
            "the sources have no NVIDIA container toolkit that is safe to use",
            cause=f"{cause}, and before {MINIMUM_TEXT} containers could break out through it",
            hint="name a repository that has a later one",
        )

    def known(self, targets: Targets) -> Way:
        surplus, missing = self.surplus(targets), self.missing(targets)
        version = targets[BASE]
        steps = self._vendor()
        if surplus:
            steps.append(Step("purge", f"remove {', '.join(surplus)}", {"packages": surplus}))
        if missing:
            # All of them are named, also those that fit: what one of them pulls in is of the same version.
            summary = f"install {', '.join(missing)} ({version})"
            steps.append(Step("install", summary, {"packages": targets}))
        return [*steps, *self._holds(bool(missing))], self._after(version)

    def unknown(self) -> Way:
        version = self.desired.version or f"the newest available one, {MINIMUM_TEXT} at least"
        install = Step("install", f"install {', '.join(self.names)} ({version})")
        hold = self._holds(True) if self.desired.hold else []
        return [*self._vendor(), install, *hold], self._after(version)

    def _after(self, version: str) -> Diff:
        desired_repository = self.desired.repository
        named = {} if desired_repository is None else {"repository": desired_repository.url}
        return {**self.describe(), **named, "packages": dict.fromkeys(self.names, version)}

    def _vendor(self) -> t.List[Step]:
        """Return the steps that leave one writer of specifications on the node.

        They come before the packages, which start the vendor's service at once.
        """
        observed = self.observed
        if self.desired.vendor_refresh:
            if observed.drop_in is None:
                return []
            return [Step("vendor", f"remove {DROP_IN}", {"text": None, "file": False})]
        parts = [f"write {DROP_IN}, so that one program describes the GPUs"]
        parts = parts if observed.drop_in != DROP_IN_TEXT else []
        parts += [f"remove {VENDOR_FILE} of the toolkit's service"] if observed.vendor_file else []
        params = {"text": DROP_IN_TEXT, "file": observed.vendor_file}
        return [Step("vendor", "; ".join(parts), params)] if parts else []

    def _holds(self, installed: bool) -> t.List[Step]:
        observed = self.observed
        if not self.desired.hold:
            ours = sorted(filter(observed.held, observed.record.holds))
            text = f"release {', '.join(ours)}"
            return [Step("release", text, {"release": ours})] if ours else []
        loose = [name for name in self.names if installed or not observed.held(name)]
        summary = f"hold {', '.join(loose)} at their version"
        return [Step("hold", summary, {"hold": loose})] if loose else []

    def parts(self, removed: t.List[str]) -> t.List[str]:
        return [*removed, *([f"remove {DROP_IN}"] if self.observed.record.drop_in else [])]


def _fits(version: str, desired: str) -> bool:
    if desired:
        return desired in (version, upstream(version)) and is_safe(version)
    # Without being asked for, a release candidate is not taken.
    return is_safe(version) and "rc" not in version
