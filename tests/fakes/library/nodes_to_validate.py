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
    ContainerState,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.daemon import PluginReport
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.driver import DriverFacts
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.gpus import GpuState, Layout
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.node import (
    NodeState,
    ValidateOptions,
    evaluate_checks,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.services import (
    Holds,
    ServiceState,
    Unit,
)

from tests.fakes.library.gpu_values import gpu, mig

VERSION = "550.163.01"
PLAIN, PARTED = gpu(0), gpu(1, mig=True)
MIGS = (mig(PARTED, 0).uuid, mig(PARTED, 1).uuid)
PARTS_OF_NODE = frozenset({"runtime", "mig", "cdi", "device_plugin", "labels"})
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


def daemon(told: t.Optional[t.Mapping[str, t.Any]] = None) -> PluginReport:
    """Return what the device plugin says, this more than good."""
    return PluginReport.from_answer(json.dumps({**GOOD, **(told or {})}))


PARTS: dict[str, t.Any] = {
    "gpus": GpuState,
    "containers": ContainerState,
    "services": ServiceState,
}
# The names by which tests change a node, with the part and the field that each is.
FIELDS = {field: (part, field) for part, kind in PARTS.items() for field in kind._fields}
RENAMED = {"pci_gpus": "on_bus", "gpus": "answering", "lost_gpus": "lost", "containers": "answers"}
FIELDS |= {name: FIELDS.pop(field) for name, field in RENAMED.items()}


def node(told: t.Optional[t.Mapping[str, t.Any]] = None, **changes: t.Any) -> NodeState:
    """Return a node as it should be but for what the daemon tells and for these changes, by the names of FIELDS."""
    uuids = (PLAIN.uuid, PARTED.uuid)
    state = NodeState(
        GpuState(2, answering=(PLAIN, PARTED), mig_uuids=MIGS, layout=Layout("half")),
        parts=PARTS_OF_NODE,
        driver=DriverFacts(
            loaded=VERSION,
            libraries=(VERSION,),
            kernels=("6.1.0-1",),
            switches=True,
            fabric="active",
        ),
        plugin=daemon(told),
        kubelet=True,
        containers=ContainerState(
            {"containerd": Check("containerd: CDI")}, {"containerd": Answer(uuids, cuda="")}
        ),
        services=ServiceState(
            (Unit("gpu-device-plugin.service", "enabled", "active"),),
            Holds(frozenset({"nvidia-smi"}), frozenset({"nvidia-smi", "linux-image-amd64"})),
        ),
    )
    for name, value in changes.items():
        part, field = FIELDS.get(name, ("", ""))
        change = {part: getattr(state, part)._replace(**{field: value})} if part else {name: value}
        state = state._replace(**change)
    return state


def driver(**changes: t.Any) -> dict[str, DriverFacts]:
    """Return the change of a node to a driver that is not as it should be."""
    return {"driver": dataclasses.replace(node().driver, **changes)}


def told(one: NodeState, state: str, wanted: t.Optional[ValidateOptions] = None) -> dict[str, str]:
    """Return what is said of the checks in a state, by their names."""
    return {
        check.name: f"{check.cause} -> {check.next_step}" if check.next_step else check.cause
        for check in evaluate_checks(one, wanted or ValidateOptions())
        if check.state == state
    }


def failures(one: NodeState, wanted: t.Optional[ValidateOptions] = None) -> dict[str, str]:
    """Return what is said of the checks that fail."""
    return told(one, "failed", wanted)


def resource(**changes: t.Any) -> dict[str, t.Any]:
    """Return what the daemon and the kubelet say of a resource."""
    good = {"devices": {PLAIN.uuid: "Healthy"}, "problems": {}, "registered": True}
    return {
        "resources": {"nvidia.com/gpu": {**good, **changes}},
        "allocatable": {"nvidia.com/gpu": 1},
    }
