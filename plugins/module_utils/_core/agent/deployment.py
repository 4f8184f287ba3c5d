# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin's deployment: what is there, what is wanted, and the steps between."""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import NodeError
from ..steps import Plan, Step
from . import labels as node_labels
from . import mps_units

UNIT = "gpu-device-plugin.service"


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants; ``config`` is the configuration file's text."""

    state: str
    digest: str
    config: str
    unit: str
    keep_releases: int
    mps_unit: str = ""


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the node has. ``running`` is the release that the running daemon was started from."""

    python: str
    ensurepip: bool
    apt: bool
    current: str
    releases: t.Tuple[str, ...]
    usable: bool
    config: t.Optional[str]
    unit: t.Optional[str]
    service: t.Mapping[str, str]
    running: str
    status: t.Mapping[str, t.Any]
    config_digest: str
    kubelet: bool
    devices: t.Optional[t.FrozenSet[str]]
    mps_unit: t.Optional[str] = None
    mps: t.Tuple[mps_units.Daemon, ...] = ()
    labels: t.Optional[node_labels.Observed] = None

    @property
    def active(self) -> bool:
        """Tell whether the service runs."""
        return self.service.get("ActiveState") == "active"


def serving(observed: Observed) -> str:
    """Return why the daemon does not serve what it should, an empty text where it does."""
    status = observed.status
    if not observed.active:
        return "the daemon is not running"
    if not status:
        return "the daemon has not reported its state yet"
    if status.get("config_sha256") != observed.config_digest:
        return "the daemon runs on another configuration"
    if status.get("state") != "serving":
        return f"the daemon's state is {status.get('state')}: {status.get('problem') or 'no reason given'}"
    listed = frozenset([*status.get("gpu_uuids", ()), *status.get("mig_uuids", ())])
    if observed.devices is not None and listed != observed.devices:
        return "the daemon has not noticed a change of the GPUs yet"
    late = [name for name, one in status.get("resources", {}).items() if not one["registered"]]
    if observed.kubelet and late:
        return f"the kubelet has not accepted {', '.join(sorted(late))}"
    return _sharing(status)


def _sharing(status: t.Mapping[str, t.Any]) -> str:
    """Return why devices are not shared by MPS yet. Clients are not waited for: they may take days."""
    late = [
        f"{device}: {one['problem']}"
        for device, one in sorted(status.get("mps", {}).items())
        if one["problem"] and not one["waits_for_clients"]
    ]
    return f"MPS is not ready: {'; '.join(late)}" if late else ""


def plan(observed: Observed, desired: Desired, prefix: str) -> Plan:
    """Return the plan."""
    if desired.state == "absent":
        return _absent(observed, prefix)
    if desired.state == "stopped":
        return _stopped(observed)
    steps: t.List[Step] = []
    fresh = observed.current != desired.digest or not observed.usable
    if fresh:
        steps += _environment(observed, desired, prefix)
    if desired.state == "installed":
        return Plan(
            tuple(steps), _describe(observed), {**_describe(observed), "release": desired.digest}
        )
    if observed.config != desired.config:
        steps.append(Step("config", "write /etc/gpu-node/config.yaml, checked by the daemon first"))
    if observed.unit != desired.unit:
        steps.append(Step("unit", f"write /etc/systemd/system/{UNIT}"))
    if observed.mps_unit != desired.mps_unit:
        steps.append(Step("mps_unit", f"write /etc/systemd/system/{mps_units.UNIT}"))
    if observed.service.get("UnitFileState") != "enabled":
        steps.append(Step("enable", f"enable {UNIT}"))
    reasons = _restart_reasons(observed, desired, changed=bool(steps))
    if reasons:
        verb = "restart" if observed.active else "start"
        words = f"{verb} {UNIT}: {reasons}"
        steps.append(Step("restart", words, needs=(f"restart:{UNIT}",) if observed.active else ()))
    elif serving(observed):
        steps.append(Step("wait", f"wait: {serving(observed)}"))
    after = {
        "release": desired.digest,
        "config": desired.config,
        "unit": desired.unit,
        "service": "active",
        "mps": [one.device for one in observed.mps],
    }
    return Plan(tuple(steps), _describe(observed), after)


def _environment(observed: Observed, desired: Desired, prefix: str) -> t.List[Step]:
    if not observed.python:
        raise NodeError(
            "no Python from 3.10 to 3.14 on the node",
            hint="install one, or name it in the option python",
        )
    steps = []
    if not observed.ensurepip:
        if not observed.apt:
            raise NodeError(
                f"{observed.python} cannot make virtual environments: its module ensurepip is missing",
                hint="install the distribution's package for it",
            )
        steps.append(Step("venv_package", "install the package python3-venv"))
    words = (
        f"install the daemon's environment as {prefix}/releases/{desired.digest} and switch to it"
    )
    return [*steps, Step("release", words)]


def _restart_reasons(observed: Observed, desired: Desired, *, changed: bool) -> str:
    if not observed.active:
        return "it is not running"
    if changed:
        return "what it runs on changes"
    if observed.running != desired.digest:
        return "it runs from another release"
    if observed.status and observed.status.get("config_sha256") != observed.config_digest:
        return "it runs on another configuration"
    return ""


def _stopped(observed: Observed) -> Plan:
    """Stop the service and keep everything, for work on what it uses."""
    before = _describe(observed)
    off = not observed.active and observed.service.get("UnitFileState") != "enabled"
    steps = mps_units.end(observed.mps)
    if not off and observed.unit is not None:
        steps.insert(0, Step("stop", f"stop and disable {UNIT}"))
    if not steps:
        return Plan((), before, before)
    return Plan(tuple(steps), before, {**before, "service": "inactive", "mps": []})


def _absent(observed: Observed, prefix: str) -> Plan:
    steps = []
    if observed.unit is not None:
        steps.append(Step("remove_service", f"stop, disable and remove {UNIT}"))
    steps += mps_units.end(observed.mps)
    if observed.mps_unit is not None:
        steps.append(Step("remove_mps_unit", f"remove {mps_units.UNIT}"))
    if observed.config is not None:
        steps.append(Step("remove_config", "remove /etc/gpu-node/config.yaml"))
    if observed.current or observed.releases:
        steps.append(Step("remove_releases", f"remove {prefix}"))
    return Plan(
        tuple(steps),
        _describe(observed),
        {"release": None, "config": None, "unit": None, "service": "absent", "mps": []},
    )


def _describe(observed: Observed) -> t.Dict[str, t.Any]:
    return {
        "release": observed.current or None,
        "config": observed.config,
        "unit": observed.unit,
        "service": observed.service.get("ActiveState", "unknown") if observed.unit else "absent",
        "mps": [one.device for one in observed.mps],
    }
