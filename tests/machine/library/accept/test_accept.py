# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs are tested under load while nobody has them: which pass, which do not, and what is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.record import PATH
from nvsim.testing import client

from tests.machine.library.accept.scene import MULTIPROCESSORS, AcceptScene
from tests.machine.library.repair.reset.scene import DCGM, LISTED, OPEN, PLUGIN, SERVED, uuids

FIGURES = {
    "multiprocessors",
    "float32_tflops",
    "tensor_tflops",
    "memory_tested_bytes",
    "memory_gb_per_s",
    "host_to_device_gb_per_s",
    "device_to_host_gb_per_s",
    "peer_gb_per_s",
}


def verdicts(answer: dict[str, Any]) -> list[str]:
    return [gpu["verdict"] for gpu in answer["gpus"]]


def test_healthy_gpus_pass_and_are_not_tested_again(node: AcceptScene) -> None:
    answer = node.run()
    assert answer.get("accepted"), answer["failed"]
    for gpu in answer["gpus"]:
        assert (gpu["verdict"], gpu["faults"]) == ("passed", [])
        assert set(gpu["figures"]) >= FIGURES
        assert gpu["figures"]["multiprocessors"] == MULTIPROCESSORS
    assert [entry["verdict"] for entry in node.record.values()] == ["passed", "passed"]
    assert answer["unaccepted"] == {"faulty": [], "untested": []}
    again = node.run()
    assert not again["changed"]
    assert again["gpus"] == answer["gpus"]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("bit", "float32 arithmetic: multiprocessor 3 computed"),
        ("cell", "memory: "),
        ("cuMemAlloc_v2", "float32 arithmetic: cuMemAlloc_v2: CUDA_ERROR_SYSTEM_NOT_READY"),
        ("cuInit", "the driver's library: cuInit: CUDA_ERROR_SYSTEM_NOT_READY"),
    ],
)
def test_fault_fails_its_gpu_alone(node: AcceptScene, fault: str, text: str) -> None:
    node.fault, node.bad_gpu = fault, uuids(node, 1)[0]
    answer = node.run()
    assert "1 of 2 GPUs are not accepted: GPU " + node.bad_gpu in answer["failed"]
    assert verdicts(answer) == ["passed", "failed"]
    assert any(line.startswith(text) for line in answer["gpus"][1]["faults"])
    assert "link to the host" in answer["gpus"][1]["not_measured"]
    assert [node.record[uuid]["verdict"] for uuid in uuids(node, 0, 1)] == ["passed", "failed"]
    (faulty,) = answer["unaccepted"]["faulty"]
    assert faulty.startswith(f"GPU {node.bad_gpu}: {text}")


def test_failed_gpu_is_tested_again_in_the_next_run(node: AcceptScene) -> None:
    node.fault, node.bad_gpu = "cell", uuids(node, 1)[0]
    node.run()
    node.fault = ""
    answer = node.run()
    assert [step["action"] for step in answer["steps"]] == ["test_gpus"]
    assert uuids(node, 0)[0] not in answer["steps"][0]["summary"]
    assert answer["accepted"]


def test_driver_that_hangs_is_killed_and_is_a_fault(node: AcceptScene) -> None:
    node.fault, node.bad_gpu = "hang", uuids(node, 1)[0]
    answer = node.run(limit=10.0)
    assert verdicts(answer)[1] == "failed"
    assert "killed" in answer["gpus"][1]["faults"][0]


def test_node_without_libcuda_is_never_accepted(node: AcceptScene) -> None:
    node.cuda = node.sim.folder
    answer = node.run()
    assert "libcuda.so.1" in answer["failed"]
    assert verdicts(answer) == ["incomplete", "incomplete"]
    assert answer["gpus"][0]["faults"] == []


def test_figure_below_its_floor_fails(node: AcceptScene) -> None:
    answer = node.run(floors={"memory_gb_per_s": 1e9})
    assert "memory_gb_per_s is" in answer["failed"]
    assert "less than its floor of 1e+09" in answer["failed"]


def test_gpu_in_use_is_never_tested(node: AcceptScene) -> None:
    holder = node.sim.hold(1)
    refused = node.run()
    assert "can't be tested" in refused["failed"]
    assert str(holder.pid) in refused["failed"]
    assert not refused["changed"]
    skipped = node.run(on_busy="skip")
    assert verdicts(skipped) == ["passed", "untested"]
    assert list(node.record) == uuids(node, 0)
    assert skipped["unaccepted"]["untested"] == [f"GPU {uuids(node, 1)[0]}: it was never tested"]
    assert not skipped["accepted"]
    node.change(comes="0")
    planned = node.run(check=True, test="always")
    assert planned["refused"]
    assert PATH in node["files"]


def test_services_that_advertise_gpus_stop_during_the_test(node: AcceptScene) -> None:
    node.change(**SERVED)
    answer = node.run(**LISTED)
    assert [step["action"] for step in answer["steps"]] == [
        "stop_services",
        "test_gpus",
        "start_services",
    ]
    assert node["services"] == SERVED["services"]
    assert node.ran() == [
        f"systemctl stop {DCGM}",
        f"systemctl stop {PLUGIN}",
        f"systemctl start {PLUGIN}",
        f"systemctl start {DCGM}",
    ]


def test_run_that_was_killed_leaves_no_pass(node: AcceptScene) -> None:
    node.change(**SERVED)
    assert node.run()["accepted"]
    node.killed(PATH, test="always")
    assert {entry["verdict"] for entry in node.record.values()} == {"started"}
    assert not node["services"][PLUGIN]
    answer = node.run()
    assert answer["accepted"]
    assert "its last test was cut off" in answer["diff"]["before"]
    assert node["services"][PLUGIN]


def test_gpu_in_mig_mode_is_untested(node: AcceptScene) -> None:
    client(node.sim, OPEN.replace("(0)", "(1)") + "n.nvmlDeviceSetMigMode(h, 1)")
    answer = node.run()
    assert verdicts(answer) == ["passed", "untested"]
    assert "it is in MIG mode" in answer["failed"]


def test_gpu_whose_compute_mode_keeps_processes_out_is_untested(node: AcceptScene) -> None:
    client(node.sim, OPEN + "n.nvmlDeviceSetComputeMode(h, n.NVML_COMPUTEMODE_PROHIBITED)")
    answer = node.run()
    assert verdicts(answer) == ["untested", "passed"]
    assert "set compute_mode to default first" in answer["failed"]


def test_check_mode_tests_nothing(node: AcceptScene) -> None:
    answer = node.run(check=True)
    assert answer["changed"]
    assert "it was never tested" in answer["diff"]["before"]
    assert PATH not in node["files"]
    assert verdicts(answer) == ["untested", "untested"]


def test_record_that_is_damaged_is_no_pass(node: AcceptScene) -> None:
    node.change(files={PATH: "{"})
    assert f"{PATH} is damaged" in node.run()["failed"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"floors": {"memory_gbps": 1}}, "floors: 'memory_gbps' is not valid: expected one of"),
        ({"floors": {"peer_gb_per_s": 0}}, "floors.peer_gb_per_s: 0 is not valid"),
        ({"floors": {"peer_gb_per_s": True}}, "floors.peer_gb_per_s: True is not valid"),
        ({"duration": 0}, "duration: 0 is not valid: expected 1 to 3600 seconds"),
        ({"valid_for": -1}, "valid_for: -1 is not valid"),
        ({"gpus": ["7"]}, "gpus: '7' is not valid"),
    ],
)
def test_bad_options_are_refused(node: AcceptScene, params: dict[str, Any], text: str) -> None:
    answer = node.run(**params)
    assert text in answer["failed"]
    assert not answer["changed"]
