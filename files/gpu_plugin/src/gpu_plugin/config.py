# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's configuration: NVIDIA's device plugin schema v1, read strictly.

A value comes from a flag, else from the environment, else from the file, else it is the default. A
key of the schema that this release does not honour may only have its default value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .strict_yaml import ConfigError, Value, read

DEFAULT_FILE: Final = "/etc/gpu-node/config.yaml"

TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")


@dataclass(frozen=True)
class Key:
    """One key of the schema, and how else it can be given."""

    path: str
    kind: type
    default: Any
    env: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    honoured: bool = True
    harmless: tuple[Any, ...] = ()  # values that ask for nothing, besides the default
    help: str = ""


def _later(path: str, kind: type, default: Any, *env: str, harmless: tuple[Any, ...] = ()) -> Key:
    return Key(path, kind, default, env=env, honoured=False, harmless=harmless)


KEYS: Final = (
    Key(
        "flags.migStrategy",
        str,
        "none",
        ("MIG_STRATEGY",),
        ("--mig-strategy",),
        ("none", "single", "mixed"),
        help="how MIG devices are offered",
    ),
    Key(
        "flags.failOnInitError",
        bool,
        False,
        ("FAIL_ON_INIT_ERROR",),
        ("--fail-on-init-error",),
        help="end with an error where the driver can't be reached at the start, instead of waiting",
    ),
    Key(
        "flags.nvidiaDriverRoot",
        str,
        "/",
        ("NVIDIA_DRIVER_ROOT",),
        ("--driver-root", "--nvidia-driver-root"),
        help="where the driver's files are on the host",
    ),
    Key(
        "flags.nvidiaDevRoot",
        str,
        "",
        ("NVIDIA_DEV_ROOT",),
        ("--dev-root", "--nvidia-dev-root"),
        help="below which /dev/nvidia* are on the host (default: the driver root)",
    ),
    Key(
        "flags.plugin.passDeviceSpecs",
        bool,
        False,
        ("PASS_DEVICE_SPECS",),
        ("--pass-device-specs",),
        help="hand the device nodes to the kubelet as well",
    ),
    Key(
        "flags.plugin.deviceListStrategy",
        list,
        ("envvar",),
        ("DEVICE_LIST_STRATEGY",),
        ("--device-list-strategy",),
        ("envvar", "volume-mounts"),
        help="how a container is told its devices (comma-separated)",
    ),
    Key(
        "flags.plugin.deviceIDStrategy",
        str,
        "uuid",
        ("DEVICE_ID_STRATEGY",),
        ("--device-id-strategy",),
        ("uuid", "index"),
        help="what a container is told: UUIDs or indices",
    ),
    Key("version", str, "v1", allowed=("v1",)),
    _later("flags.mpsRoot", str, "", "MPS_ROOT", harmless=("/run/nvidia/mps",)),
    _later("flags.gdrcopyEnabled", bool, False, "GDRCOPY_ENABLED"),
    _later("flags.gdsEnabled", bool, False, "GDS_ENABLED"),
    _later("flags.mofedEnabled", bool, False, "MOFED_ENABLED"),
    _later(
        "flags.deviceDiscoveryStrategy",
        str,
        "auto",
        "DEVICE_DISCOVERY_STRATEGY",
        harmless=("nvml",),
    ),
    _later("flags.useNodeFeatureAPI", bool, True, harmless=(False,)),
    _later("flags.plugin.cdiAnnotationPrefix", str, "cdi.k8s.io/", "CDI_ANNOTATION_PREFIX"),
    _later(
        "flags.plugin.nvidiaCTKPath",
        str,
        "/usr/bin/nvidia-ctk",
        "NVIDIA_CDI_HOOK_PATH",
        "NVIDIA_CTK_PATH",
        harmless=("/usr/bin/nvidia-cdi-hook",),
    ),
    _later(
        "flags.plugin.containerDriverRoot",
        str,
        "/driver-root",
        "DRIVER_ROOT_CTR_PATH",
        "CONTAINER_DRIVER_ROOT",
        harmless=("/",),
    ),
    _later(
        "flags.plugin.sharedDevicesAllocationPolicy",
        str,
        "distributed",
        "SHARED_DEVICES_ALLOCATION_POLICY",
    ),
    _later("flags.gfd.oneshot", bool, False),
    _later("flags.gfd.noTimestamp", bool, False),
    _later("flags.gfd.sleepInterval", str, "60s"),
    _later("flags.gfd.outputFile", str, "/etc/kubernetes/node-feature-discovery/features.d/gfd"),
    _later("flags.gfd.machineTypeFile", str, "/sys/class/dmi/id/product_name"),
    _later("resources", dict, {}),
    _later("sharing", dict, {}, harmless=({"timeSlicing": {}}, {"mps": {}})),
    _later("imex.channelIDs", list, (), "IMEX_CHANNEL_IDS"),
    _later("imex.required", bool, False, "IMEX_REQUIRED"),
)
BY_PATH: Final = {key.path: key for key in KEYS}

# Values that the schema knows and that this release does not.
COMING: Final = {"flags.plugin.deviceListStrategy": ("cdi-annotations", "cdi-cri")}

# NVIDIA's switches that have no key in the schema. What they ask for must not be lost in silence.
FOREIGN_ENV: Final = ("DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS")


@dataclass(frozen=True)
class Config:
    """What the daemon does."""

    mig_strategy: str = "none"
    fail_on_init_error: bool = False
    driver_root: str = "/"
    dev_root: str = "/"
    pass_device_specs: bool = False
    device_list_strategies: tuple[str, ...] = ("envvar",)
    device_id_strategy: str = "uuid"


def parse(
    text: str,
    source: str = "configuration",
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Config:
    """Build the configuration from a file's text, the environment and flags given by key."""
    found = read(text, source, BY_PATH)
    for name in FOREIGN_ENV:
        if env and env.get(name):
            raise _unsupported(f"environment variable {name}", env[name], "leave it out")
    values = {key.path: _value(key, found.get(key.path), env or {}, flags or {}) for key in KEYS}
    driver_root = values["flags.nvidiaDriverRoot"]
    return Config(
        mig_strategy=values["flags.migStrategy"],
        fail_on_init_error=values["flags.failOnInitError"],
        driver_root=driver_root,
        dev_root=values["flags.nvidiaDevRoot"] or driver_root,
        pass_device_specs=values["flags.plugin.passDeviceSpecs"],
        device_list_strategies=values["flags.plugin.deviceListStrategy"],
        device_id_strategy=values["flags.plugin.deviceIDStrategy"],
    )


def _value(key: Key, given: Value | None, env: Mapping[str, str], flags: Mapping[str, str]) -> Any:
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


def _from_text(key: Key, text: str, name: str) -> Any:
    if key.kind is bool:
        if text not in TRUE + FALSE:
            raise ConfigError(f"{name}: {text!r} is not valid", cause="expected true or false")
        return text in TRUE
    if key.kind is list:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _from_data(key: Key, data: Any, where: str) -> Any:
    if key.kind is list:
        items = data if isinstance(data, list) else [data]
        return tuple(str(item) if isinstance(item, int) else item for item in items)
    if key.kind is str and key.path.endswith("sleepInterval") and isinstance(data, int):
        return str(data)
    if not isinstance(data, key.kind):
        words = {bool: "true or false", str: "a string", dict: "a mapping"}
        raise ConfigError(
            f"{where}: {key.path}: {data!r} is not valid", cause=f"expected {words[key.kind]}"
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
    if not items:
        raise ConfigError(f"{where}: nothing is given", cause=expected + ", ".join(key.allowed))
    for item in items:
        if key.allowed and item not in key.allowed:
            if item in COMING.get(key.path, ()):
                raise _unsupported(where, item, "use " + " or ".join(key.allowed))
            raise ConfigError(
                f"{where}: {item!r} is not valid", cause=expected + ", ".join(key.allowed)
            )
    if key.path.endswith("Root") and value and not value.startswith("/"):
        raise ConfigError(f"{where}: {value!r} is not valid", cause="expected an absolute path")
    return value


def _unsupported(where: str, value: Any, hint: str) -> ConfigError:
    return ConfigError(f"{where}: {_show(value)} is not supported by this release", hint=hint)


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(list(value) if isinstance(value, tuple) else value)
