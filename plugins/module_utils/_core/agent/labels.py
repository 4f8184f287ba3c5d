# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The deployment of node labels and of the configurations that a label chooses from."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import typing as t

from ..errors import InputError, NodeError
from ..steps import Plan, Step

UNIT = "gpu-node-labels.service"
CONFIG = "/etc/gpu-node/config.yaml"
CONFIGS = "/etc/gpu-node/configs"
SETTINGS = "/etc/gpu-node/labels.env"
DEFAULT = "default"
OFF = "off"
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
HEADER = "# Written by gpu.node.device_plugin: change the playbook's variables instead.\n"


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants. ``settings`` empty: no labels; ``configs`` are texts by name.

    ``managed`` tells whether labels were spoken of at all; if not they stay as they are.
    """

    state: str
    managed: bool
    settings: str
    unit: str
    digest: str
    configs: t.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the node has. ``link`` is where the daemon's configuration leads to, if it is a link.

    ``running`` and ``applied`` are the release and the settings that the process was started with.
    """

    settings: t.Optional[str]
    unit: t.Optional[str]
    service: t.Mapping[str, str]
    running: str
    applied: str
    configs: t.Mapping[str, str]
    link: t.Optional[str]

    @property
    def active(self) -> bool:
        """Tell whether the service runs."""
        return self.service.get("ActiveState") == "active"


def check_configs(configs: t.Mapping[str, t.Any], managed: bool) -> None:
    """Check the names and shapes of configurations. InputError."""
    for name, config in configs.items():
        if not NAME.fullmatch(name):
            expected = "a name that can be a label's value, such as training"
            raise InputError.of(f"configs: {name}", name, expected)
        if not isinstance(config, dict):
            raise InputError.of(f"configs: {name}", config, "a configuration, as in config")
    if configs and not managed:
        raise NodeError(
            "configs: nothing would choose one of them",
            cause="the option labels is missing, and the process that labels the node chooses",
            hint="give labels as well; its output may be off",
        )


def settings(labels: t.Mapping[str, t.Any], *, choosing: bool) -> str:
    """Return the settings' text, an empty one where there is nothing to run. InputError."""
    if labels["output"] == OFF and not choosing:
        return ""
    extra = ",".join(f"{key}={text}" for key, text in sorted((labels["extra"] or {}).items()))
    named = {
        "GPU_LABELS_WAY": labels["output"],
        "GPU_LABELS_EXTRA": extra,
        "KUBECONFIG": labels["kubeconfig"],
        "NODE_NAME": labels["node_name"],
        "NAMESPACE": labels["namespace"],
        "CONFIG_FILE_SRCDIR": CONFIGS if choosing else "",
        "CONFIG_FILE_DST": CONFIG if choosing else "",
        "DEFAULT_CONFIG": labels["default_config"] if choosing else "",
    }
    lines = [f"{name}={_quoted(name, text)}\n" for name, text in named.items() if text]
    body = "".join(lines)
    return f"{HEADER}{body}GPU_LABELS_SETTINGS={hashlib.sha256(body.encode()).hexdigest()[:12]}\n"


def environment(text: str) -> t.Dict[str, str]:
    """Return the variables of a settings' text."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    return {
        name: re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] == '"' else value
        for name, value in pairs
    }


def _quoted(name: str, text: str) -> str:
    if any(ord(char) < 32 for char in text):
        raise InputError.of(f"labels: {name}", text, "a text of one line")
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def compose(main: Plan, observed: Observed, desired: Desired) -> Plan:
    """Return the daemon's plan with the steps for labels and configurations at their places."""
    if desired.state == "started":
        return _started(main, observed, desired)
    first = {"absent": _absent, "stopped": _stopped}.get(desired.state)
    steps = first(observed) if first is not None else []
    return dataclasses.replace(main, steps=(*steps, *main.steps))


def _started(main: Plan, observed: Observed, desired: Desired) -> Plan:
    before = {"unit", "enable", "restart", "wait"}
    at = next((n for n, one in enumerate(main.steps) if one.action in before), len(main.steps))
    files = _config_steps(observed, desired)
    switched = any(step.action in ("labels_link", "labels_unlink") for step in files)
    steps = [_named(step, desired) for step in (*main.steps[:at], *files, *main.steps[at:])]
    if desired.managed and observed.active and observed.link is not None and not desired.configs:
        steps.insert(0, Step("labels_pause", f"stop {UNIT}, which would choose once more"))
    if switched and not {"restart", "wait"} & {step.action for step in main.steps}:
        steps.append(Step("wait", "wait until the daemon follows its configuration"))
    if desired.managed and desired.settings:
        steps += _service_steps(observed, desired, fresh=_is_fresh(main))
    elif desired.managed:
        steps += _removal(observed)
    return dataclasses.replace(
        main,
        steps=tuple(steps),
        before=_with(main.before, observed.settings, observed.configs),
        after=_with(main.after, desired.settings or None, desired.configs),
    )


def _named(step: Step, desired: Desired) -> Step:
    """Name the file that the step config writes, where it is one of several."""
    if step.action == "config" and desired.configs:
        return dataclasses.replace(
            step, summary=step.summary.replace(CONFIG, f"{CONFIGS}/{DEFAULT}")
        )
    return step


def _is_fresh(main: Plan) -> bool:
    return any(step.action == "release" for step in main.steps)


def _with(
    shown: t.Any, labels: t.Optional[str], configs: t.Mapping[str, str]
) -> t.Dict[str, t.Any]:
    return {**(shown or {}), "labels": labels, "configs": dict(configs)}


def _config_steps(observed: Observed, desired: Desired) -> t.List[Step]:
    steps = []
    for name, text in sorted(desired.configs.items()):
        if name != DEFAULT and observed.configs.get(name) != text:
            words = f"write {CONFIGS}/{name}, checked by the daemon first"
            steps.append(Step("labels_config", words, {"name": name, "text": text}))
    if desired.configs:
        good = {f"{CONFIGS}/{name}" for name in desired.configs}
        if observed.link not in good:
            words = f"let {CONFIG} lead to {CONFIGS}/{DEFAULT}, until the node's label is read"
            steps.append(Step("labels_link", words))
    elif observed.link is not None:
        words = f"make {CONFIG} a file of its own again"
        steps.append(Step("labels_unlink", words))
    for name in sorted(set(observed.configs) - set(desired.configs)):
        steps.append(Step("labels_forget", f"remove {CONFIGS}/{name}", {"name": name}))
    return steps


def _service_steps(observed: Observed, desired: Desired, *, fresh: bool) -> t.List[Step]:
    steps = []
    if _way(observed.settings) not in ("", _way(desired.settings)):
        params = {"text": observed.settings}
        steps.append(Step("labels_take_back", "remove the labels of the earlier output", params))
    if observed.settings != desired.settings:
        words = f"write {SETTINGS}"
        steps.append(Step("labels_settings", words, {"text": desired.settings}))
    if observed.unit != desired.unit:
        words = f"write /etc/systemd/system/{UNIT}"
        steps.append(Step("labels_unit", words, {"text": desired.unit}))
    if observed.service.get("UnitFileState") != "enabled":
        steps.append(Step("labels_enable", f"enable {UNIT}"))
    why = _restart_reason(observed, desired, changed=bool(steps) or fresh)
    if why:
        verb = "restart" if observed.active else "start"
        needs = (f"restart:{UNIT}",) if observed.active else ()
        steps.append(Step("labels_restart", f"{verb} {UNIT}: {why}", needs=needs))
    return steps


def _way(text: t.Optional[str]) -> str:
    return environment(text or "").get("GPU_LABELS_WAY", "")


def _restart_reason(observed: Observed, desired: Desired, *, changed: bool) -> str:
    if not observed.active:
        return "it is not running"
    if changed:
        return "what it runs on changes"
    if observed.running != desired.digest:
        return "it runs from another release"
    if observed.applied != environment(desired.settings)["GPU_LABELS_SETTINGS"]:
        return "it runs on other settings"
    return ""


def _removal(observed: Observed) -> t.List[Step]:
    if observed.unit is None and observed.settings is None:
        return []
    steps = [Step("labels_stop", f"stop and disable {UNIT}")] if observed.unit is not None else []
    if observed.settings is not None:
        params = {"text": observed.settings}
        steps.append(Step("labels_take_back", "remove the node's labels", params))
    return [*steps, Step("labels_remove", f"remove {UNIT} and {SETTINGS}")]


def _absent(observed: Observed) -> t.List[Step]:
    steps = _removal(observed)
    if observed.configs or observed.link is not None:
        steps.append(Step("labels_forget_all", f"remove {CONFIGS} and what leads there"))
    return steps


def _stopped(observed: Observed) -> t.List[Step]:
    off = not observed.active and observed.service.get("UnitFileState") != "enabled"
    return [] if off or observed.unit is None else [Step("labels_stop", f"stop and disable {UNIT}")]
