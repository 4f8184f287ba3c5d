# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What gpu.node.plan tells with its option status, on machines of dictionaries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._checks.report.machine import overview
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine.allocated import (
    CHECKPOINT,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.machine.observe_node import JOURNAL

from tests.fakes.library.fakes import OS_RELEASE, FakeHost

STATUS = (PROGRAM, "status", "--json")
PODS = (PROGRAM, "pods", "--json")
KUBELET = "/var/lib/kubelet/pod-resources/kubelet.sock"
UUID = "GPU-00000000-0000-0000-0000-000000000000"
GPU = {
    "index": 0,
    "uuid": UUID,
    "name": "NVIDIA L40S",
    "pci_bus_id": "00000000:18:00.0",
    "minor": 0,
    "memory_total": 1,
    "compute_capability": "8.9",
    "mig_capable": False,
    "mig_current": False,
    "mig_pending": False,
    "pci_device_id": 0,
    "pci_subsystem_id": 0,
    "gpu_instances": [],
    "mig_devices": [],
    "processes": [],
}
INFO: dict[str, Any] = {"driver": {"version": "580.178.04", "kind": "open"}, "gpus": [GPU]}


def host(**commands: Any) -> FakeHost:
    return FakeHost({"/etc/os-release": OS_RELEASE, KUBELET: ""}, commands.get("commands", {}))


def test_everything_is_told_of_a_node_in_service() -> None:
    given = {"namespace": "a", "pod": "b", "container": "c", "resource": "nvidia.com/gpu"}
    pods = {"version": 1, "allocations": [{**given, "device": UUID}]}
    labels = {"state": "serving", "problem": "", "labels": {"nvidia.com/gpu.count": "1"}}
    told = {"state": "serving", "resources": {}, "labels": labels}
    machine = host(commands={STATUS: json.dumps(told), PODS: json.dumps(pods)})
    machine.files.update({"/run/reboot-required": "", "/run/reboot-required.pkgs": "linux-base\n"})
    found = overview(machine, INFO)
    assert found["host"]["system"] == "Debian GNU/Linux 13 (trixie)"
    assert found["driver"]["support"]["branch"] == "580"
    assert found["labels"]["labels"] == {"nvidia.com/gpu.count": "1"}
    (one,) = found["allocations"]
    assert (one["pod"], one["places"][0]["gpu"]) == ("b", UUID)
    assert found["reboot"] == ["the distribution asks for it (linux-base)"]
    json.dumps(found)


def test_what_can_not_be_asked_is_said() -> None:
    machine = host(commands={PODS: Completed(1, "", "the kubelet is silent")})
    machine.files[CHECKPOINT] = "{}"
    found = overview(machine, INFO)
    assert "the kubelet is silent" in found["allocations_unknown"]
    assert "not found" in found["daemon"]["problem"]


LOG = ("sh", "-c", JOURNAL)
UNKNOWN_XID = "NVRM: Xid (GPU 0000:18:00): 79, GPU has fallen off the bus."


def test_xids_that_can_not_be_read_are_told_with_their_number_and_one_of_them() -> None:
    lines = "".join(f"{4102444800 + at}.5 node-1 kernel: {UNKNOWN_XID}\n" for at in range(3))
    told = overview(host(commands={LOG: lines}), INFO)["kernel_log"]
    assert len(told) == 1
    assert "3 lines of the kernel's log about XIDs or SXIDs could not be read" in told[0]
    assert UNKNOWN_XID in told[0]
    json.dumps(told)


def test_a_log_that_is_not_read_in_time_is_told_and_one_without_faults_is_not() -> None:
    assert overview(host(), INFO)["kernel_log"] == []
    (told,) = overview(host(commands={("sh", "-c"): Completed(124, "", "")}), INFO)["kernel_log"]
    assert "the kernel's log could not be read within" in told


def test_without_a_driver_the_log_is_not_read() -> None:
    machine = FakeHost({})
    assert overview(machine, {"driver": None, "gpus": []})["kernel_log"] == []
    assert [ran for ran in machine.ran if ran[0] == "sh"] == []


def test_a_bare_node_is_not_asked_for_a_daemon() -> None:
    machine = FakeHost({})
    found = overview(machine, {"driver": None, "gpus": []})
    assert found["driver"] == {}
    assert found["daemon"]["problem"] == ""
    assert STATUS not in [ran[:3] for ran in machine.ran]


def test_the_table_is_the_users() -> None:
    assert overview(host(), INFO, releases=False)["driver"]["support"] == {}
    with pytest.raises(InputError, match="releases"):
        overview(host(), INFO, releases=5)
