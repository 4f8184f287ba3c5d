# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node as it should be, for what judges nodes: a whole GPU and a partitioned one, with all parts of gpu.node."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._checks.validate.check import Check
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.containers import (
    Answer,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.daemon import Daemon
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.driver import Driver
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.gpus import Layout
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.node import (
    Node,
    Wanted,
    checks,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.services import Holds, Unit

from tests.fakes.library.gpu_values import gpu, mig

VERSION = "550.163.01"
PLAIN, PARTED = gpu(0), gpu(1, mig=True)
MIGS = (mig(PARTED, 0).uuid, mig(PARTED, 1).uuid)
PARTS = frozenset({"runtime", "mig", "cdi", "device_plugin", "labels"})
CDI = {
    "path": "/etc/cdi/nvidia.yaml",
    "failed": False,
    "devices": ["0", PLAIN.uuid, "1:0", MIGS[0], "1:1", MIGS[1], "all"],
    "missing": [],
}
GOOD: dict[str, t.Any] = {
    "state": "serving",
    "problem": None,
    "resources": {
        "nvidia.com/gpu": {"devices": {PLAIN.uuid: "Healthy"}, "problems": {}, "registered": True},
        "nvidia.com/mig-1g.5gb": {
            "devices": dict.fromkeys(MIGS, "Healthy"),
            "problems": {},
            "registered": True,
        },
    },
    "allocatable": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 2},
    "kubelet_problem": None,
    "mig_uuids": list(MIGS),
    "mig_boot": {"state": "done", "problems": []},
    "mps": {PLAIN.uuid: {"problem": "", "waits_for_clients": False}},
    "cdi": CDI,
    "labels": {
        "state": "labelled",
        "problem": None,
        "labels": {"nvidia.com/cuda.driver-version.full": VERSION},
    },
}


def daemon(told: t.Optional[t.Mapping[str, t.Any]] = None) -> Daemon:
    """Return what the device plugin says, this more than good."""
    return Daemon.of(json.dumps({**GOOD, **(told or {})}))


def node(told: t.Optional[t.Mapping[str, t.Any]] = None, **changes: t.Any) -> Node:
    """Return a node as it should be but for what the daemon tells and for these changes."""
    uuids = (PLAIN.uuid, PARTED.uuid)
    whole = Node(
        pci_gpus=2,
        parts=PARTS,
        driver=Driver(
            loaded=VERSION,
            libraries=(VERSION,),
            kernels=("6.1.0-1",),
            switches=True,
            fabric="active",
        ),
        gpus=(PLAIN, PARTED),
        mig_uuids=MIGS,
        layout=Layout("half"),
        daemon=daemon(told),
        kubelet=True,
        runtimes={"containerd": Check("containerd: CDI")},
        containers={"containerd": Answer(uuids, cuda="")},
        units=(Unit("gpu-device-plugin.service", "enabled", "active"),),
        holds=Holds(frozenset({"nvidia-smi"}), frozenset({"nvidia-smi", "linux-image-amd64"})),
    )
    return dataclasses.replace(whole, **changes)


def driver(**changes: t.Any) -> dict[str, Driver]:
    """Return the change of a node to a driver that is not as it should be."""
    return {"driver": dataclasses.replace(node().driver, **changes)}


def told(one: Node, state: str, wanted: t.Optional[Wanted] = None) -> dict[str, str]:
    """Return what is said of the checks in a state, by their names."""
    return {
        check.name: f"{check.cause} -> {check.next_step}" if check.next_step else check.cause
        for check in checks(one, wanted or Wanted())
        if check.state == state
    }


def failures(one: Node, wanted: t.Optional[Wanted] = None) -> dict[str, str]:
    """Return what is said of the checks that fail."""
    return told(one, "failed", wanted)


def resource(**changes: t.Any) -> dict[str, t.Any]:
    """Return what the daemon and the kubelet say of a resource."""
    good = {"devices": {PLAIN.uuid: "Healthy"}, "problems": {}, "registered": True}
    return {
        "resources": {"nvidia.com/gpu": {**good, **changes}},
        "allocatable": {"nvidia.com/gpu": 1},
    }
