# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Configurations of the shapes that the documentation of NVIDIA's plugin and operator has, 0.17 to 0.20."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from gpu_plugin.cli import _parser
from gpu_plugin.config.configuration import Config, parse
from gpu_plugin.config.sources import flags_given

from tests.fakes.daemon.gpu_builders import enumerate_devices, inventory, share, view

WHOLE = inventory(*(view(index) for index in range(8)))
PARTED = inventory(
    view(0), view(1, "1g.5gb", "1g.5gb", "2g.10gb"), view(2, "3g.20gb", "3g.20gb"), view(3)
)
ALIKE = inventory(*(view(index, "1g.5gb", "1g.5gb") for index in range(2)))


@dataclass(frozen=True)
class Case:
    """What a user has, and how many devices of each resource a node then offers."""

    text: str = ""
    offers: dict[str, int] = field(default_factory=lambda: {"nvidia.com/gpu": 8})
    has: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    node: Any = WHOLE


BASIC = """
version: v1
flags:
  migStrategy: "{mig}"
  failOnInitError: true
  nvidiaDriverRoot: "/"
  plugin:
    passDeviceSpecs: false
    deviceListStrategy: {strategy}
    deviceIDStrategy: uuid
"""
SLICED = """
version: v1
sharing:
  timeSlicing:
    renameByDefault: {rename}
    failRequestsGreaterThanOne: {fail}
    resources:
    - name: nvidia.com/gpu
      replicas: 10
"""
CASES = {
    "a file with the flags": Case(
        BASIC.format(mig="none", strategy='"envvar"'), has={"driver.fail_on_init_error": True}
    ),
    "the same for a node with MIG": Case(
        BASIC.format(mig="mixed", strategy="envvar"),
        {
            "nvidia.com/gpu": 2,
            "nvidia.com/mig-1g.5gb": 2,
            "nvidia.com/mig-2g.10gb": 1,
            "nvidia.com/mig-3g.20gb": 2,
        },
        node=PARTED,
    ),
    "the same for a node with MIG devices that are alike": Case(
        BASIC.format(mig="single", strategy="envvar"), {"nvidia.com/gpu": 4}, node=ALIKE
    ),
    "several strategies as a list": Case(
        BASIC.format(mig="none", strategy="[envvar, cdi-annotations]"),
        has={"containers.device_list_strategies": ("envvar", "cdi-annotations")},
    ),
    "devices by CDI": Case(
        BASIC.format(mig="none", strategy="cdi-cri"),
        has={"containers.device_list_strategies": ("cdi-cri",)},
    ),
    "a driver in a container": Case(
        "version: v1\nflags: {nvidiaDriverRoot: /run/nvidia/driver}",
        has={"driver.root": "/run/nvidia/driver", "driver.dev_root": "/run/nvidia/driver"},
    ),
    "a driver whose device nodes are the host's": Case(
        "version: v1\nflags:\n  nvidiaDriverRoot: /home/kubernetes/bin/nvidia\n  nvidiaDevRoot: /",
        has={"driver.root": "/home/kubernetes/bin/nvidia", "driver.dev_root": "/"},
    ),
    "flags alone": Case(
        flags=(
            "--mig-strategy=single",
            "--pass-device-specs=true",
            "--device-id-strategy",
            "index",
        ),
        offers={"nvidia.com/gpu": 4},
        has={"containers.pass_device_specs": True, "containers.device_id_strategy": "index"},
        node=ALIKE,
    ),
    "what a DaemonSet's manifest sets": Case(
        env={
            "FAIL_ON_INIT_ERROR": "false",
            "MIG_STRATEGY": "none",
            "PASS_DEVICE_SPECS": "true",
            "DEVICE_LIST_STRATEGY": "envvar,volume-mounts",
            "DEVICE_ID_STRATEGY": "uuid",
            "NVIDIA_DRIVER_ROOT": "/",
            "MPS_ROOT": "/run/nvidia/mps",
            "NVIDIA_MIG_MONITOR_DEVICES": "all",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
            "CDI_ENABLED": "false",
            "NVIDIA_CDI_HOOK_PATH": "/usr/bin/nvidia-cdi-hook",
        },
        has={
            "containers.pass_device_specs": True,
            "containers.device_list_strategies": ("envvar", "volume-mounts"),
        },
    ),
    "values of the chart over a file": Case(
        BASIC.format(mig="none", strategy="envvar"),
        {"nvidia.com/gpu": 4},
        has={"containers.device_id_strategy": "index"},
        env={"MIG_STRATEGY": "single", "DEVICE_ID_STRATEGY": "index"},
        node=ALIKE,
    ),
    "ten shares": Case(SLICED.format(rename="false", fail="false"), {"nvidia.com/gpu": 80}),
    "ten shares under another name": Case(
        SLICED.format(rename="true", fail="false"), {"nvidia.com/gpu.shared": 80}
    ),
    "ten shares, one for each container": Case(
        SLICED.format(rename="false", fail="true"), {"nvidia.com/gpu": 80}
    ),
    "the least": Case(
        "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
        {"nvidia.com/gpu": 32},
    ),
    "an operator's configuration for any GPU": Case(
        "version: v1\nflags:\n  migStrategy: none\nsharing:\n  timeSlicing:\n    resources:\n"
        "    - name: nvidia.com/gpu\n      replicas: 4\n",
        {"nvidia.com/gpu": 32},
    ),
    "an operator's configuration for shared MIG devices": Case(
        """
version: v1
flags:
  migStrategy: mixed
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 8
    - name: nvidia.com/mig-1g.5gb
      replicas: 2
    - name: nvidia.com/mig-2g.10gb
      replicas: 2
    - name: nvidia.com/mig-3g.20gb
      replicas: 3
    - name: nvidia.com/mig-7g.40gb
      replicas: 7
""",
        {
            "nvidia.com/gpu": 16,
            "nvidia.com/mig-1g.5gb": 4,
            "nvidia.com/mig-2g.10gb": 2,
            "nvidia.com/mig-3g.20gb": 6,
        },
        node=PARTED,
    ),
    "single with shares": Case(
        "version: v1\nflags: {migStrategy: single}\nsharing: {timeSlicing: {resources: "
        "[{name: nvidia.com/gpu, replicas: 2}]}}",
        {"nvidia.com/gpu": 8},
        node=ALIKE,
    ),
    "an IMEX channel where there is one": Case(
        "version: v1\nimex:\n  channelIDs: [0]\n  required: false",
        has={"containers.imex_channels": ("0",)},
    ),
    "an IMEX channel that must be there": Case(
        "version: v1\nimex: {channelIDs: [0], required: true}",
        has={"containers.imex_channels": ("0",), "containers.imex_required": True},
    ),
    "no IMEX channel": Case(
        "version: v1\nimex: {channelIDs: []}", has={"containers.imex_channels": ()}
    ),
    "what is asked of the container runtime": Case(
        "version: v1\nflags: {gdsEnabled: true, mofedEnabled: true, gdrcopyEnabled: true}",
        has={"containers.gds": True, "containers.mofed": True, "containers.gdrcopy": True},
    ),
    "shares that fill one GPU after the other": Case(
        "version: v1\nflags: {plugin: {sharedDevicesAllocationPolicy: packed}}\nsharing: "
        "{timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}",
        {"nvidia.com/gpu": 16},
        has={"sharing.allocation_policy": "packed"},
    ),
    "a file that is shared with gpu-feature-discovery": Case(
        """
version: v1
flags:
  migStrategy: none
  failOnInitError: true
  useNodeFeatureAPI: false
  gfd:
    oneshot: false
    noTimestamp: false
    sleepInterval: 60s
    outputFile: /etc/kubernetes/node-feature-discovery/features.d/gfd
    machineTypeFile: /sys/class/dmi/id/product_name
"""
    ),
    "JSON": Case(
        '{"version": "v1", "flags": {"migStrategy": "none"}, "sharing": {"timeSlicing": '
        '{"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}}}',
        {"nvidia.com/gpu": 24},
    ),
    "nothing": Case("version: v1"),
    "ten shares by MPS": Case(
        "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}",
        {"nvidia.com/gpu": 80},
    ),
    "ten shares by MPS under another name": Case(
        "version: v1\nsharing: {mps: {renameByDefault: true, resources: "
        "[{name: nvidia.com/gpu, replicas: 10}]}}",
        {"nvidia.com/gpu.shared": 80},
    ),
    "labels, once": Case("version: v1\nflags: {gfd: {oneshot: true, noTimestamp: true}}"),
    "labels, more often": Case("version: v1\nflags: {gfd: {sleepInterval: 30s, outputFile: /gfd}}"),
}


def advertised(case: Case) -> tuple[Config, dict[str, int]]:
    options = _parser().parse_args(["run", *case.flags])
    config = parse(case.text, "config.yaml", case.env, flags_given(options))
    found = enumerate_devices(case.node, config.mig_strategy, config.naming)
    shares = share(found, config.sharing)
    return config, {name: len(devices) for name, devices in shares.items()}


def test_documented_configurations_work_unchanged() -> None:
    found, expected = {}, {}
    for name, case in CASES.items():
        config, offers = advertised(case)
        found[name] = offers, {key: attrgetter(key)(config) for key in case.has}
        expected[name] = case.offers, case.has
    assert found == expected
