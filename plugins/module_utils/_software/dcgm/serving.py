# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM's service and its exporter: the steps that have them run as they are wanted."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError, refuse_masked
from ..._base.steps import Step
from .desired import Desired, Exporter
from .exporter import DCGM_UNIT, PROGRAM, UNIT, UNIT_FILE, VENDOR_UNIT, digest_of, files
from .state import Observed


def check(observed: Observed, desired: Desired) -> None:
    """Refuse another exporter beside ours: both would ask for the same port."""
    package = desired.exporter.package if desired.exporter else ""
    if (
        desired.exporter
        and observed.active(VENDOR_UNIT)
        and package not in observed.record.packages
    ):
        raise NodeError(
            f"{VENDOR_UNIT} runs on the node, and this module has not started it",
            cause=f"{UNIT} would serve the same metrics beside it",
            hint=f"stop it: systemctl disable --now {VENDOR_UNIT}; or leave exporter out",
        )


def plan(observed: Observed, desired: Desired, *, changed: bool) -> t.List[Step]:
    """Return the steps for both; ``changed`` says that packages change before them."""
    return [*_engine(observed, changed=changed), *_exporter(observed, desired)]


def _engine(observed: Observed, *, changed: bool) -> t.List[Step]:
    params = {"unit": DCGM_UNIT}
    state = observed.services.get(DCGM_UNIT, {}).get("UnitFileState", "")
    refuse_masked(DCGM_UNIT, state, "leave DCGM out (state: absent)")
    if not observed.enabled(DCGM_UNIT):
        return [Step("enable", f"enable and start {DCGM_UNIT}", params)]
    if not observed.active(DCGM_UNIT):
        return [Step("start", f"start {DCGM_UNIT}: it is not running", params)]
    if changed:
        needs = (f"restart:{DCGM_UNIT}",)
        return [Step("start", f"restart {DCGM_UNIT}: its packages change", params, needs)]
    if DCGM_UNIT not in observed.record.managed:
        return [Step("manage", f"stop and start {DCGM_UNIT} around changes of the driver", params)]
    return []


def _exporter(observed: Observed, desired: Desired) -> t.List[Step]:
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
    texts = files(exporter, _identity(exporter))
    for path, text in texts.items():
        if observed.files.get(path) != text:
            steps.append(Step("file", f"write {path}", {"path": path, "text": text}))
    return [*steps, *_running(observed, digest_of(texts[UNIT_FILE]), changed=bool(steps))]


def _identity(exporter: Exporter) -> str:
    """Return what tells one program from another."""
    return exporter.sha256 or f"{exporter.package} {exporter.version}"


def _running(observed: Observed, digest: str, *, changed: bool) -> t.List[Step]:
    params = {"unit": UNIT}
    if not observed.enabled(UNIT):
        return [Step("enable", f"enable and start {UNIT}", params)]
    if not observed.active(UNIT):
        return [Step("start", f"start {UNIT}: it is not running", params)]
    if changed or observed.running != digest:
        needs = (f"restart:{UNIT}",)
        return [Step("start", f"restart {UNIT}: what it runs on changes", params, needs)]
    return []
