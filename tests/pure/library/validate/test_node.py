# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From what a node shows to the checks that it passes."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Process
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.check import (
    FAILED,
    SKIPPED,
    Check,
    lines,
    message,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.containers import Answer
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.daemon import (
    Mount,
    PluginReport,
    Share,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.gpus import idle_device
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.node import (
    COMPONENTS,
    ValidateOptions,
    evaluate_checks,
    may_settle,
    required_components,
    summarize,
)
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import Change
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.gpu_values import mig
from tests.fakes.library.nodes_to_validate import (
    CDI,
    GOOD,
    MIGS,
    PARTED,
    PLAIN,
    daemon,
    driver,
    failures,
    node,
    told,
)

NAMES = [
    "driver",
    "driver version",
    "reboot",
    "kernels",
    "fabric manager",
    "device nodes",
    "holds",
    "GPUs",
    "MIG",
    "MIG at boot",
    "CDI",
    "CDI devices",
    "CDI files",
    "CDI specification",
    "containerd: CDI",
    "containerd: container",
    "CUDA",
    "device plugin",
    "registration",
    "allocatable",
    "devices",
    "MPS",
    "health",
    "labels",
    "services",
    "in service",
]


def test_a_node_as_it_should_be_passes_every_check() -> None:
    found = evaluate_checks(node(), ValidateOptions())
    assert [one.name for one in found] == NAMES
    assert [one.name for one in found if one.state != "passed"] == []
    assert message(found) == ""
    assert summarize(node(), found) == "ready, 2 GPUs, 2 MIG devices, 3 devices advertised"


@pytest.mark.parametrize("change", [Change("mig", "ctl-1", "root"), Change()])
def test_a_change_that_was_left_in_the_middle_fails_but_within_it(change: Change) -> None:
    found = failures(node(change=change))
    assert found["in service"].startswith("the node is in the middle of ")
    assert " to its end, which puts the node back" in found["in service"]
    within = evaluate_checks(node(change=change), ValidateOptions(change="mig"))
    assert [one.name for one in within if not one.holds] == ([] if change.host else ["in service"])


def test_a_driver_that_does_not_answer() -> None:
    silent = node(
        gpus=(),
        mig_uuids=(),
        containers={},
        **driver(problem="it is not loaded.", loaded=""),
    )
    found = failures(silent)
    assert found["driver"] == "it is not loaded. -> run gpu.node.gpu_nodes"
    assert found["GPUs"].startswith("0 of 2 GPUs on the PCI bus answer -> see the kernel's log")
    assert "driver: it is not loaded. Next step: run gpu.node.gpu_nodes\n" in message(
        evaluate_checks(silent, ValidateOptions())
    )
    skipped = told(silent, SKIPPED)
    assert (
        skipped["MIG"]
        == skipped["CDI devices"]
        == skipped["devices"]
        == "the driver does not answer"
    )
    assert skipped["CUDA"] == "the driver does not answer"


def test_a_slurm_node_is_not_red_for_what_it_does_not_have() -> None:
    bare = node(
        {"state": "not_running"}, parts=frozenset({"mig"}), runtimes={}, containers={}, units=()
    )
    assert failures(bare) == {}
    assert told(bare, SKIPPED)["device plugin"] == "not set up on this node"
    wanted = ValidateOptions(components=required_components(["driver", "mig"]))
    assert failures(bare, wanted) == {}
    assert told(bare, SKIPPED, wanted)["labels"] == "labels is not among gpu_nodes_components"
    assert summarize(bare, evaluate_checks(bare, wanted)) == "ready, 2 GPUs, 2 MIG devices"


def test_a_part_that_is_wanted_and_not_there_is_red() -> None:
    bare = node({"state": "not_running", "labels": None}, parts=frozenset())
    found = failures(
        bare, ValidateOptions(components=required_components(["device_plugin", "labels"]))
    )
    assert found["device plugin"].startswith("the device plugin is not serving (it does not run)")
    assert found["labels"].startswith("nothing keeps the node's labels up to date")


def test_all_components_say_nothing_of_this_node() -> None:
    assert required_components(COMPONENTS) == required_components([]) == frozenset()
    with pytest.raises(
        InputError, match="components: 'slurm' is not valid: expected one of host, driver"
    ):
        required_components(["slurm"])


def test_no_kubelet_at_all_is_said_and_can_be_an_error() -> None:
    """A node that was green, without a word, where no kubelet had ever registered its GPUs."""
    resources = {"nvidia.com/gpu": {"devices": {PLAIN.uuid: "Healthy"}, "registered": False}}
    alone = node(
        {"resources": resources, "allocatable": {}, "kubelet_problem": "no socket"}, kubelet=False
    )
    assert failures(alone) == {}
    assert told(alone, "warning")["registration"] == (
        "no kubelet has registered the GPUs yet -> "
        "join the node to its cluster; gpu_nodes_require_kubelet makes this an error"
    )
    assert summarize(alone, evaluate_checks(alone, ValidateOptions())) == (
        "ready, 1 warning, 2 GPUs, 2 MIG devices, none advertised"
    )
    required = failures(alone, ValidateOptions(kubelet=True))
    assert list(required) == ["registration"]
    assert "gpu_nodes_require_kubelet is set" in required["registration"]
    assert (
        "the kubelet has not registered nvidia.com/gpu"
        in failures(node({"resources": resources, "allocatable": {}}))["registration"]
    )


def test_what_may_be_on_its_way_is_looked_at_again() -> None:
    late = {"allocatable": {"nvidia.com/gpu": 1}}
    assert may_settle(evaluate_checks(node(late), ValidateOptions()))
    assert not may_settle(evaluate_checks(node(), ValidateOptions()))
    assert not may_settle(evaluate_checks(node(late, pci_gpus=3), ValidateOptions()))


def test_devices_of_a_layout_that_was_just_made_are_looked_at_again() -> None:
    """The device plugin calls them unhealthy until the CDI specification has them."""
    gpu = {"devices": {"GPU-1": "Unhealthy", "GPU-2": "Healthy"}, "registered": True}
    found = evaluate_checks(node({"resources": {"nvidia.com/gpu": gpu}}), ValidateOptions())
    assert "health" in {one.name for one in found if one.state == "failed"}
    assert may_settle(found)


def test_a_device_that_nobody_uses_is_found() -> None:
    one, two = mig(PARTED, 0), mig(PARTED, 1)
    on_whole = Process(1, "python", PLAIN.uuid)
    on_part = Process(2, "python", PARTED.uuid, one.gi_id, 0)
    assert idle_device([PLAIN, PARTED], [one, two], [], ()) == PLAIN.uuid
    assert idle_device([PLAIN, PARTED], [one, two], [on_whole, on_part], ()) == two.uuid
    assert idle_device([PLAIN, PARTED], [one, two], [on_part], {PLAIN.uuid}) == two.uuid
    assert idle_device([PLAIN, PARTED], [one, two], [], {PLAIN.uuid, *MIGS}) == ""


def test_what_pods_and_mps_daemons_have_is_in_use() -> None:
    rows = [
        {"uuid": "GPU-1", "used_by": [{"pod": "a"}], "mps": ""},
        {"uuid": "GPU-2", "used_by": [], "mps": "ready"},
        {"uuid": "GPU-3", "used_by": [], "mps": ""},
        "?",
    ]
    assert daemon({"hardware": rows}).used == {"GPU-1", "GPU-2"}


def test_client_that_exceeds_its_share_fails_the_check_of_mps() -> None:
    over = node(client=Answer(cuda="132 of 132 multiprocessors can be used"))
    assert failures(over) == {
        "MPS": "a client with a free share fails: 132 of 132 multiprocessors can be used -> "
        "see the log of gpu-mps.service, and docs/runbooks/mps-pods-hang.md"
    }


def test_node_of_shares_alone_is_tried_by_a_client_of_mps() -> None:
    busy = node(containers={}, cuda_unknown="every device is in use")
    assert told(busy, SKIPPED)["CUDA"] == "every device is in use"
    tried = node(containers={}, cuda_unknown="every device is in use", client=Answer(cuda=""))
    assert [
        check.name for check in evaluate_checks(tried, ValidateOptions()) if check.state != "passed"
    ] == []


def test_free_shares_are_read_with_what_a_container_gets() -> None:
    mounts = [{"inside": "/tmp/nvidia-mps", "outside": "/run/x/pipe", "read_only": True}]
    share = {"device": "GPU-1", "env": {"A": "b"}, "mounts": mounts}
    damaged = {"device": "GPU-2", "env": {"A": "b"}, "mounts": [{"inside": "/tmp"}]}
    assert daemon({"mps_shares": [share, damaged, "?"]}).free_shares == (
        Share("GPU-1", {"A": "b"}, (Mount("/tmp/nvidia-mps", "/run/x/pipe", read_only=True),)),
    )


def test_a_message_names_every_failed_check() -> None:
    one = Check("driver", FAILED, "it is not there", "install it")
    assert message([one, Check("GPUs")]) == "driver: it is not there. Next step: install it"
    two = Check("GPUs", FAILED, "none answers", "look")
    assert message([one, two, Check("CDI")]).splitlines() == [
        "2 of 3 checks fail",
        "driver: it is not there. Next step: install it",
        "GPUs: none answers. Next step: look",
    ]


def test_a_display_has_a_line_for_each_state() -> None:
    found = [
        Check("driver"),
        Check("MIG", SKIPPED, "no layout"),
        Check("GPUs"),
        Check("CDI", FAILED, "gone", "look"),
        Check("MIG at boot", SKIPPED, "no layout"),
    ]
    assert lines(found) == [
        "passed: driver, GPUs",
        "skipped: MIG, MIG at boot (no layout)",
        "failed: CDI",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
PARTS = st.sampled_from([*sorted(GOOD), "hardware", "mps_shares"])
INNER = st.sampled_from(sorted({"state", "problems", "problem", "missing", "devices", *CDI}))
TOLD = st.dictionaries(PARTS, JSON | st.dictionaries(INNER, JSON, max_size=4))


@given(
    said=TOLD,
    problem=st.text(),
    gpus=st.sets(st.sampled_from((PLAIN, PARTED))),
    migs=st.sets(st.sampled_from(MIGS)),
    on_bus=st.integers(0, 3),
    gpu_count=st.integers(-2, 3),
    parts=st.sets(st.sampled_from(COMPONENTS)),
    named=st.lists(st.sampled_from(COMPONENTS)),
    kubelet=st.booleans(),
)
def test_whatever_is_found_a_check_passes_or_says_why_not(
    said: dict[str, t.Any],
    problem: str,
    gpus: set[t.Any],
    migs: set[str],
    on_bus: int,
    gpu_count: int,
    parts: set[str],
    named: list[str],
    kubelet: bool,
) -> None:
    one = node(
        said,
        gpus=tuple(gpus),
        mig_uuids=tuple(migs),
        pci_gpus=on_bus,
        parts=frozenset(parts),
        kubelet=kubelet,
        **driver(problem=problem),
    )
    found = evaluate_checks(
        one, ValidateOptions(gpu_count, components=required_components(named), kubelet=kubelet)
    )
    assert [check.name for check in found] == NAMES
    for check in found:
        assert (check.state == "passed") == (check.cause == "")
        assert (check.state in ("failed", "warning")) == (check.next_step != "")
        assert check.holds or str(check) in message(found)
    assert (message(found) == "") == all(check.holds for check in found)
    if gpu_count >= 0:
        assert dict(zip(NAMES, found, strict=True))["GPUs"].holds == (len(gpus) == gpu_count)
    assert summarize(one, found)


@given(st.text() | JSON.filter(lambda one: not isinstance(one, dict)).map(json.dumps))
def test_an_answer_that_is_no_status_is_that_of_no_daemon(text: str) -> None:
    assert PluginReport.from_answer(text) == PluginReport()


def test_an_answer_that_is_cut_short_or_too_deep_is_that_of_no_daemon() -> None:
    text = json.dumps(GOOD)
    assert PluginReport.from_answer(text[: len(text) // 2]) == PluginReport()
    assert PluginReport.from_answer("[" * 100_000) == PluginReport()
    assert "it does not run" in failures(node(plugin=PluginReport.from_answer("")))["device plugin"]


def test_a_missing_device_node_fails_and_one_that_is_not_known_is_no_pass() -> None:
    missing = node(**driver(missing_nodes=("/dev/nvidia-uvm does not exist",)))
    assert failures(missing) == {
        "device nodes": "/dev/nvidia-uvm does not exist -> systemctl restart gpu-device-nodes.service, or run"
        " gpu.node.nvidia_driver"
    }
    unknown = node(**driver(nodes_unknown="the driver's device nodes can't be compared"))
    assert told(unknown, SKIPPED)["device nodes"] == "the driver's device nodes can't be compared"
