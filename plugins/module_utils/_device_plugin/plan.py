# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The deployment of the device plugin and of node labels: what is there, and the steps to what is wanted."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.dra.names import UNIT as DRA_UNIT
from .._base.errors import NodeError
from .._base.packages.package import Removal
from .._base.services import mps as mps_units
from .._base.steps import Plan, Step
from .._node.users import handover
from .._node.users.busy import refuse_if_busy
from . import held, instance_lock, registration
from .python import NOTHING, Missing
from .python import steps as python_steps
from .state import CONFIG, CONFIGS, DRA_SETTINGS, SETTINGS, UNITS, Desired, env_variables

UNIT = "gpu-device-plugin.service"
LABELS_UNIT = "gpu-node-labels.service"
OUTPUT, DIGEST = "GPU_LABELS_OUTPUT", "GPU_LABELS_SETTINGS"
CHANGES = "what it runs on changes"


@dataclasses.dataclass(frozen=True)
class Service:
    """A service: its properties in systemd, and the variables that its process was started with."""

    properties: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    environment: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Tell whether it runs."""
        return self.properties.get("ActiveState") == "active"

    @property
    def enabled(self) -> bool:
        """Tell whether it starts at boot."""
        return self.properties.get("UnitFileState") == "enabled"

    @property
    def unread(self) -> bool:
        """Tell whether its unit's files are others than systemd has read."""
        return self.properties.get("NeedDaemonReload") == "yes"

    @property
    def release(self) -> str:
        """The release that its process was started from."""
        return self.environment.get("GPU_NODE_RELEASE", "")


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the node has. ``files`` are units, configurations and the labels' settings, texts by path.

    ``link`` is where the daemon's configuration leads to, if it is a link. ``removal`` is there when packages were
    installed for environments and are to go. ``dra_late`` is why the DRA driver does not serve, where it
    runs; ``moves`` tells that GPUs change their owner, device plugin or DRA;
    ``held`` is who has one that has to go to another, or where all goes, has one of DRA.
    ``pod`` is a device plugin of the DaemonSet's that serves the node. ``damage`` is what is wrong with the
    environment, and ``linked`` tells that the ways to it are there. ``beside`` are names in the prefix that the
    collection has not made.
    """

    python: str
    ensurepip: bool
    apt: bool
    current: str
    releases: t.Tuple[str, ...]
    damage: str
    files: t.Mapping[str, str]
    link: t.Optional[str]
    daemon: Service
    labels: Service
    status: t.Mapping[str, t.Any]
    config_digest: str
    kubelet: bool
    devices: t.Optional[t.FrozenSet[str]]
    manager: Service = dataclasses.field(default_factory=Service)
    mps: t.Tuple[mps_units.Daemon, ...] = ()
    dra: Service = dataclasses.field(default_factory=Service)
    dra_late: str = ""
    moves: bool = False
    held: t.Tuple[str, ...] = ()
    missing: Missing = NOTHING
    removal: t.Optional[Removal] = None
    pod: str = ""
    linked: bool = True
    beside: t.Tuple[str, ...] = ()


def serving(observed: Observed) -> str:
    """Return why the daemon does not serve what it should, an empty text where it does."""
    status = observed.status
    if not observed.daemon.active:
        return "the device plugin is not running"
    if not status:
        return "the device plugin has not reported its state yet"
    if status.get("config_sha256") != observed.config_digest:
        refused = status.get("config_problem")
        why = f", since it refuses the one on disk: {refused}" if refused else ""
        return f"the device plugin runs on another configuration{why}"
    if status.get("state") != "serving":
        return f"the device plugin's state is {status.get('state')}: {status.get('problem') or 'no reason given'}"
    listed = frozenset([*status.get("gpu_uuids", ()), *status.get("mig_uuids", ())])
    if observed.devices is not None and listed != observed.devices:
        return "the device plugin has not noticed a change of the GPUs yet"
    late = registration.unregistered(status)
    if observed.kubelet and late:
        problem = status.get("registration_problem")
        why = f" ({problem})" if problem else ""
        return f"the kubelet has not accepted {', '.join(late)}{why}"
    asked = held.open_question(status) if observed.kubelet else ""
    shared = [
        f"{device}: {one['problem']}"
        for device, one in sorted(status.get("mps", {}).items())
        if one["problem"]
        and not one["waits_for_clients"]  # for whom nobody waits: they may take days
    ]
    return asked or (f"MPS is not ready: {'; '.join(shared)}" if shared else "")


def plan(observed: Observed, desired: Desired, prefix: str) -> Plan:
    """Return the plan: release, configurations, the daemon, and then labels, which need it."""
    if desired.state == "absent":
        steps = _absent(observed, prefix)
    elif desired.state == "stopped":
        steps = _stopped(observed)
    else:
        steps = _release(observed, desired, prefix)
        if desired.state == "started":
            steps = _started(observed, desired, steps)
    service = observed.daemon.properties.get("ActiveState", "unknown")
    before = {
        "release": observed.current or None,
        "files": dict(observed.files),
        "service": service if f"{UNITS}/{UNIT}" in observed.files else "absent",
        "mps": [one.device for one in observed.mps],
    }
    warnings: t.Tuple[str, ...] = ()
    if desired.state == "started" and not steps:
        cause = registration.missing(observed.status, listens=observed.kubelet)
        told = [registration.warning(cause)] if cause else []
        warnings = (*told, *held.warnings(observed.status))
    if observed.removal and observed.removal.needed:
        users = ", ".join(observed.removal.users) or "others"
        warnings = (f"{', '.join(observed.removal.needed)} stays, as {users} needs it",)
    return Plan(tuple(steps), before, _after(before, steps, desired), warnings=warnings)


def _after(
    before: t.Mapping[str, t.Any], steps: t.Sequence[Step], desired: Desired
) -> t.Dict[str, t.Any]:
    files = dict(before["files"])
    for step in steps:
        if step.action in ("config", "file"):
            files[step.params["path"]] = step.params["text"]
        elif step.action in ("remove", "remove_service"):
            files.pop(step.params["path"], None)
    service = {"started": "active", "stopped": "inactive", "absent": "absent"}
    return {
        "release": None if desired.state == "absent" else desired.digest or before["release"],
        "files": files,
        "service": service.get(desired.state, before["service"]),
        "mps": before["mps"] if desired.digest else [],
    }


def _release(observed: Observed, desired: Desired, prefix: str) -> t.List[Step]:
    path = f"{prefix}/releases/{desired.digest}"
    summary = f"install the device plugin's environment as {path} and switch to it"
    if observed.current == desired.digest and not observed.damage:
        summary = f"link {prefix}/bin and the command gpu-plugin to {path}"
        return [] if observed.linked else [Step("links", summary)]
    if observed.current == desired.digest:
        summary = f"make the device plugin's environment {path} again: {observed.damage}"
    steps: t.List[Step] = []
    if not observed.python:
        steps += python_steps(observed.missing, desired.python, install=desired.install_python)
    elif not observed.ensurepip:
        if not observed.apt:
            what = "cannot make virtual environments: its module ensurepip is missing"
            hint = "install the distribution's package for it"
            raise NodeError(f"{observed.python} {what}", hint=hint)
        steps.append(Step("venv_package", "install the package python3-venv"))
    return [*steps, Step("release", summary)]


def _started(observed: Observed, desired: Desired, release: t.List[Step]) -> t.List[Step]:
    handover.refuse(desired.owners.allocation, observed.held)
    if observed.pod:
        raise instance_lock.refusal(observed.pod, pod=False)
    configs, status, why = _configs(observed, desired), observed.status, ""
    made = any(step.action == "release" for step in release)
    if made or any(step.params["path"] == desired.config_file for step in configs):
        why = CHANGES
    elif status and status.get("config_sha256") != observed.config_digest:
        why = "it runs on another configuration"
    manager = _manager(observed, desired)
    files = _write(_unit(desired, UNIT), observed)
    daemon = _service(UNIT, observed.daemon, desired, files, why)
    if not any(step.action == "restart" for step in daemon):
        late = serving(observed)
        if late or any(step.action == "link" for step in configs):
            summary = f": {late}" if late else " until the device plugin follows its configuration"
            daemon.append(Step("wait", f"wait{summary}"))
    labels = _labels(observed, desired, released=made)
    dra = _dra(observed, desired, why)
    changes = [*configs, *manager, *daemon, *dra, *labels]
    steps = [*_pause(observed, desired), *release, *_make_way(observed, desired), *changes]
    # What needs no kubelet is done before one is waited for.
    alone = bool(registration.missing(observed.status, listens=observed.kubelet))
    if desired.require_kubelet and (daemon or alone):
        steps.append(Step("registration", "wait until a kubelet has registered the GPUs"))
    return steps


def _make_way(observed: Observed, desired: Desired) -> t.List[Step]:
    """Return what ends the DRA driver before the device plugin gets GPUs of it: no GPU is ever given out by both."""
    if not desired.owners.dra:
        return _remove_service(observed, DRA_UNIT) + _remove_file(observed, DRA_SETTINGS)
    if not (observed.moves and observed.dra.active):
        return []
    return [Step("pause", f"stop {DRA_UNIT} while GPUs change their owner", {"unit": DRA_UNIT})]


def _dra(observed: Observed, desired: Desired, why: str) -> t.List[Step]:
    """Return what brings the DRA driver up, once the device plugin gives out no GPU of it any more."""
    if not desired.owners.dra:
        return []
    if observed.moves and observed.dra.active:
        why = CHANGES
    settings = {DRA_SETTINGS: desired.dra_settings} if desired.dra_settings else {}
    files = _write({**settings, **_unit(desired, DRA_UNIT)}, observed)
    files += [] if settings else _remove_file(observed, DRA_SETTINGS)
    steps = _service(DRA_UNIT, observed.dra, desired, files, why)
    if observed.dra_late and not steps:
        steps.append(Step("wait_dra", f"wait for {DRA_UNIT}: {observed.dra_late}"))
    return steps


def _manager(observed: Observed, desired: Desired) -> t.List[Step]:
    """Return what brings the manager of MPS daemons up to date. They and their clients run on meanwhile.

    Where none runs the device plugin starts it as soon as there is something to share.
    """
    steps, unit = _write(_unit(desired, mps_units.UNIT), observed), mps_units.UNIT
    if observed.manager.active and (steps or observed.manager.release != desired.digest):
        why = CHANGES if steps else "it runs from another release"
        steps.append(Step("restart", f"restart {unit}: {why}", {"unit": unit}))
    return steps


def _configs(observed: Observed, desired: Desired) -> t.List[Step]:
    steps = _write(desired.configs, observed, "config", ", checked by the device plugin first")
    default = desired.config_file
    if default != CONFIG and observed.link not in desired.configs:
        summary = f"let {CONFIG} lead to {default}, until the node's label is read"
        steps.append(Step("link", summary, {"target": default, "path": CONFIG}))
    there = sorted(path for path in observed.files if path.startswith(f"{CONFIGS}/"))
    return steps + [_remove(path) for path in there if path not in desired.configs]


def _pause(observed: Observed, desired: Desired) -> t.List[Step]:
    chooses = observed.labels.active and observed.link is not None
    if desired.labels is None or desired.config_file != CONFIG or not chooses:
        return []
    words = f"stop {LABELS_UNIT}, which would choose once more"
    return [Step("pause", words, {"unit": LABELS_UNIT})]


def _labels(observed: Observed, desired: Desired, *, released: bool) -> t.List[Step]:
    if desired.labels is None:
        return []
    if not desired.labels:
        return _unlabel(observed)
    old, why = observed.files.get(SETTINGS), CHANGES if released else ""
    before, settings = env_variables(old), env_variables(desired.labels)
    if not why and observed.labels.environment.get(DIGEST) != settings[DIGEST]:
        why = "it runs on other settings"
    steps = []
    if before.get(OUTPUT, "") not in ("", settings[OUTPUT]):
        summary = "remove the labels of the earlier output"
        steps.append(Step("unlabel", summary, {"settings": old}))
    files = _write({SETTINGS: desired.labels, **_unit(desired, LABELS_UNIT)}, observed)
    return steps + _service(LABELS_UNIT, observed.labels, desired, files, why)


def _unit(desired: Desired, name: str) -> t.Dict[str, str]:
    return {f"{UNITS}/{name}": desired.units.get(name, "")}


def _write(
    files: t.Mapping[str, str], observed: Observed, action: str = "file", note: str = ""
) -> t.List[Step]:
    new = {path: text for path, text in files.items() if observed.files.get(path) != text}
    return [
        Step(action, f"write {at}{note}", {"path": at, "text": text}) for at, text in new.items()
    ]


def _service(
    unit: str, service: Service, desired: Desired, files: t.Sequence[Step], why: str
) -> t.List[Step]:
    """Return what writes a service's files, and restarts it; ``why`` where that is due in any case."""
    steps = list(files)
    if not service.enabled:
        steps.append(Step("enable", f"enable {unit}", {"unit": unit}))
    if not service.active:
        summary = f"start {unit}: it is not running"
        return [*steps, Step("restart", summary, {"unit": unit})]
    if files:
        why = CHANGES
    elif service.unread and why != CHANGES:
        why = "systemd has read other files of the unit than there are"
    elif service.release != desired.digest and why != CHANGES:
        why = "it runs from another release"
    if why:
        needs = (f"restart:{unit}",)
        steps.append(Step("restart", f"restart {unit}: {why}", {"unit": unit}, needs))
    return steps


def _stopped(observed: Observed) -> t.List[Step]:
    """Stop the services and keep everything, for work on what they use."""
    services = {LABELS_UNIT: observed.labels, DRA_UNIT: observed.dra, UNIT: observed.daemon}
    there = {unit: one for unit, one in services.items() if f"{UNITS}/{unit}" in observed.files}
    units = [unit for unit, one in there.items() if one.active or one.enabled]
    steps = [Step("stop", f"stop and disable {unit}", {"unit": unit}) for unit in units]
    return steps + mps_units.end(observed.mps)


def _absent(observed: Observed, prefix: str) -> t.List[Step]:
    refuse_if_busy("the DRA driver can't be removed while pods have its devices", observed.held)
    steps = _unlabel(observed) + _remove_service(observed, DRA_UNIT)
    steps += _remove_service(observed, UNIT) + mps_units.end(observed.mps)
    planned = {step.params.get("path") for step in steps}
    paths = [path for path in sorted(observed.files) if path not in planned]
    if observed.link is not None:
        paths.append(CONFIG)
    if observed.current or observed.releases:
        paths.append(prefix)
    steps += [_remove(path) for path in paths if path != prefix]
    if prefix in paths:
        what = f"what the collection has made in {prefix}" if observed.beside else prefix
        steps.append(Step("clear", f"remove {what}", {"path": prefix}))
    if observed.removal is not None:  # of packages that were installed for environments
        names = observed.removal.packages
        some = f"remove {', '.join(names)}" if names else "forget the packages that were installed"
        steps.append(Step("purge", some, {"packages": names}))
    return steps


def _unlabel(observed: Observed) -> t.List[Step]:
    """Remove the node's labels, and the service that keeps them."""
    service = _remove_service(observed, LABELS_UNIT)
    if SETTINGS not in observed.files:
        return service
    params = {"settings": observed.files[SETTINGS]}
    return [Step("unlabel", "remove the node's labels", params), *service, _remove(SETTINGS)]


def _remove_service(observed: Observed, unit: str) -> t.List[Step]:
    path = f"{UNITS}/{unit}"
    summary = f"stop, disable and remove {unit}"
    there = path in observed.files
    return [Step("remove_service", summary, {"unit": unit, "path": path})] if there else []


def _remove_file(observed: Observed, path: str) -> t.List[Step]:
    return [_remove(path)] if path in observed.files else []


def _remove(path: str) -> Step:
    return Step("remove", f"remove {path}", {"path": path})
