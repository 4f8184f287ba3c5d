# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps to the desired DCGM: its packages, its service, its exporter; and the way back."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError, NodeError, refuse_masked
from ..._base.packages.apt import upstream
from ..._base.steps import Plan, Step
from ..._driver.packages.components import ALL_DCGM, DCGM
from ..plan import Diff, Planner, Targets, Way, common
from .exporter import DCGM_UNIT, PROGRAM, UNIT, UNIT_FILE, VENDOR_UNIT, digest_of, files
from .state import DcgmState, DesiredDcgm

EVERY = (*ALL_DCGM, f"{DCGM}-cuda-all")


def plan(observed: DcgmState, desired: DesiredDcgm, *, check_mode: bool) -> Plan:
    """Return the plan.

    Raises:
        NodeError: if the node can't be brought there.
    """
    names = (*desired.packages(observed.driver), *desired.exporters_package)
    planner = _Planner(observed, desired, names, check_mode=check_mode)
    if desired.state == "absent":
        return planner.absent()
    check(observed, desired)
    return planner.present()


class _Planner(Planner[DcgmState, DesiredDcgm]):
    added = "exporter"
    on_hold = (
        "NAMES must change, but is on hold, and not by this module",
        "",
        "release the hold, or ask for the version that is installed",
    )
    not_offered = (
        "the sources do not have NAMES in one version",
        "no distribution has DCGM, NVIDIA's repositories do; the lists were refreshed",
        "make the node know NVIDIA's repository, as nvidia_driver_repository does with nvidia_driver_source: "
        "repository, or leave dcgm_state out",
    )

    def describe(self) -> Diff:
        return describe(self.observed)

    def choose(self) -> t.Optional[Targets]:
        names = self.desired.packages(self.observed.driver)
        version = self._choose(names, self.desired.version, "version")
        versions: t.Dict[str, t.Optional[str]] = dict.fromkeys(names, version)
        exporter = self.desired.exporter
        if version and exporter and exporter.package:
            named = exporter.package
            versions[named] = self._choose((named,), exporter.version, "exporter.version")
        targets = {name: chosen for name, chosen in versions.items() if chosen}
        return targets if len(targets) == len(versions) else None

    def _choose(self, names: t.Sequence[str], desired: str, option: str) -> t.Optional[str]:
        """Return the version for all of some packages: what is installed, else the newest.

        Raises:
            InputError: if the sources have versions, and the desired one is none of them.
        """
        versions = common(names, self.observed.versions)
        have = [version for version in map(self.observed.installed, names) if version in versions]
        for version in (*have, *versions):
            if version and desired in ("", version, upstream(version)):
                return version
        if not versions:
            return None
        expected = f"a version that the sources have for {', '.join(names)}: {', '.join(versions)}"
        raise InputError.of(option, desired, expected)

    def known(self, targets: Targets) -> Way:
        install, exporter = self._install(targets), self.desired.exporter
        serving = serve(self.observed, self.desired, changed=bool(install))
        held = targets if self.desired.hold else ()
        holds = self.observed.holds(held, self.missing(targets), self.observed.record.holds)
        address = exporter.address if exporter else None
        after = {"packages": targets, "service": "active", "exporter": address}
        return [*install, *holds, *serving], {**self.describe(), **after}

    def unknown(self) -> Way:
        version = self.desired.version or "the newest that is offered"
        install = Step("install", f"install {', '.join(self.names)} ({version})")
        serving = serve(self.observed, self.desired, changed=True)
        return [install, *serving], self.describe()

    def _install(self, targets: Targets) -> t.List[Step]:
        missing, drop = self.missing(targets), self.surplus(targets)
        named = ", ".join(f"{name} ({version})" for name, version in missing.items())
        parts = [*([f"install {named}"] if missing else [])]
        parts += [f"remove {', '.join(drop)}"] if drop else []
        # All are named, also those that fit: what one of them pulls in is of the same version.
        params = {"packages": targets if missing else {}, "remove": drop}
        return [Step("install", "; ".join(parts), params)] if parts else []

    def parts(self, removed: t.List[str]) -> t.List[str]:
        record = self.observed.record
        parts = [f"stop, disable and remove {UNIT}"] if record.exporter else []
        parts += [f"stop and disable {DCGM_UNIT}"] if DCGM_UNIT in record.enabled else []
        return [*parts, *removed]


def describe(observed: DcgmState) -> Diff:
    """Return the node for the diff."""
    listen = "Environment=DCGM_EXPORTER_LISTEN="
    lines = "\n".join(observed.files.values()).split("\n")
    names = [name for name in sorted(observed.packages) if name in EVERY or "exporter" in name]
    return {
        "packages": observed.there(names),
        "service": observed.services.get(DCGM_UNIT, {}).get("ActiveState"),
        "exporter": next((line[len(listen) :] for line in lines if line.startswith(listen)), None),
        "program": f"{PROGRAM} {observed.digest}" if observed.digest else None,
    }


def check(observed: DcgmState, desired: DesiredDcgm) -> None:
    """Refuse another exporter beside ours: both would ask for the same port."""
    exporter = desired.exporter
    if exporter is None or not observed.active(VENDOR_UNIT):
        return
    if exporter.package not in observed.record.packages:
        raise NodeError(
            f"{VENDOR_UNIT} runs on the node, and this module has not started it",
            cause=f"{UNIT} would serve the same metrics too",
            hint=f"stop it: systemctl disable --now {VENDOR_UNIT}; or leave exporter out",
        )


def serve(observed: DcgmState, desired: DesiredDcgm, *, changed: bool) -> t.List[Step]:
    """Return the steps for the services of both; ``changed`` says that packages change before them."""
    state = observed.services.get(DCGM_UNIT, {}).get("UnitFileState", "")
    refuse_masked(DCGM_UNIT, state, "leave DCGM out (state: absent)")
    engine = _running(observed, DCGM_UNIT, "its packages change" if changed else "")
    if not engine and DCGM_UNIT not in observed.record.managed:
        summary = f"stop and start {DCGM_UNIT} around changes of the driver"
        engine = [Step("manage", summary, {"unit": DCGM_UNIT})]
    return [*engine, *_exporter(observed, desired)]


def _exporter(observed: DcgmState, desired: DesiredDcgm) -> t.List[Step]:
    exporter = desired.exporter
    if exporter is None:
        gone = [Step("remove_exporter", f"stop, disable and remove {UNIT}")]
        return gone if observed.record.exporter else []
    steps = []
    if exporter.package and observed.active(VENDOR_UNIT):
        summary = f"disable {VENDOR_UNIT}, in whose place {UNIT} serves"
        steps.append(Step("disable", summary, {"unit": VENDOR_UNIT}))
    if exporter.location and observed.digest != exporter.sha256:
        params = {"location": exporter.location, "sha256": exporter.sha256}
        steps.append(Step("program", f"install {exporter.location} as {PROGRAM}", params))
    # What tells one program from another.
    texts = files(exporter, exporter.sha256 or f"{exporter.package} {exporter.version}")
    for path, text in texts.items():
        if observed.files.get(path) != text:
            steps.append(Step("file", f"write {path}", {"path": path, "text": text}))
    changed = steps or observed.running != digest_of(texts[UNIT_FILE])
    why = "what it runs on changes" if changed else ""
    return [*steps, *_running(observed, UNIT, why)]


def _running(observed: DcgmState, unit: str, changed: str) -> t.List[Step]:
    """Return the step that starts a service; ``changed`` says why it must start again, if it must."""
    params = {"unit": unit}
    if not observed.enabled(unit):
        return [Step("enable", f"enable and start {unit}", params)]
    if not observed.active(unit):
        return [Step("start", f"start {unit}: it is not running", params)]
    needs = (f"restart:{unit}",)
    return [Step("start", f"restart {unit}: {changed}", params, needs)] if changed else []
