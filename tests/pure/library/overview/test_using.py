# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who uses what: processes with what runs them, and devices with their places."""

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.gpu import MigDevice
from ansible_collections.gpu.node.plugins.module_utils._checks.report import status
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import Allocation
from ansible_collections.gpu.node.plugins.module_utils._node.users.users import Container, User

from tests.fakes.library.grids import A100, GPU, instance

MIG = "MIG-00000000-0000-0000-0000-000000000001"


def gpu() -> dict[str, Any]:
    """Return a GPU as gpu_info tells it."""
    device = MigDevice(MIG, GPU.uuid, 0, 0, 1, 0, "3g.20gb", 20 << 30)
    process = {"pid": 7, "name": "python", "gpu_uuid": GPU.uuid, "gi_id": 1, "ci_id": 0}
    return {
        **dataclasses.asdict(GPU),
        "compute_capability": "8.0",
        "gpu_instances": [
            {**dataclasses.asdict(instance(A100, "3g.20gb", 0, 1)), "profile": "3g.20gb"}
        ],
        "mig_devices": [dataclasses.asdict(device)],
        "processes": [process],
    }


def test_processes_have_what_runs_them() -> None:
    users = [
        User(7, "python", "", Container("a" * 64, "docker", "train"), "team/pod"),
        User(8, "nv-hostengine", "dcgm.service"),
    ]
    known, unseen = status.processes([gpu()], users)
    assert (known["pod"], known["container"], known["gi_id"]) == ("team/pod", "train", 1)
    assert (unseen["name"], unseen["unit"], unseen["gpu"]) == ("nv-hostengine", "dcgm.service", "")


def test_a_process_that_nobody_knows_more_of_is_told_of() -> None:
    (found,) = status.processes([gpu()], [])
    assert (found["pid"], found["pod"], found["unit"]) == (7, "", "")


def test_devices_of_pods_and_claims_have_their_places() -> None:
    given = [
        Allocation("team", "pod", "main", "nvidia.com/mig-3g.20gb", MIG),
        Allocation("team", "claim", "", "gpu.node", "gpu-0-mig-3g20gb-9-0"),
        Allocation("team", "gone", "main", "nvidia.com/gpu", MIG[:-1] + "2"),
    ]
    found = status.allocations(given, [gpu()])
    whole = {"gpu": GPU.uuid, "gi_id": 1}
    assert [one["places"] for one in found] == [
        [{**whole, "ci_id": 0}],
        [{**whole, "ci_id": None}],
        [],
    ]
