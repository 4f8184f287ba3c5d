# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the module's options ask for: the files of the device plugin and of node labels."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import typing as t

from .._base.dra import allocation as dra
from .._base.dra.allocation import Library, Owners
from .._base.errors import InputError, NodeError
from .._base.text.labels import NAME, check_label

CONFIG = "/etc/gpu-node/config.yaml"
CONFIGS = "/etc/gpu-node/configs"
SETTINGS = "/etc/gpu-node/labels.env"
DRA_SETTINGS = "/etc/gpu-node/dra.env"
UNITS = "/etc/systemd/system"
HEADER = "# Written by gpu.node.device_plugin: change the playbook's variables instead.\n"


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants; ``configs`` are texts by path, ``units`` texts by name.

    Of several configurations the node's label chooses one; the first is the default. ``labels`` are
    the settings of the process that labels the node: empty where there is to be none, None where
    labels stay as they are. ``owners`` give GPUs to containers; ``dra_settings`` are the driver's, empty where it
    has none; ``library`` is the one of HAMi-core that has to have a digest.
    """

    state: str
    digest: str
    configs: t.Mapping[str, str]
    units: t.Mapping[str, str]
    labels: t.Optional[str] = None
    python: t.Optional[str] = None
    install_python: bool = False
    require_kubelet: bool = False
    dra_settings: str = ""
    owners: Owners = dra.BY_DEFAULT
    library: Library = dra.NO_LIBRARY

    @property
    def config_file(self) -> str:
        """The path of the configuration that is used unless a label chooses another."""
        return next(iter(self.configs))


def wanted(params: t.Mapping[str, t.Any]) -> Desired:
    """Return what the module's parameters ask for. NodeError: they do not go together."""
    labels, named = params["labels"], params["configs"] or {}
    started = params["state"] == "started"
    check_configs(named, labels is not None or not started)
    allocation = (params["allocation"], params["dra"])
    dra.check(*allocation)
    plain = dra.configured("config", params["config"] or {"version": "v1"}, *allocation)
    configs = {CONFIG: _text(plain)}
    if named:
        named = {
            name: dra.configured(f"configs: {name}", one, *allocation)
            for name, one in sorted(named.items())
        }
        named = {"default": plain, **named}
        configs = {f"{CONFIGS}/{name}": _text(one) for name, one in named.items()}
    if labels is not None and named and labels["default_config"] not in ("", *named):
        expected = f"one of the configurations: {', '.join(named)}"
        raise InputError.of("labels.default_config", labels["default_config"], expected)
    asked = settings(labels, choosing=bool(named)) if started and labels is not None else None
    more = {name: params[name] for name in ("python", "install_python", "require_kubelet")}
    digest, units = params["digest"] or "", params["units"] or {}
    given = {"KUBECONFIG": params["dra"]["kubeconfig"], "NODE_NAME": params["dra"]["node_name"]}
    lines = [_line(name, text) for name, text in given.items() if text]
    more["dra_settings"] = f"{HEADER}{''.join(lines)}" if lines else ""
    more["owners"] = dra.owners(params["allocation"], params["dra"]["devices"])
    more["library"] = dra.verified_library(*allocation)
    return Desired(params["state"], digest, configs, units, asked, **more)


def _text(config: t.Mapping[str, t.Any]) -> str:
    return f"{HEADER}{json.dumps(config, indent=2)}\n"


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
    idle = labels["output"] == "off" and not labels["condition"]
    if idle and not (choosing or labels["mig_by_label"]):
        return ""
    extra = [check_label("labels.extra", *label) for label in (labels["extra"] or {}).items()]
    named = {
        "GPU_LABELS_OUTPUT": labels["output"],
        "GPU_LABELS_EXTRA": ",".join(f"{key}={value}" for key, value in sorted(extra)),
        "KUBECONFIG": labels["kubeconfig"],
        "NODE_NAME": labels["node_name"],
        "NAMESPACE": labels["namespace"],
        "CONFIG_FILE_SRCDIR": CONFIGS if choosing else "",
        "CONFIG_FILE_DST": CONFIG if choosing else "",
        "DEFAULT_CONFIG": labels["default_config"] if choosing else "",
        "GPU_NODE_EVENTS": "" if labels["events"] else "false",
        "GPU_NODE_CONDITION": "true" if labels["condition"] else "",
        "GPU_NODE_MIG_BY_LABEL": "true" if labels["mig_by_label"] else "",
    }
    body = "".join(_line(name, text) for name, text in named.items() if text)
    return f"{HEADER}{body}GPU_LABELS_SETTINGS={hashlib.sha256(body.encode()).hexdigest()[:12]}\n"


def env_variables(text: t.Optional[str]) -> t.Dict[str, str]:
    """Return the variables of a file for systemd's EnvironmentFile, none where there is none."""
    lines = (text or "").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    return {
        name: re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] == '"' else value
        for name, value in pairs
    }


def _line(name: str, value: str) -> str:
    if any(ord(char) < 32 for char in value):
        raise InputError.of(f"labels: {name}", value, "a text of one line")
    return f'{name}="' + re.sub(r'([\\"$`])', r"\\\1", value) + '"\n'
