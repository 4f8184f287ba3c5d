# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Hostile inputs at each of the daemon's parsers: a clear error at once, and no growth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.gpu import nvidia_device, parse_minors
from gpu_plugin.cdi import files as cdi_files
from gpu_plugin.cdi import specification as cdi
from gpu_plugin.cluster.kubeconfig import check
from gpu_plugin.config.configuration import overrides, parse
from gpu_plugin.config.schema import address, interval
from gpu_plugin.config.sharing import Rule, qualified
from gpu_plugin.labels.settings import extra
from gpu_plugin.model.mps.settings import parse_memory, parse_percent

from tests.support.hostile import Thrown, counts, inputs

CONFIGS = (
    "version: v1\nflags:\n  migStrategy: mixed\n  plugin: {deviceListStrategy: [envvar, cdi-cri]}",
    "flags: {gfd: {sleepInterval: 1m30s}, mpsRoot: /run/mps}\ngpuNode: {metricsAddress: '[::1]:9402'}",
    "sharing:\n  mps:\n    resources:\n    - {name: gpu, replicas: 4, memory: 8GiB, threads: 25}",
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [0, '0:1'], rename: a}]}}",
    "resources: {gpus: [{pattern: '*A100*', name: a100}], mig: [{pattern: 1g.*, name: small}]}",
    '{"flags": {"failOnInitError": true, "nvidiaDriverRoot": "/"}, "imex": {"channelIDs": [0]}}',
    "sharing: {mps: {onBusy: wait, resources: [{name: &n gpu, replicas: &r 2}, {name: x, replicas: *r}]}}",
    "sharing: {timeSlicing: {resources: [&a {name: gpu, replicas: 2}, {<<: [*a, *a], Name: x}]}}",
    '{\n\t"Flags": {\n\t\t"MigStrategy": "single"\n\t}\n}',
)
KEYS = (
    "<<: ",
    "flags: ",
    "sharing:",
    "resources: [",
    "memory: ",
    "replicas: ",
    "pattern: ",
    "devices: ",
)
VALUES = (
    "127.0.0.1:9402",
    "[fe80::1%eth0]:1",
    "8GiB",
    "12.5%",
    "1h1m1.5s",
    "48,79",
    "a.b-c",
    "*A*0*",
)
SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
    ],
    "containerEdits": {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "mounts": [{"hostPath": "/lib/a.so.1", "containerPath": "/lib/a.so.1", "options": ["ro"]}],
        "hooks": [
            {
                "hookName": "createContainer",
                "path": "/usr/bin/nvidia-cdi-hook",
                "args": ["nvidia-cdi-hook", "update-ldcache"],
            }
        ],
    },
}
SPECS = (
    json.dumps(SPEC),
    json.dumps(SPEC, indent=1),
    "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices:\n- {name: all, containerEdits: {env: [A=b]}}\n",
    "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices: [{name: x}]\n"
    "containerEdits:\n  hooks:\n  - {path: /x/nvidia-ctk, args: [a, b]}",
)
KUBECONFIG = (
    "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    "clusters: [{name: c, cluster: {server: 'https://[::1]:6443'}}]\n"
    "users: [{name: u, user: {%s}}]\n"
)
KUBECONFIGS = (
    KUBECONFIG % "token: x",
    KUBECONFIG % "exec: {command: aws, args: [eks], apiVersion: client.authentication.k8s.io/v1}",
    "users:\n- name: u\n  user: {client-certificate-data: AA==}\n",
)


@pytest.mark.attack("hostile-configuration")
@counts
def test_hostile_configuration(count: int) -> None:
    Thrown(parse, NodeError).throw(inputs(CONFIGS, KEYS, count))


@pytest.mark.attack("hostile-configuration")
@counts
def test_hostile_environment(count: int) -> None:
    names = ("GPU_PLUGIN_METRICS_ADDRESS", "DEVICE_LIST_STRATEGY", "NVIDIA_DRIVER_ROOT", "MPS_ROOT")
    names += ("MIG_STRATEGY", "IMEX_CHANNEL_IDS", "GFD_SLEEP_INTERVAL", "FAIL_ON_INIT_ERROR")
    seen = [0]

    def one(text: str) -> None:
        seen[0] += 1
        parse("", env={names[seen[0] % len(names)]: text})

    Thrown(one, NodeError).throw(
        inputs((*VALUES, "envvar,cdi-cri", "/run/x", "mixed", "0", "true"), count=count)
    )


@pytest.mark.attack("hostile-configuration")
@counts
def test_hostile_values(count: int) -> None:
    readers = (
        lambda text: address("x", text),
        lambda text: interval("x", text),
        lambda text: overrides(text, text),
        parse_memory,
        lambda text: parse_percent("x", text),
        qualified,
        lambda text: Rule(text, "x").matches("NVIDIA A100-SXM4-40GB"),
        lambda text: Rule("*A*A*A*A*A*b", "x").matches(text),
        lambda text: extra("x", text),
    )
    seen = [0]

    def one(text: str) -> None:
        seen[0] += 1
        readers[seen[0] % len(readers)](text)

    Thrown(one, NodeError).throw(inputs((*VALUES, "example.com/a=1,example.com/b=2"), count=count))


@pytest.mark.attack("hostile-configuration")
@counts
def test_hostile_cdi_specification_of_others(count: int) -> None:
    def derive(text: str) -> None:
        found = cdi.read(text)
        specs, _nobodys = cdi.merge([(0, found), (0, SPEC), (1, found)])
        for spec in specs:
            json.dumps(cdi.derive(spec, "/opt/nvidia-cdi-hook", ("update-ldcache",)))
        cdi.names(specs)

    Thrown(derive, NodeError).throw(inputs(SPECS, count=count))


@pytest.mark.attack("hostile-configuration")
@counts
def test_hostile_cdi_specification_on_disk(count: int, tmp_path: Path) -> None:
    path = tmp_path / "nvidia.yaml"

    def look(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogatepass"))
        if not cdi_files.content(path)["devices"]:
            raise NodeError("no devices")

    Thrown(look, NodeError).throw(inputs(SPECS, count=count))


@pytest.mark.attack("hostile-configuration")
@counts
def test_hostile_kubeconfig(count: int) -> None:
    Thrown(lambda text: check(text, "kubeconfig"), NodeError).throw(
        inputs(KUBECONFIGS, count=count)
    )


@pytest.mark.attack("hostile-configuration")
@counts
def test_hostile_pci_and_proc(count: int) -> None:
    def read(text: str) -> None:
        minors = parse_minors(f"gpu0/gi1/access {text}")
        names = ("vendor", "device", "class", "numa_node")
        found = nvidia_device("0000:01:00.0", dict(zip(names, text.split("|"), strict=False)))
        if found is None and not minors:
            raise NodeError("nothing")

    samples = (
        "0x10de|0x2330|0x030200|0\n",
        "0x10de|0x22a3|0x068000|-1\n",
        "13\ngpu0/gi1/ci0/access 14",
    )
    Thrown(read, NodeError).throw(inputs(samples, ("0x10de|0x2330|0x030200|",), count))
