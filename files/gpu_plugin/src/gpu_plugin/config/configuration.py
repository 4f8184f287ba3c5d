# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's configuration: NVIDIA's device plugin schema v1, read strictly.

A value comes from a flag, else from the environment, else from the file, else it is the default. A
key of the schema that this release does not honour may only have its default value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .._shared._core.errors import InputError
from .._shared._core.text.shown import shown
from ..mps.paths import ROOT, problem_of_root
from .address import Address, address
from .gfd import SLEEP, Gfd, gfd, interval
from .naming import Naming
from .schema import BY_PATH, DISABLE_HOOKS, KEYS, Key
from .sharing import KEYS as SECTIONS
from .sharing import Sharing, naming, sharing
from .strict_yaml import ConfigError, Value, is_whole, read
from .xids import DISABLE, ENABLE, Overrides, overrides

DEFAULT_FILE: Final = "/etc/gpu-node/config.yaml"

TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")

CDI: Final = ("cdi-annotations", "cdi-cri")


@dataclass(frozen=True)
class Config:
    """What the daemon does."""

    mig_strategy: str = "none"
    fail_on_init_error: bool = False
    driver_root: str = "/"
    dev_root: str = "/"
    container_driver_root: str = "/driver-root"
    pass_device_specs: bool = False
    device_list_strategies: tuple[str, ...] = ("envvar",)
    device_id_strategy: str = "uuid"
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    cdi_hook_program: str = "/usr/bin/nvidia-ctk"
    cdi_disabled_hooks: tuple[str, ...] = ()
    gdrcopy: bool = False
    gds: bool = False
    mofed: bool = False
    imex_channels: tuple[str, ...] = ()
    imex_required: bool = False
    allocation_policy: str = "distributed"
    naming: Naming = field(default_factory=Naming)
    sharing: Sharing = field(default_factory=Sharing)
    mps_root: str = ROOT
    xids: Overrides = field(default_factory=Overrides)
    metrics: Address | None = ("127.0.0.1", 9402)
    gfd: Gfd = field(default_factory=Gfd)

    @property
    def driver_roots(self) -> tuple[str, str]:
        """Where the driver's library may be, the first that has it first."""
        return (self.container_driver_root, self.driver_root)

    @property
    def only_cdi(self) -> bool:
        """Tell whether containers get their devices by CDI and by nothing else."""
        return set(self.device_list_strategies) <= set(CDI)


def hook_program(config: Config) -> str:
    """Return the program that is to run NVIDIA's CDI hooks; empty for that of the node's specification."""
    usual = Config.cdi_hook_program
    return "" if config.cdi_hook_program in ("", usual) else config.cdi_hook_program


def parse(
    text: str,
    source: str = "configuration",
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Config:
    """Build the configuration from a file's text, the environment and flags given by key."""
    found = read(text, source, (*BY_PATH, *SECTIONS))
    values = {key.path: _value(key, found.get(key.path), env or {}, flags or {}) for key in KEYS}
    driver_root = values["flags.nvidiaDriverRoot"]
    return Config(
        mig_strategy=values["flags.migStrategy"],
        fail_on_init_error=values["flags.failOnInitError"],
        driver_root=driver_root,
        dev_root=values["flags.nvidiaDevRoot"] or driver_root,
        container_driver_root=values["flags.plugin.containerDriverRoot"],
        pass_device_specs=values["flags.plugin.passDeviceSpecs"],
        device_list_strategies=values["flags.plugin.deviceListStrategy"],
        device_id_strategy=values["flags.plugin.deviceIDStrategy"],
        cdi_annotation_prefix=values["flags.plugin.cdiAnnotationPrefix"],
        cdi_hook_program=values["flags.plugin.nvidiaCTKPath"],
        cdi_disabled_hooks=values[DISABLE_HOOKS],
        gdrcopy=values["flags.gdrcopyEnabled"],
        gds=values["flags.gdsEnabled"],
        mofed=values["flags.mofedEnabled"],
        imex_channels=values["imex.channelIDs"],
        imex_required=values["imex.required"],
        allocation_policy=values["flags.plugin.sharedDevicesAllocationPolicy"],
        naming=naming(found),
        sharing=sharing(found),
        mps_root=values["flags.mpsRoot"] or ROOT,
        xids=overrides((env or {}).get(DISABLE, ""), (env or {}).get(ENABLE, "")),
        metrics=address(values["gpuNode.metricsAddress"], ""),
        gfd=gfd(values),
    )


def _value(key: Key, given: Value | None, env: Mapping[str, str], flags: Mapping[str, str]) -> Any:
    """Return a key's value, from where it is given."""
    if key.path in flags:
        name = key.flags[0] if key.flags else key.path
        value, where = _from_text(key, flags[key.path], name), f"flag {name}"
    elif name := next((name for name in key.env if env.get(name)), ""):
        value, where = _from_text(key, env[name], name), f"environment variable {name}"
    elif given is not None and given.data is not None:
        value, where = _from_data(key, given.data, given.where), f"{given.where}: {key.path}"
    else:
        return key.default
    return _checked(key, value, where)


def _interval(value: str, where: str) -> None:
    try:
        interval(where, value)
    except InputError as error:
        raise ConfigError(error.message, cause=error.cause) from error


def _from_text(key: Key, text: str, name: str) -> Any:
    if key.kind is bool:
        if text not in TRUE + FALSE:
            raise ConfigError(f"{name}: {shown(text)} is not valid", cause="expected true or false")
        return text in TRUE
    if key.kind is list:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _from_data(key: Key, data: Any, where: str) -> Any:
    if key.kind is list:
        items = data if isinstance(data, list) else [data]
        return tuple(str(item) if is_whole(item) else item for item in items)
    if key.kind is str and key.path == SLEEP and isinstance(data, int):
        return str(data)
    if not isinstance(data, key.kind):
        words = {bool: "true or false", str: "a string", list: "a list"}
        raise ConfigError(
            f"{where}: {key.path}: {shown(data)} is not valid",
            cause=f"expected {words[key.kind]}",
        )
    return data


def _checked(key: Key, value: Any, where: str) -> Any:
    if not key.honoured:
        if value != key.default and value not in key.harmless:
            raise _unsupported(where, value, f"leave it out, or at {_show(key.default)}")
        return key.default
    if key.path == "version" and value == "":
        return key.default
    items: Sequence[Any] = value if key.kind is list else (value,)
    expected = f"expected {'one or more' if key.kind is list else 'one'} of "
    if not items and not key.may_be_empty:
        raise ConfigError(f"{where}: nothing is given", cause=expected + ", ".join(key.allowed))
    for item in items:
        if isinstance(item, str) and not item.isprintable():
            expected = "expected printable characters"
            raise ConfigError(f"{where}: {shown(item)} is not valid", cause=expected)
        if isinstance(item, str) and item in key.refused:
            raise _unsupported(where, item, key.refused[item])
        if key.allowed and item not in key.allowed:
            raise ConfigError(
                f"{where}: {shown(item)} is not valid", cause=expected + ", ".join(key.allowed)
            )
    if key.path.endswith(("Root", "Path")) and value and not value.startswith("/"):
        raise ConfigError(
            f"{where}: {shown(value)} is not valid", cause="expected an absolute path"
        )
    if key.path == "gpuNode.metricsAddress":
        address(value, where)
    if key.path == SLEEP:
        _interval(value, where)
    if key.path == "flags.mpsRoot" and value and (problem := problem_of_root(value)):
        raise ConfigError(f"{where}: {shown(value)} is not valid", cause=f"expected {problem}")
    return value


def _unsupported(where: str, value: Any, hint: str) -> ConfigError:
    return ConfigError(f"{where}: {_show(value)} is not supported by this release", hint=hint)


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return shown(list(value) if isinstance(value, tuple) else value)
