# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's configuration: NVIDIA's device plugin schema v1, read strictly. Pure.

A value comes from a flag, else from the environment, else from the file, else it is the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .._shared._base.visible_devices import BY_CDI, BY_HANDLER
from ..model.inventory import HUNG
from ..model.xids import Overrides
from .allocation import KEYS as ALLOCATION
from .allocation import Dra, allocation
from .schema import Key, absolute, address, dashed, interval, keys_of
from .sharing import KEYS as SECTIONS
from .sharing import Naming, Sharing, naming, sharing
from .strict_yaml import invalid, read

DEFAULT_FILE: Final = "/etc/gpu-node/config.yaml"
MOST_NOTES: Final = 20
DISABLE, ENABLE = "DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS"
HIGHEST: Final = 9999  # of XIDs
NO_NVML: Final = "this device plugin finds GPUs through NVML alone, so use auto or nvml"
NO_GENERATOR: Final = (
    "the CDI specification is made by gpu.node.cdi, or by who else describes the GPUs, so ask there"
)


def _key(name: str, default: Any, text: str, flags: tuple[str, ...] = (), **more: Any) -> Any:
    """Return the field of a key of ``flags.gfd``; its variable is GFD_ and its name."""
    variable = f"GFD_{dashed(name)}".replace("-", "_").upper()
    return Key(f"flags.gfd.{name}", default, text, flags, (variable,), **more).field()


@dataclass(frozen=True)
class Gfd:
    """The settings of the labels, and where they are written.

    ``sleep`` is in seconds, None is for ever. ``node_feature_api`` is None if it is not configured.
    """

    oneshot: bool = _key("oneshot", False, "do it once", ("--oneshot", "--once"))
    no_timestamp: bool = _key(
        "noTimestamp", False, "leave out the label with the time of the start"
    )
    sleep: float | None = _key(
        "sleepInterval",
        "60s",
        "how long to wait between two scans of the GPUs",
        may_be_whole=True,
        read=interval,
    )
    output_file: str = _key(
        "outputFile",
        "/etc/kubernetes/node-feature-discovery/features.d/gfd",
        "where a file of labels goes; empty is standard output",
        ("--output-file", "--output", "-o"),
    )
    machine_type_file: str = _key(
        "machineTypeFile", "/sys/class/dmi/id/product_name", "the file that names the machine"
    )
    node_feature_api: bool | None = Key(
        "flags.useNodeFeatureAPI",
        None,
        "publish labels as a NodeFeature object, or with false as a file",
        variables=("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"),
    ).field()


@dataclass(frozen=True)
class DriverConfig:
    """Where the driver's files are, and whether a start without it is an error."""

    fail_on_init_error: bool = Key(
        "flags.failOnInitError",
        False,
        "end with an error where the driver can't be reached at the start, instead of waiting",
    ).field()
    root: str = Key(
        "flags.nvidiaDriverRoot",
        "/",
        "where the driver's files are on the host",
        ("--driver-root", "--nvidia-driver-root"),
        ("NVIDIA_DRIVER_ROOT",),
        read=absolute,
    ).field()
    dev_root: str = Key(
        "flags.nvidiaDevRoot",
        "",
        "below which /dev/nvidia* are on the host (default: the driver root)",
        ("--dev-root", "--nvidia-dev-root"),
        ("NVIDIA_DEV_ROOT",),
        read=absolute,
    ).field()
    container_root: str = Key(
        "flags.plugin.containerDriverRoot",
        "/driver-root",
        "where this process sees the driver's files, if they are there",
        ("--driver-root-ctr-path", "--container-driver-root"),
        read=absolute,
    ).field()

    def __post_init__(self) -> None:
        if not self.dev_root:
            object.__setattr__(self, "dev_root", self.root)

    @property
    def roots(self) -> tuple[str, str]:
        """Where the driver's library may be, the first that has it first."""
        return (self.container_root, self.root)


@dataclass(frozen=True)
class ContainerConfig:
    """What containers get with their devices, and how it is passed."""

    pass_device_specs: bool = Key(
        "flags.plugin.passDeviceSpecs", False, "pass the device nodes to the kubelet as well"
    ).field()
    device_list_strategies: tuple[str, ...] = Key(
        "flags.plugin.deviceListStrategy",
        ("envvar",),
        "how devices are passed to a container (comma-separated)",
        allowed=(*BY_HANDLER, *BY_CDI),
    ).field()
    device_id_strategy: str = Key(
        "flags.plugin.deviceIDStrategy",
        "uuid",
        "how a container's devices are named: UUIDs or indices",
        allowed=("uuid", "index"),
    ).field()
    cdi_annotation_prefix: str = Key(
        "flags.plugin.cdiAnnotationPrefix",
        "cdi.k8s.io/",
        "what the key of the annotation begins with that names CDI devices",
    ).field()
    cdi_hook_program: str = Key(
        "flags.plugin.nvidiaCTKPath",
        "/usr/bin/nvidia-ctk",
        "the program that runs NVIDIA's CDI hooks, where it is not the one in the node's specification",
        ("--nvidia-cdi-hook-path", "--nvidia-ctk-path"),
        read=absolute,
    ).field()
    cdi_disabled_hooks: tuple[str, ...] = Key(
        "--cdi-disable-hooks",
        (),
        "NVIDIA's CDI hooks that containers do without (comma-separated, or all)",
        may_be_empty=True,
    ).field()
    gdrcopy: bool = Key(
        "flags.gdrcopyEnabled", False, "ask the container runtime for GDRCopy in each container"
    ).field()
    gds: bool = Key(
        "flags.gdsEnabled",
        False,
        "ask the container runtime for GPUDirect Storage in each container",
    ).field()
    mofed: bool = Key(
        "flags.mofedEnabled", False, "ask the container runtime for Mellanox OFED in each container"
    ).field()
    imex_channels: tuple[str, ...] = Key(
        "imex.channelIDs",
        (),
        "the IMEX channels that each container gets",
        ("--imex-channel-ids",),
        allowed=("0",),
        may_be_empty=True,
    ).field()
    imex_required: bool = Key(
        "imex.required",
        False,
        "refuse containers where the IMEX channels are not there",
        ("--imex-required",),
    ).field()

    @property
    def asks_cdi(self) -> bool:
        """Whether containers get any devices by CDI."""
        return not set(BY_CDI).isdisjoint(self.device_list_strategies)

    @property
    def extras(self) -> list[str]:
        """What containers are to get besides GPUs and IMEX channels."""
        return [kind for kind in ("gdrcopy", "gds", "mofed") if getattr(self, kind)]

    @property
    def hook_program(self) -> str:
        """The program that is to run NVIDIA's CDI hooks; empty for that of the node's specification."""
        usual = ContainerConfig.cdi_hook_program
        return "" if self.cdi_hook_program == usual else self.cdi_hook_program


@dataclass(frozen=True)
class HealthConfig:
    """When a GPU is unhealthy: ``nvml_timeout`` is in seconds, None is for ever."""

    nvml_timeout: float | None = Key(
        "gpuNode.nvmlTimeout",
        f"{HUNG:g}s",
        "how long the driver may go without any answer for a GPU before that is Unhealthy; infinite: forever",
        variables=("GPU_PLUGIN_NVML_TIMEOUT",),
        may_be_whole=True,
        read=interval,
    ).field()
    xids: Overrides = field(default_factory=Overrides)


@dataclass(frozen=True)
class Config:
    """What the daemon does, each value with the key that it comes from. ``notes`` are warnings."""

    mig_strategy: str = Key(
        "flags.migStrategy",
        "none",
        "how MIG devices are advertised",
        allowed=("none", "single", "mixed"),
    ).field()
    driver: DriverConfig = field(default_factory=DriverConfig)
    containers: ContainerConfig = field(default_factory=ContainerConfig)
    naming: Naming = field(default_factory=Naming)
    sharing: Sharing = field(default_factory=Sharing)
    metrics: tuple[str, int] | None = Key(
        "gpuNode.metricsAddress",
        "127.0.0.1:9402",
        "where metrics and health are served over HTTP; off: nowhere",
        variables=("GPU_PLUGIN_METRICS_ADDRESS",),
        read=address,
    ).field()
    health: HealthConfig = field(default_factory=HealthConfig)
    gfd: Gfd = field(default_factory=Gfd)
    dra: Dra = field(default_factory=Dra)
    notes: tuple[str, ...] = field(default=(), compare=False)


# Keys that are checked, and change nothing.
CHECKED: Final = (
    Key("version", "v1", allowed=("v1",), may_be_empty=True),
    Key(
        "flags.deviceDiscoveryStrategy",
        "auto",
        "how GPUs are found; both ways are NVML",
        allowed=("auto", "nvml"),
        refused=dict.fromkeys(("tegra", "vfio"), NO_NVML),
    ),
    Key(
        "--cdi-feature-flags",
        (),
        "how the CDI specification is made; libnvsandboxutils is never used",
        allowed=("disable-nvsandbox-utils", "disable-nvsandboxutils"),
        refused=dict.fromkeys(
            ("enable-coherent-annotations", "enable-explicit-driver-libraries"), NO_GENERATOR
        ),
        may_be_empty=True,
    ),
)
# In the order in which the commands' help has them.
RUN_KEYS: Final = (
    keys_of(Config)["mig_strategy"],
    *keys_of(DriverConfig).values(),
    *keys_of(ContainerConfig).values(),
    *keys_of(Sharing).values(),
    keys_of(Config)["metrics"],
    *keys_of(HealthConfig).values(),
    *CHECKED,
)
LABEL_KEYS: Final = tuple(keys_of(Gfd).values())
KEYS: Final = (*RUN_KEYS, *LABEL_KEYS)


def parse(
    text: str,
    source: str = "configuration",
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Config:
    """Build the configuration from a file's text, the environment and flags given by key.

    Raises:
        ConfigError: if one of them is not valid.
    """
    env = env or {}
    plain = (key.path for key in KEYS if key.in_file)
    file_values = read(text, source, (*plain, *SECTIONS, *ALLOCATION))
    values: dict[str, Any] = {
        key.path: key.value(file_values.get(key.path), env, flags or {}) for key in KEYS
    }

    def of(kind: type) -> dict[str, Any]:
        return {name: values[key.path] for name, key in keys_of(kind).items()}

    shared = sharing(file_values)
    dra = allocation(file_values, shared)
    notes = file_values.notes  # of which a log can take a few, whoever wrote the file
    left = len(notes) - MOST_NOTES
    more = [f"{left} more warnings about the file"] if left > 0 else []
    return Config(
        **of(Config),
        driver=DriverConfig(**of(DriverConfig)),
        containers=ContainerConfig(**of(ContainerConfig)),
        naming=naming(file_values),
        sharing=replace(shared, **of(Sharing)),
        health=HealthConfig(
            **of(HealthConfig), xids=overrides(env.get(DISABLE, ""), env.get(ENABLE, ""))
        ),
        gfd=Gfd(**of(Gfd)),
        dra=dra,
        notes=(*notes[:MOST_NOTES], *more),
    )


def overrides(disable: str, enable: str) -> Overrides:
    """Return which XIDs are to be ignored, and which are not, by NVIDIA's two variables.

    Each has XIDs with commas between, or all (xids, to disable).
    """
    ignored = _numbers(DISABLE, disable, ("all", "xids"))
    return Overrides(ignored, _numbers(ENABLE, enable, ("all",)))


def _numbers(name: str, text: str, everything: tuple[str, ...]) -> frozenset[int] | None:
    names = [word.strip().lower() for word in text.split(",") if word.strip()]
    if any(word in everything for word in names):
        return None
    for word in names:
        if not re.fullmatch("[0-9]{1,8}", word) or int(word) > HIGHEST:
            expected = f"numbers of XIDs or {' or '.join(everything)}"
            raise invalid(f"environment variable {name}", word, expected)
    return frozenset(int(word) for word in names)
