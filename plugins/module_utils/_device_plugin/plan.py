# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan for the device plugin and node labels: the steps from a node's state to the desired one."""

from __future__ import annotations

import typing as t

from .._base.dra.names import UNIT as DRA_UNIT
from .._base.errors import NodeError
from .._base.services import mps as mps_units
from .._base.steps import Plan, Step
from .._node.users import handover
from .._node.users.busy import refuse_if_busy
from . import held, instance_lock, registration
from .python import steps as python_steps
from .state import (
    CONFIG,
    CONFIGS,
    DRA_SETTINGS,
    SETTINGS,
    UNITS,
    DesiredPlugin,
    PluginFiles,
    PluginState,
    PythonState,
    ReleaseState,
    Service,
    env_variables,
)

UNIT = "gpu-device-plugin.service"
LABELS_UNIT = "gpu-node-labels.service"
OUTPUT, DIGEST = "GPU_LABELS_OUTPUT", "GPU_LABELS_SETTINGS"
CHANGES = "what it runs on changes"


def serving(state: PluginState) -> str:
    """Return why the daemon does not serve its devices, empty if it does."""
    status, served = state.serving.status, state.serving
    if not state.services.daemon.active:
        return "the device plugin is not running"
    if not status:
        return "the device plugin has not reported its state yet"
    if status.get("config_sha256") != state.files.config_digest:
        refused = status.get("config_problem")
        cause = f", since it refuses the one on disk: {refused}" if refused else ""
        return f"the device plugin runs on another configuration{cause}"
    if status.get("state") != "serving":
        return f"the device plugin's state is {status.get('state')}: {status.get('problem') or 'no reason given'}"
    listed = frozenset([*status.get("gpu_uuids", ()), *status.get("mig_uuids", ())])
    if served.devices is not None and listed != served.devices:
        return "the device plugin has not noticed a change of the GPUs yet"
    late = registration.unregistered(status)
    if served.kubelet and late:
        problem = status.get("registration_problem")
        cause = f" ({problem})" if problem else ""
        return f"the kubelet has not accepted {', '.join(late)}{cause}"
    question = held.open_question(status) if served.kubelet else ""
    shared = [
        f"{device}: {row['problem']}"
        for device, row in sorted(status.get("mps", {}).items())
        if row["problem"] and not row["waits_for_clients"]  # clients may take days
    ]
    return question or (f"MPS is not ready: {'; '.join(shared)}" if shared else "")


def plan(state: PluginState, desired: DesiredPlugin, prefix: str) -> Plan:
    """Return the plan: release, configurations, the daemon, and then labels, which need it."""
    served, texts = state.serving, state.files.texts
    if desired.state == "absent":
        steps = _absent(state, prefix)
    elif desired.state == "stopped":
        # The services are stopped and all files stay, for work on the GPUs.
        services = state.services
        units = {LABELS_UNIT: services.labels, DRA_UNIT: services.dra, UNIT: services.daemon}
        steps = [
            Step("stop", f"stop and disable {unit}", {"unit": unit})
            for unit, service in units.items()
            if f"{UNITS}/{unit}" in texts and (service.active or service.enabled)
        ]
        steps += mps_units.end(served.mps)
    else:
        steps = _release(state.release, state.python, desired, prefix)
        if desired.state == "started":
            steps = _started(state, desired, steps)
    service = state.services.daemon.properties.get("ActiveState", "unknown")
    before = {
        "release": state.release.current or None,
        "files": dict(texts),
        "service": service if f"{UNITS}/{UNIT}" in texts else "absent",
        "mps": [daemon.device for daemon in served.mps],
    }
    warnings: t.Tuple[str, ...] = ()
    if desired.state == "started" and not steps:
        cause = registration.missing(served.status, listens=served.kubelet)
        unregistered = [registration.warning(cause)] if cause else []
        warnings = (*unregistered, *held.warnings(served.status))
    removal = state.python.removal
    if removal and removal.needed:
        users = ", ".join(removal.users) or "others"
        warnings = (f"{', '.join(removal.needed)} stays, as {users} needs it",)
    return Plan(tuple(steps), before, _after(before, steps, desired), warnings=warnings)


def _after(
    before: t.Mapping[str, t.Any], steps: t.Sequence[Step], desired: DesiredPlugin
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


def _release(
    release: ReleaseState, python: PythonState, desired: DesiredPlugin, prefix: str
) -> t.List[Step]:
    path = f"{prefix}/releases/{desired.digest}"
    summary = f"install the device plugin's environment as {path} and switch to it"
    if release.current == desired.digest:
        if not release.damage:
            summary = f"link {prefix}/bin and the command gpu-plugin to {path}"
            return [] if release.linked else [Step("links", summary)]
        summary = f"make the device plugin's environment {path} again: {release.damage}"
    steps: t.List[Step] = []
    if not python.program:
        steps += python_steps(python.missing, desired.python, install=desired.install_python)
    elif not python.ensurepip:
        if not python.apt:
            problem = "cannot make virtual environments: its module ensurepip is missing"
            hint = "install the distribution's package for it"
            raise NodeError(f"{python.program} {problem}", hint=hint)
        steps.append(Step("venv_package", "install the package python3-venv"))
    return [*steps, Step("release", summary)]


def _started(state: PluginState, desired: DesiredPlugin, release: t.List[Step]) -> t.List[Step]:
    services, served, files = state.services, state.serving, state.files
    handover.refuse(desired.owners.allocation, state.dra.held)
    if served.pod:
        raise instance_lock.refusal(served.pod, pod=False)
    configs, status, cause = _configs(files, desired), served.status, ""
    made = any(step.action == "release" for step in release)
    if made or any(step.params["path"] == desired.config_file for step in configs):
        cause = CHANGES
    elif status and status.get("config_sha256") != files.config_digest:
        cause = "it runs on another configuration"
    manager = _manager(services.manager, files, desired)
    daemon = _service(UNIT, services.daemon, desired, _write(_unit(desired, UNIT), files), cause)
    if not any(step.action == "restart" for step in daemon):
        late = serving(state)
        if late or any(step.action == "link" for step in configs):
            summary = f": {late}" if late else " until the device plugin follows its configuration"
            daemon.append(Step("wait", f"wait{summary}"))
    labels = _labels(services.labels, files, desired, released=made)
    dra = _dra(state, desired, cause)
    changes = [*configs, *manager, *daemon, *dra, *labels]
    pause = []
    manages_labels = desired.labels is not None and services.labels.active
    if manages_labels and desired.config_file == CONFIG and files.link is not None:
        summary = f"stop {LABELS_UNIT}, which would choose once more"
        pause.append(Step("pause", summary, {"unit": LABELS_UNIT}))
    # The DRA driver ends before the device plugin gets its GPUs: no GPU is ever allocated by both.
    handed_over: t.List[Step] = []
    if not desired.owners.dra:
        handed_over = _remove_service(files, DRA_UNIT) + _remove_file(files, DRA_SETTINGS)
    elif state.dra.moves and services.dra.active:
        summary = f"stop {DRA_UNIT} while GPUs change their owner"
        handed_over = [Step("pause", summary, {"unit": DRA_UNIT})]
    steps = [*pause, *release, *handed_over, *changes]
    # All other steps come before the wait for a kubelet.
    alone = bool(registration.missing(status, listens=served.kubelet))
    if desired.require_kubelet and (daemon or alone):
        steps.append(Step("registration", "wait until a kubelet has registered the GPUs"))
    return steps


def _dra(state: PluginState, desired: DesiredPlugin, cause: str) -> t.List[Step]:
    """Return the steps that start the DRA driver, after the device plugin has stopped allocating its GPUs."""
    if not desired.owners.dra:
        return []
    files, service = state.files, state.services.dra
    if state.dra.moves and service.active:
        cause = CHANGES
    settings = {DRA_SETTINGS: desired.dra_settings} if desired.dra_settings else {}
    changes = _write({**settings, **_unit(desired, DRA_UNIT)}, files)
    changes += [] if settings else _remove_file(files, DRA_SETTINGS)
    steps = _service(DRA_UNIT, service, desired, changes, cause)
    if state.dra.late and not steps:
        steps.append(Step("wait_dra", f"wait for {DRA_UNIT}: {state.dra.late}"))
    return steps


def _manager(manager: Service, files: PluginFiles, desired: DesiredPlugin) -> t.List[Step]:
    """Return the steps that update the manager of MPS daemons, which run on meanwhile with their clients.

    If no manager runs, the device plugin starts it as soon as a device is shared.
    """
    steps, unit = _write(_unit(desired, mps_units.UNIT), files), mps_units.UNIT
    if manager.active and (steps or manager.release != desired.digest):
        cause = CHANGES if steps else "it runs from another release"
        steps.append(Step("restart", f"restart {unit}: {cause}", {"unit": unit}))
    return steps


def _configs(files: PluginFiles, desired: DesiredPlugin) -> t.List[Step]:
    steps = _write(desired.configs, files, "config", ", checked by the device plugin first")
    default = desired.config_file
    if default != CONFIG and files.link not in desired.configs:
        summary = f"let {CONFIG} lead to {default}, until the node's label is read"
        steps.append(Step("link", summary, {"target": default, "path": CONFIG}))
    present = sorted(path for path in files.texts if path.startswith(f"{CONFIGS}/"))
    return steps + [_remove(path) for path in present if path not in desired.configs]


def _labels(
    service: Service, files: PluginFiles, desired: DesiredPlugin, *, released: bool
) -> t.List[Step]:
    if desired.labels is None:
        return []
    if not desired.labels:
        return _unlabel(files)
    old, cause = files.texts.get(SETTINGS), CHANGES if released else ""
    before, settings = env_variables(old), env_variables(desired.labels)
    if not cause and service.environment.get(DIGEST) != settings[DIGEST]:
        cause = "it runs on other settings"
    steps = []
    if before.get(OUTPUT, "") not in ("", settings[OUTPUT]):
        summary = "remove the labels of the earlier output"
        steps.append(Step("unlabel", summary, {"settings": old}))
    changes = _write({SETTINGS: desired.labels, **_unit(desired, LABELS_UNIT)}, files)
    return steps + _service(LABELS_UNIT, service, desired, changes, cause)


def _unit(desired: DesiredPlugin, name: str) -> t.Dict[str, str]:
    return {f"{UNITS}/{name}": desired.units.get(name, "")}


def _write(
    texts: t.Mapping[str, str], files: PluginFiles, action: str = "file", note: str = ""
) -> t.List[Step]:
    return [
        Step(action, f"write {path}{note}", {"path": path, "text": text})
        for path, text in texts.items()
        if files.texts.get(path) != text
    ]


def _service(
    unit: str, service: Service, desired: DesiredPlugin, files: t.Sequence[Step], cause: str
) -> t.List[Step]:
    """Return the steps that write a service's files, and restart it; with a ``cause`` in any case."""
    steps = list(files)
    if not service.enabled:
        steps.append(Step("enable", f"enable {unit}", {"unit": unit}))
    if not service.active:
        summary = f"start {unit}: it is not running"
        return [*steps, Step("restart", summary, {"unit": unit})]
    if files:
        cause = CHANGES
    elif service.unread and cause != CHANGES:
        cause = "systemd has read other files of the unit than there are"
    elif service.release != desired.digest and cause != CHANGES:
        cause = "it runs from another release"
    if cause:
        needs = (f"restart:{unit}",)
        steps.append(Step("restart", f"restart {unit}: {cause}", {"unit": unit}, needs))
    return steps


def _absent(state: PluginState, prefix: str) -> t.List[Step]:
    refuse_if_busy("the DRA driver can't be removed while pods have its devices", state.dra.held)
    files, release, removal = state.files, state.release, state.python.removal
    steps = _unlabel(files) + _remove_service(files, DRA_UNIT)
    steps += _remove_service(files, UNIT) + mps_units.end(state.serving.mps)
    planned = {step.params.get("path") for step in steps}
    steps += [_remove(path) for path in sorted(files.texts) if path not in planned]
    if files.link is not None:
        steps.append(_remove(CONFIG))
    if release.current or release.releases:
        target = f"what the collection has made in {prefix}" if release.beside else prefix
        steps.append(Step("clear", f"remove {target}", {"path": prefix}))
    if removal is not None:  # of packages that were installed for environments
        names = ", ".join(removal.packages)
        summary = f"remove {names}" if names else "forget the packages that were installed"
        steps.append(Step("purge", summary, {"packages": removal.packages}))
    return steps


def _unlabel(files: PluginFiles) -> t.List[Step]:
    """Return the steps that remove the node's labels, and the service that keeps them."""
    service = _remove_service(files, LABELS_UNIT)
    if SETTINGS not in files.texts:
        return service
    params = {"settings": files.texts[SETTINGS]}
    return [Step("unlabel", "remove the node's labels", params), *service, _remove(SETTINGS)]


def _remove_service(files: PluginFiles, unit: str) -> t.List[Step]:
    path = f"{UNITS}/{unit}"
    step = Step("remove_service", f"stop, disable and remove {unit}", {"unit": unit, "path": path})
    return [step] if path in files.texts else []


def _remove_file(files: PluginFiles, path: str) -> t.List[Step]:
    return [_remove(path)] if path in files.texts else []


def _remove(path: str) -> Step:
    return Step("remove", f"remove {path}", {"path": path})
