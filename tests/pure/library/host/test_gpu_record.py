# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that were there at the last bring-up are missed until somebody says that so many are meant."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._checks.plan.capability import PlanCapability
from ansible_collections.gpu.node.plugins.module_utils._checks.validate import gpus as checks
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.gpu_record import GpuRecord
from ansible_collections.gpu.node.plugins.module_utils._generated.plan import SPEC
from ansible_collections.gpu.node.plugins.module_utils._node import gpu_record
from ansible_collections.gpu.node.plugins.module_utils._node.gpu_info.capability import (
    GpuInfoCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._node.gpu_record import Gpus
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import Seen

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.gpu_values import gpu
from tests.fakes.library.preflight_nodes import H100, FakeRoom, node
from tests.fakes.packages.driver_runs import capability

FIRST, SECOND, THIRD = "0000:18:00.0", "0000:19:00.0", "0000:1a:00.0"


@pytest.mark.parametrize(
    ("known", "there", "meant", "missing", "step"),
    [
        ((), (FIRST,), -1, (), f"record the node's 1 GPU ({FIRST})"),
        ((FIRST,), (FIRST,), -1, (), ""),
        ((FIRST, SECOND), (FIRST,), -1, (SECOND,), ""),
        ((FIRST, SECOND), (), -1, (FIRST, SECOND), ""),
        ((FIRST, SECOND), (FIRST,), 2, (SECOND,), ""),
        ((FIRST, SECOND), (FIRST,), 1, (), f"record the node's 1 GPU ({SECOND} gone)"),
        ((FIRST, SECOND), (), 0, (), ""),
        ((FIRST,), (FIRST, SECOND), -1, (), f"record the node's 2 GPUs ({SECOND} new)"),
        ((FIRST,), (SECOND,), -1, (), f"record the node's 1 GPU ({SECOND} new; {FIRST} gone)"),
        ((FIRST, SECOND), (THIRD,), -1, (FIRST, SECOND), ""),
    ],
)
def test_fewer_gpus_are_missed_and_others_are_recorded(
    known: tuple[str, ...], there: tuple[str, ...], meant: int, missing: tuple[str, ...], step: str
) -> None:
    found = Gpus(known, there, meant)
    assert found.missing == missing
    assert "; ".join(one.summary for one in found.steps()) == step
    for one in found.steps():
        assert one.params["gpus"] == there
    assert bool(str(found)) == bool(missing)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"gpus": "0000"}', '{"gpus": [1]}'])
def test_a_record_that_is_damaged_is_named_with_the_way_out(text: str) -> None:
    with pytest.raises(NodeError, match=r"gpus.json is damaged.*Next step: remove the file"):
        gpu_record.load(text, "")


def recorded(*there: str) -> FakeHost:
    """Return a node with a GPU at ``FIRST`` that had two."""
    host = node(*[H100] * len(there))
    host.files[gpu_record.PATH] = gpu_record.dump([FIRST, SECOND], "")
    return host


def look(host: FakeHost, component: str = "validate", **variables: Any) -> dict[str, Any]:
    given = {"variables": variables, "components": [component]}
    params = ArgumentSpecValidator(SPEC["argument_spec"]).validate(given).validated_parameters
    one = PlanCapability(host, FakeRoom(), params, root=True)  # type: ignore[arg-type]
    state = one.observe()
    plan = one.plan(state)
    return {**one.result(state, plan), "warnings": list(plan.warnings)}


LOST = f"the node had 2 GPUs at its last bring-up, and {SECOND} is not on its PCI bus any more"


def test_the_look_warns_of_missing_gpus_until_they_are_meant() -> None:
    answer = look(recorded(FIRST))
    assert answer["gpu_info"]["missing_gpus"] == [SECOND]
    (warning,) = answer["warnings"]
    assert warning.startswith(f"{LOST}. Next step: see the kernel's log")
    assert "set validate_gpu_count to 1 and run gpu.node.gpu_nodes" in warning
    for count in (1, "1"):  # a number given by -e is a text
        meant = look(recorded(FIRST), validate_gpu_count=count)
        assert (meant["warnings"], meant["gpu_info"]["missing_gpus"]) == ([], [])


def test_a_node_that_has_lost_all_gpus_is_none_that_never_had_any() -> None:
    gone = look(recorded())
    assert gone["gpu_info"]["missing_gpus"] == [FIRST, SECOND]
    assert [one for one in gone["warnings"] if f"{FIRST}, {SECOND} are not on its PCI bus" in one]
    assert look(node())["gpu_info"]["missing_gpus"] == []


def test_a_layout_of_a_gpu_that_is_missing_is_refused_with_that() -> None:
    layout = [{"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 1}}]
    with pytest.raises(NodeError, match=r"devices: 1 is not valid") as caught:
        look(recorded(FIRST), "mig", mig_config={"one": layout})
    assert LOST in str(caught.value)
    with pytest.raises(NodeError, match=r"devices: 1 is not valid") as caught:
        look(recorded(FIRST), "mig", mig_config={"one": layout}, validate_gpu_count=1)
    assert LOST not in str(caught.value)


def test_gpu_info_tells_which_are_missing() -> None:
    asked = {"cloud_init_timeout": 0, "allocated": False}
    info = GpuInfoCapability(recorded(FIRST), asked).observe()  # type: ignore[arg-type]
    assert info["missing_gpus"] == [SECOND]


def test_a_validation_fails_for_a_gpu_that_is_missing() -> None:
    found = Gpus((FIRST, SECOND), (FIRST,))
    state = checks.GpuState(1, found, answering=(gpu(0),))
    check = checks.count(state)
    assert (check.state, check.cause) == ("failed", LOST)
    assert check.next_step == found.next_step
    both = checks.count(state._replace(answering=()))
    assert both.cause == f"0 of 1 GPUs on the PCI bus answer; {LOST}"
    meant = found._replace(meant=1)
    assert checks.count(state._replace(recorded=meant), 1).state == "passed"
    asked = checks.count(state._replace(recorded=found._replace(meant=2)), 2)
    assert LOST in asked.cause


def driver(host: FakeHost, **params: Any) -> list[str]:
    host.files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX Kernel Module  550.1  x"
    host.files["/usr/lib64/libnvidia-ml.so.550.1"] = ""
    one = capability(host, source="preinstalled", **params)
    steps = one.plan(one.observe()).steps
    for step in steps:
        one.apply(step)
    assert [step for step in one.plan(one.observe()).steps if step.action == "gpus"] == []
    return [step.summary for step in steps if step.action == "gpus"]


def test_a_run_records_the_gpus_of_a_node() -> None:
    host = node(H100, H100)
    assert driver(host) == [f"record the node's 2 GPUs ({FIRST}, {SECOND})"]
    assert gpu_record.load(host.files[gpu_record.PATH], "") == (FIRST, SECOND)
    assert driver(recorded(FIRST)) == []
    assert driver(recorded(FIRST), gpu_count=1) == [f"record the node's 1 GPU ({SECOND} gone)"]
    assert driver(recorded(FIRST, SECOND, THIRD)) == [
        f"record the node's 3 GPUs ({THIRD} new)",
    ]


def test_the_record_of_a_first_run_has_what_nvml_says_once_the_driver_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = recorded(FIRST, SECOND)
    host.commands |= {("modprobe",): "", ("systemctl",): ""}
    one = capability(host, source="preinstalled")
    one.apply(Step("load", "load", {"waits": False}))
    assert gpu_record.identities(host.files[gpu_record.PATH], "") == ()  # NVML does not answer yet
    found = [Seen("GPU-1", "123", FIRST), Seen("GPU-2", "124", SECOND)]
    monkeypatch.setattr(GpuRecord, "_seen", staticmethod(lambda: found))
    one.apply(Step("load", "load again", {"waits": False}))
    assert gpu_record.identities(host.files[gpu_record.PATH], "") == tuple(found)


def test_the_record_of_the_machine_that_a_node_is_a_copy_of_says_nothing() -> None:
    host = recorded(FIRST)
    host.files["/var/lib/cloud/data/instance-id"] = "i-5f1c\n"
    assert look(host)["gpu_info"]["missing_gpus"] == []
    assert driver(host) == [f"record the node's 1 GPU ({FIRST})"]
    assert gpu_record.load(host.files[gpu_record.PATH], "i-5f1c") == (FIRST,)


def test_the_record_goes_with_the_driver() -> None:
    host = recorded(FIRST, SECOND)
    host.commands |= dict.fromkeys((("dpkg-query",), ("dpkg",)), "")
    one = capability(host, state="absent")
    steps = one.plan(one.observe()).steps
    assert [step.summary for step in steps] == ["forget which GPUs the node had"]
    one.apply(steps[0])
    assert gpu_record.PATH not in host.files
    assert one.plan(one.observe()).steps == ()
