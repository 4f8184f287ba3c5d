# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The level standard: tools of other vendors run for the GPUs that passed the load test, and all of them must pass."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.machine.tools import ToolProcesses
from ansible_collections.gpu.node.plugins.module_utils._accept.plan import (
    AcceptOptions,
    ToolSource,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.record import PATH
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._repair.reset.state import ResetGpu
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import GpuSigns

from tests.fakes.accept.recorded import SECRET, load
from tests.machine.library.accept.scene import AcceptScene
from tests.machine.library.repair.reset.scene import uuids

DCGM, BANDWIDTH, NCCL = (load(tool) for tool in ("dcgm", "nvbandwidth", "nccl"))
VERSIONS = {"dcgmi": "4.6.0", "nvbandwidth": "v0.8", "all_reduce_perf": "2.19.6"}


def diagnostic(node: AcceptScene, name: str, then: str = "") -> str:
    """Return the path of a dcgmi that prints a recorded output, without the serial numbers of other GPUs."""
    recorded = DCGM[name].run
    output = recorded.output.replace('"serial_num"', '"other"')
    return node.tool("dcgmi", recorded._replace(output=output), then)


def tools(node: AcceptScene, **names: str) -> dict[str, str]:
    """Return the paths of tools that print recorded outputs, which are those of a pass if none is named."""
    return {
        "dcgmi": diagnostic(node, names.get("dcgmi", "pass_level_2")),
        "nvbandwidth": node.tool("nvbandwidth", BANDWIDTH[names.get("nvbandwidth", "pass")].run),
        "all_reduce_perf": node.tool("all_reduce_perf", NCCL[names.get("nccl", "pass")].run),
    }


def run(node: AcceptScene, paths: dict[str, Any], **params: Any) -> dict[str, Any]:
    return node.run(level="standard", tools=paths, **params)


def verdicts(answer: dict[str, Any]) -> list[str]:
    return [gpu["verdict"] for gpu in answer["gpus"]]


def test_gpus_that_pass_all_tools_are_accepted_at_level_standard(node: AcceptScene) -> None:
    paths = tools(node)
    answer = run(node, paths)
    assert answer.get("accepted"), answer
    for gpu in answer["gpus"]:
        assert (gpu["level"], gpu["tools"], gpu["faults"]) == ("standard", VERSIONS, [])
        assert gpu["figures"]["nccl_all_reduce_gb_per_s"] == 318.4
        assert gpu["figures"]["nvbandwidth_device_to_host_gb_per_s"] > 50
    again = run(node, paths)
    assert not again["changed"]
    assert again["gpus"] == answer["gpus"]
    assert not node.run()["changed"]  # it is a pass at level quick, too
    deeper = run(node, paths, dcgm_level=3, check=True)
    assert "dcgmi diag has tested it at level 2" in deeper["diff"]["before"]


def test_pass_at_level_quick_is_none_at_level_standard(node: AcceptScene) -> None:
    quick = node.run()
    assert quick["accepted"]
    assert {gpu["level"] for gpu in quick["gpus"]} == {"quick"}
    assert "level" not in node.record[uuids(node, 0)[0]]  # earlier releases read it, too
    answer = run(node, tools(node))
    assert "it was tested at level quick" in answer["diff"]["before"]
    assert answer["accepted"]


def test_tools_see_the_tested_gpus_and_no_secrets(node: AcceptScene) -> None:
    run(node, tools(node))
    visible = ",".join(uuids(node, 0, 1))
    for name in ("dcgmi", "nvbandwidth", "all_reduce_perf"):
        _argv, environment = node.called(name)
        assert environment["PATH"]
        assert not [key for key in environment if key.startswith("NODE_")]  # as the module has them
        assert environment.get("CUDA_VISIBLE_DEVICES", visible) == visible
        assert ("CUDA_VISIBLE_DEVICES" in environment) == (name != "dcgmi")
    assert node.called("dcgmi")[0] == ["diag", "-r", "2", "-j", "-i", "0,1"]
    assert "device_to_device_memcpy_read_ce" in node.called("nvbandwidth")[0]
    assert node.called("all_reduce_perf")[0][:2] == ["-g", "2"]
    assert SECRET not in node["files"][PATH]


@pytest.mark.parametrize(
    ("names", "verdict", "text"),
    [
        ({"dcgmi": "all_skip"}, "incomplete", "dcgmi diag: memory, "),
        ({"dcgmi": "system_error"}, "incomplete", "the GPUs are not supported"),
        ({"nvbandwidth": "throws"}, "failed", "device_to_device_memcpy_read_ce: it ended with"),
        ({"nvbandwidth": "waived"}, "incomplete", "its status is Waived"),
        ({"nccl": "wrong_values"}, "failed", "nccl-tests: all_reduce_perf: 12 wrong values"),
        ({"nccl": "killed"}, "incomplete", "it ended with status 137"),
    ],
)
def test_tool_without_a_pass_is_no_pass(
    node: AcceptScene, names: dict[str, str], verdict: str, text: str
) -> None:
    answer = run(node, tools(node, **names))
    assert text in answer["failed"]
    assert verdicts(answer) == [verdict] * 2
    assert {entry["verdict"] for entry in node.record.values()} == {verdict}
    assert SECRET not in str(answer)


def test_fault_of_one_gpu_in_dcgm_fails_it_alone(node: AcceptScene) -> None:
    answer = run(node, tools(node, dcgmi="fail_memory"))
    assert verdicts(answer) == ["passed", "failed"]
    assert "dcgmi diag: memory: A memory mismatch was detected on GPU 1" in answer["failed"]


def test_fault_that_a_tool_has_found_is_not_cleared_at_level_quick(node: AcceptScene) -> None:
    run(node, tools(node, dcgmi="fail_memory"))
    quick = node.run()
    assert verdicts(quick) == ["passed", "failed"]
    assert "dcgmi diag: memory: A memory mismatch was detected on GPU 1" in quick["failed"]
    node.killed(PATH)
    (faulty,) = node.run(check=True)["unaccepted"]["faulty"]
    assert "memory mismatch" in faulty
    without = run(node, {**tools(node), "dcgmi": ""}, test="always")
    assert verdicts(without) == ["passed", "failed"]
    assert run(node, tools(node), test="always")["accepted"]


def test_gpu_that_fails_the_load_test_is_left_out_of_the_tools(node: AcceptScene) -> None:
    node.fault, node.bad_gpu = "cell", uuids(node, 1)[0]
    paths = tools(node, dcgmi="one_gpu", nvbandwidth="one_gpu", nccl="one_gpu")
    answer = run(node, paths)
    assert verdicts(answer) == ["passed", "failed"]
    assert node.called("dcgmi")[0][-1] == "0"
    assert node.called("nvbandwidth")[1]["CUDA_VISIBLE_DEVICES"] == uuids(node, 0)[0]
    assert "device_to_device_memcpy_read_ce" not in node.called("nvbandwidth")[0]
    assert node.called("all_reduce_perf")[0][:2] == ["-g", "1"]
    reasons = answer["gpus"][1]["not_measured"]
    assert reasons["nvbandwidth"] == "the load test of the GPU did not pass"


def test_links_to_a_gpu_that_fails_the_load_test_are_left_out_of_the_tools(
    node: AcceptScene,
) -> None:
    left_out = {"dcgmi": None, "all_reduce_perf": None}
    source = ToolSource(node.tool("nvbandwidth", BANDWIDTH["one_gpu"].run))
    options = AcceptOptions(level="standard", tools={**left_out, "nvbandwidth": source})
    pairs = (("GPU-0", "GPU-1"), ("GPU-1", "GPU-0"))
    gpu = ResetGpu(GpuSigns("GPU-0"), "0000:19:00.0")
    result = ToolProcesses(Host(), options, pairs).test([gpu])["nvbandwidth"]
    assert result.passed("GPU-0")
    assert "device_to_device_memcpy_read_ce" not in node.called("nvbandwidth")[0]


def test_no_tool_runs_if_no_gpu_passes_the_load_test(node: AcceptScene) -> None:
    node.fault = "cell"
    answer = run(node, tools(node))
    assert verdicts(answer) == ["failed"] * 2
    assert node.called("dcgmi") == ([], {})


def test_gpus_without_access_to_each_other_need_no_test_of_it(node: AcceptScene) -> None:
    node.fault = "no_peers"
    answer = run(node, tools(node, nvbandwidth="no_peer_access"))
    assert "device_to_device_memcpy_read_ce" not in node.called("nvbandwidth")[0]
    assert answer["accepted"]


def test_tool_that_is_not_there_is_no_pass_unless_it_is_left_out(node: AcceptScene) -> None:
    paths = tools(node)
    del paths["dcgmi"]
    answer = run(node, paths)
    assert verdicts(answer) == ["incomplete"] * 2
    assert "not measured: dcgmi diag (it is not installed" in answer["failed"]
    image = {"image": "registry.example.org/gpu-tests:1"}
    answer = run(node, {**paths, "dcgmi": image})
    assert "not measured: dcgmi diag (none of podman, docker, nerdctl is" in answer["failed"]
    answer = run(node, {**paths, "dcgmi": ""})
    assert answer["accepted"]
    assert set(answer["gpus"][0]["tools"]) == {"nvbandwidth", "all_reduce_perf"}
    before = run(node, tools(node), check=True)["diff"]["before"]
    assert "it was tested without dcgmi" in before


def test_tool_that_hangs_is_killed(node: AcceptScene) -> None:
    paths = {**tools(node), "dcgmi": diagnostic(node, "pass_level_2", "sleep 600")}
    answer = run(node, paths, tool_limit=2.0)
    assert "it had not ended after 2 seconds and was killed" in answer["failed"]
    assert verdicts(answer) == ["incomplete"] * 2


def test_floors_of_figures_of_tools(node: AcceptScene) -> None:
    floors = {"nccl_all_reduce_gb_per_s": 1000}
    assert node.run(floors=floors)["accepted"]  # level quick has no such figure
    answer = run(node, tools(node), floors=floors)
    assert "nccl_all_reduce_gb_per_s is 318.4, less than its floor of 1000" in answer["failed"]


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ({"dcgm": "/usr/bin/dcgmi"}, "tools: 'dcgm' is not valid: expected one of dcgmi"),
        ({"dcgmi": "dcgmi"}, "tools.dcgmi: 'dcgmi' is not valid: expected an absolute path"),
        ({"dcgmi": 1}, "tools.dcgmi: 1 is not valid: expected an absolute path, an image, or"),
        ({"dcgmi": {"path": "/x"}}, "tools.dcgmi: {'path': '/x'} is not valid: expected an image"),
        ({"dcgmi": {"image": "i", "args": []}}, "is not valid: expected an image, and its path"),
        ({"dcgmi": {"image": "--privileged"}}, "tools.dcgmi.image: '--privileged' is not valid"),
        ({"dcgmi": {"image": ""}}, "tools.dcgmi.image: '' is not valid: expected the name of an"),
        ({"dcgmi": {"image": "i", "path": "-x"}}, "tools.dcgmi.path: '-x' is not valid"),
        (
            {"dcgmi": "", "nvbandwidth": "", "all_reduce_perf": ""},
            "tools: {'dcgmi': '', 'nvbandwidth': '', 'all_reduce_perf': ''} is not valid: expected a tool that is",
        ),
    ],
)
def test_bad_tools_are_refused(node: AcceptScene, paths: dict[str, Any], text: str) -> None:
    answer = run(node, paths)
    assert text in answer["failed"]
    assert not answer["changed"]
