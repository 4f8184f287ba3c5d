# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The state of the device plugin's deployment on a node, and the desired one from the module's options."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import typing as t

from .._base.dra import allocation as dra
from .._base.dra.allocation import Library, Owners
from .._base.errors import InputError, NodeError
from .._base.packages.package import Removal
from .._base.services.mps import Daemon
from .._base.text.labels import NAME, check_label
from .python import NOTHING, Missing

CONFIG = "/etc/gpu-node/config.yaml"
CONFIGS = "/etc/gpu-node/configs"
SETTINGS = "/etc/gpu-node/labels.env"
DRA_SETTINGS = "/etc/gpu-node/dra.env"
UNITS = "/etc/systemd/system"
HEADER = "# Written by gpu.node.device_plugin: change the playbook's variables instead.\n"


@dataclasses.dataclass(frozen=True)
class Service:
    """A service: its properties in systemd, and the variables that its process was started with."""

    properties: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    environment: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return self.properties.get("ActiveState") == "active"

    @property
    def enabled(self) -> bool:
        """Whether it starts at boot."""
        return self.properties.get("UnitFileState") == "enabled"

    @property
    def unread(self) -> bool:
        """Whether its unit's files are others than systemd has read."""
        return self.properties.get("NeedDaemonReload") == "yes"

    @property
    def release(self) -> str:
        """The release that its process was started from."""
        return self.environment.get("GPU_NODE_RELEASE", "")


class PythonState(t.NamedTuple):
    """The Python for a release's environment; ``program`` is empty if none is usable, which ``missing`` describes.

    ``removal`` is not None if packages were installed for environments and have to be removed.
    """

    program: str = ""
    ensurepip: bool = True
    apt: bool = False
    missing: Missing = NOTHING
    removal: t.Optional[Removal] = None


class ReleaseState(t.NamedTuple):
    """The releases in the prefix; ``damage`` is the fault of the current one's environment.

    ``linked`` is whether the links to it are there, ``beside`` are names in the prefix that are not of the collection.
    """

    current: str = ""
    releases: t.Tuple[str, ...] = ()
    damage: str = ""
    linked: bool = True
    beside: t.Tuple[str, ...] = ()


class PluginFiles(t.NamedTuple):
    """Units, configurations and the labels' settings: texts by path.

    ``link`` is the target of the daemon's configuration if it is a link; ``config_digest`` is that of its text.
    """

    texts: t.Mapping[str, str] = {}
    link: t.Optional[str] = None
    config_digest: str = ""


class PluginServices(t.NamedTuple):
    """The services of the device plugin, of node labels, of the manager of MPS daemons, and of the DRA driver."""

    daemon: Service = Service()
    labels: Service = Service()
    manager: Service = Service()
    dra: Service = Service()


class DraState(t.NamedTuple):
    """The DRA driver's part.

    Attributes:
        late: Why it does not serve, if it runs.
        moves: Whether GPUs change their owner, device plugin or DRA.
        held: The pods and claims that have a GPU that gets another owner, or a device of a driver that is removed.
    """

    late: str = ""
    moves: bool = False
    held: t.Tuple[str, ...] = ()


class ServingState(t.NamedTuple):
    """The devices that are served: the daemon's status, and the node's own devices, None if they are not known.

    ``kubelet`` is whether a kubelet listens, ``pod`` is a pod of the DaemonSet that serves the node.
    """

    status: t.Mapping[str, t.Any] = {}
    devices: t.Optional[t.FrozenSet[str]] = None
    kubelet: bool = False
    pod: str = ""
    mps: t.Tuple[Daemon, ...] = ()


class PluginState(t.NamedTuple):
    """The state of a node: the deployment's files, its services, and the devices that are served."""

    python: PythonState
    release: ReleaseState
    files: PluginFiles
    services: PluginServices
    serving: ServingState
    dra: DraState = DraState()


@dataclasses.dataclass(frozen=True)
class DesiredPlugin:
    """The desired deployment.

    Attributes:
        configs: Texts by path. The node's label chooses one of several; the first is the default.
        units: Texts by name.
        labels: The settings of the process that labels the node; empty for no process, None to leave it as it is.
        dra_settings: The settings of the DRA driver, empty if it has none.
        owners: The allocators of GPUs: device plugin or DRA.
        library: The library of HAMi-core whose digest is verified.
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


def parse_desired(params: t.Mapping[str, t.Any]) -> DesiredPlugin:
    """Return the desired deployment from the module's parameters.

    Raises:
        NodeError: if they contradict each other.
    """
    labels, named = params["labels"], params["configs"] or {}
    started = params["state"] == "started"
    check_configs(named, labels is not None or not started)
    allocation = (params["allocation"], params["dra"])
    dra.check(*allocation)
    plain = dra.configured("config", params["config"] or {"version": "v1"}, *allocation)
    configs = {CONFIG: _text(plain)}
    if named:
        named = {
            name: dra.configured(f"configs: {name}", config, *allocation)
            for name, config in sorted(named.items())
        }
        named = {"default": plain, **named}
        configs = {f"{CONFIGS}/{name}": _text(config) for name, config in named.items()}
    if labels is not None and named and labels["default_config"] not in ("", *named):
        expected = f"one of the configurations: {', '.join(named)}"
        raise InputError.of("labels.default_config", labels["default_config"], expected)
    asked = settings(labels, choosing=bool(named)) if started and labels is not None else None
    more = {name: params[name] for name in ("python", "install_python", "require_kubelet")}
    digest, units = params["digest"] or "", params["units"] or {}
    variables = {"KUBECONFIG": params["dra"]["kubeconfig"], "NODE_NAME": params["dra"]["node_name"]}
    lines = [_line(name, text) for name, text in variables.items() if text]
    more["dra_settings"] = f"{HEADER}{''.join(lines)}" if lines else ""
    more["owners"] = dra.owners(params["allocation"], params["dra"]["devices"])
    more["library"] = dra.verified_library(*allocation)
    return DesiredPlugin(params["state"], digest, configs, units, asked, **more)


def _text(config: t.Mapping[str, t.Any]) -> str:
    return f"{HEADER}{json.dumps(config, indent=2)}\n"


def check_configs(configs: t.Mapping[str, t.Any], managed: bool) -> None:
    """Check the names and shapes of configurations.

    Raises:
        InputError: if one is invalid.
        NodeError: if no process chooses one of them.
    """
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
    """Return the text of the labels' settings, empty if no process has to run.

    Raises:
        InputError: if a label is invalid.
    """
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
    """Return the variables of a file for systemd's EnvironmentFile, none if there is no file."""
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
