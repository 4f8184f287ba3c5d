# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The keys that hold one value, and how else they are given.

They are those of NVIDIA's device plugin schema v1, and our own under ``gpuNode``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .gfd import Gfd

NO_NVML: Final = "this daemon finds GPUs through NVML alone, so use auto or nvml"
NO_GENERATOR: Final = (
    "the CDI specification is made by gpu.node.cdi, or by who else describes the GPUs, so ask there"
)
# NVIDIA's switches that have no key in a file.
DISABLE_HOOKS: Final = "--cdi-disable-hooks"
FEATURES: Final = "--cdi-feature-flags"


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
    may_be_empty: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)  # what is known, and why not to be had
    in_file: bool = True
    help: str = ""
    command: str = "run"  # whose flag it is


def _later(
    path: str,
    kind: type,
    default: Any,
    *env: str,
    flags: tuple[str, ...] = (),
    harmless: tuple[Any, ...] = (),
) -> Key:
    words = "not supported yet: only its default is taken"
    return Key(path, kind, default, env, flags, honoured=False, harmless=harmless, help=words)


def _label(path: str, kind: type, default: Any, flags: tuple[str, ...], text: str) -> Key:
    name = "GFD" + "".join(f"_{c}" if c.isupper() else c for c in f"_{path.rpartition('.')[2]}")
    return Key(path, kind, default, (name.upper(),), flags, help=text, command="labels")


GFD: Final = Gfd()
LABEL_KEYS: Final = (
    Key(
        "flags.useNodeFeatureAPI",
        bool,
        GFD.node_feature_api,
        ("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"),
        ("--use-node-feature-api",),
        help="publish labels as a NodeFeature object, or with false as a file",
        command="labels",
    ),
    _label("flags.gfd.oneshot", bool, GFD.oneshot, ("--oneshot", "--once"), "do it once"),
    _label(
        "flags.gfd.noTimestamp",
        bool,
        GFD.no_timestamp,
        ("--no-timestamp",),
        "leave out the label with the time of the start",
    ),
    _label(
        "flags.gfd.sleepInterval",
        str,
        "60s",
        ("--sleep-interval",),
        "how long to wait between two looks at the GPUs",
    ),
    _label(
        "flags.gfd.outputFile",
        str,
        GFD.output_file,
        ("--output-file", "--output", "-o"),
        "where a file of labels goes; empty is standard output",
    ),
    _label(
        "flags.gfd.machineTypeFile",
        str,
        GFD.machine_type_file,
        ("--machine-type-file",),
        "the file that names the machine",
    ),
)

KEYS: Final = (
    Key(
        "flags.migStrategy",
        str,
        "none",
        ("MIG_STRATEGY",),
        ("--mig-strategy",),
        ("none", "single", "mixed"),
        help="how MIG devices are advertised",
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
        ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"),
        help="how devices are passed to a container (comma-separated)",
    ),
    Key(
        "flags.plugin.deviceIDStrategy",
        str,
        "uuid",
        ("DEVICE_ID_STRATEGY",),
        ("--device-id-strategy",),
        ("uuid", "index"),
        help="how a container's devices are named: UUIDs or indices",
    ),
    Key("version", str, "v1", allowed=("v1",)),
    Key(
        "flags.gdrcopyEnabled",
        bool,
        False,
        ("GDRCOPY_ENABLED",),
        ("--gdrcopy-enabled",),
        help="ask the container runtime for GDRCopy in each container",
    ),
    Key(
        "flags.gdsEnabled",
        bool,
        False,
        ("GDS_ENABLED",),
        ("--gds-enabled",),
        help="ask the container runtime for GPUDirect Storage in each container",
    ),
    Key(
        "flags.mofedEnabled",
        bool,
        False,
        ("MOFED_ENABLED",),
        ("--mofed-enabled",),
        help="ask the container runtime for Mellanox OFED in each container",
    ),
    Key(
        "flags.plugin.cdiAnnotationPrefix",
        str,
        "cdi.k8s.io/",
        ("CDI_ANNOTATION_PREFIX",),
        ("--cdi-annotation-prefix",),
        help="what the key of the annotation begins with that names CDI devices",
    ),
    Key(
        "flags.plugin.sharedDevicesAllocationPolicy",
        str,
        "distributed",
        ("SHARED_DEVICES_ALLOCATION_POLICY",),
        ("--shared-devices-allocation-policy",),
        ("distributed", "packed"),
        help="whether shares are spread over GPUs, or fill one after the other",
    ),
    Key(
        "imex.channelIDs",
        list,
        (),
        ("IMEX_CHANNEL_IDS",),
        ("--imex-channel-ids",),
        ("0",),
        may_be_empty=True,
        help="the IMEX channels that each container gets",
    ),
    Key(
        "imex.required",
        bool,
        False,
        ("IMEX_REQUIRED",),
        ("--imex-required",),
        help="refuse containers where the IMEX channels are not there",
    ),
    Key(
        "gpuNode.metricsAddress",
        str,
        "127.0.0.1:9402",
        ("GPU_PLUGIN_METRICS_ADDRESS",),
        ("--metrics-address",),
        help="where metrics and health are served over HTTP; off: nowhere",
    ),
    Key(
        "flags.mpsRoot",
        str,
        "",
        ("MPS_ROOT",),
        ("--mps-root",),
        help="where the files of MPS daemons are on the host (default: /run/gpu-node/mps)",
    ),
    Key(
        "flags.deviceDiscoveryStrategy",
        str,
        "auto",
        ("DEVICE_DISCOVERY_STRATEGY",),
        ("--device-discovery-strategy",),
        ("auto", "nvml"),
        refused=dict.fromkeys(("tegra", "vfio"), NO_NVML),
        help="how GPUs are found; both ways are NVML",
    ),
    Key(
        "flags.plugin.nvidiaCTKPath",
        str,
        "/usr/bin/nvidia-ctk",
        ("NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"),
        ("--nvidia-cdi-hook-path", "--nvidia-ctk-path"),
        help="the program that runs NVIDIA's CDI hooks, where it is not the one in the node's"
        " specification",
    ),
    Key(
        "flags.plugin.containerDriverRoot",
        str,
        "/driver-root",
        ("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
        ("--driver-root-ctr-path", "--container-driver-root"),
        help="where this process sees the driver's files, if they are there",
    ),
    Key(
        DISABLE_HOOKS,
        list,
        (),
        ("CDI_DISABLE_HOOKS",),
        (DISABLE_HOOKS,),
        may_be_empty=True,
        in_file=False,
        help="NVIDIA's CDI hooks that containers do without (comma-separated, or all)",
    ),
    Key(
        FEATURES,
        list,
        (),
        ("CDI_FEATURE_FLAGS",),
        (FEATURES,),
        ("disable-nvsandbox-utils", "disable-nvsandboxutils"),
        may_be_empty=True,
        refused=dict.fromkeys(
            ("enable-coherent-annotations", "enable-explicit-driver-libraries"), NO_GENERATOR
        ),
        in_file=False,
        help="how the CDI specification is made; libnvsandboxutils is never used",
    ),
    *LABEL_KEYS,
)
BY_PATH: Final = {key.path: key for key in KEYS if key.in_file}
