# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One look at a node: every part planned by its own capability, and nothing changed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks import parts
from ansible_collections.gpu.node.plugins.module_utils._checks.plan.capability import PlanCapability
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine import modules
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.role_config import DEFAULT
from ansible_collections.gpu.node.plugins.module_utils._generated.plan import SPEC

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import H100, FakeRoom, node
from tests.support.paths import REPOSITORY
from tests.support.roles import defaults

ROLES = REPOSITORY / "roles"

ALL = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 2}}]
DAEMON = {"digest": "0123456789ab", "units": {"gpu-device-plugin.service": "[Service]\n"}}
POLICY = "{0}:\n  Installed: (none)\n  Candidate: {1}\n  Version table:\n     {1} 500\n"


@pytest.fixture
def host() -> FakeHost:
    found = node(*[H100] * 4)
    found.commands[("containerd", "config")] = "version = 2\n"
    return found


def look(
    host: FakeHost,
    components: list[str],
    *,
    only: list[str] | None = None,
    ask_validation: bool = False,
    check_mode: bool = False,
    shows_difference: bool = False,
    **variables: Any,
) -> dict[str, Any]:
    """Return what the module answers."""
    given: dict[str, Any] = {"variables": variables, "components": components, "daemon": DAEMON}
    given.update({"parts": only} if only else {}, validate=ask_validation)
    params = ArgumentSpecValidator(SPEC["argument_spec"]).validate(given).validated_parameters
    capability = PlanCapability(
        host,  # type: ignore[arg-type]
        FakeRoom(),  # type: ignore[arg-type]
        params,
        root=True,
        check_mode=check_mode,
        shows_difference=shows_difference,
        validate=Known,  # type: ignore[arg-type]
    )
    before = dict(host.files), dict(host.links)
    state = capability.observe()
    plan = capability.plan(state)
    assert plan.steps == ()
    assert (host.files, host.links) == before
    return {**capability.result(state, plan), "warnings": plan.warnings}


def test_the_driver_is_told_what_the_look_has_read_of_the_gpus(host: FakeHost) -> None:
    given = {"variables": {}, "components": ["driver"], "daemon": DAEMON}
    params = ArgumentSpecValidator(SPEC["argument_spec"]).validate(given).validated_parameters
    one = PlanCapability(host, FakeRoom(), params, root=True)  # type: ignore[arg-type]
    info = {**one.observe().info, "gpus": [{"index": 0}]}
    driver = parts.BY_NAME["driver"]
    assert "gpus" not in (one._options(driver, info) or {})
    told = one._options(driver, {**info, "nvml_available": True})
    assert told is not None
    assert told["gpus"] == [{"index": 0}]


def test_the_whole_path_of_a_fresh_node_is_in_one_answer(host: FakeHost) -> None:
    answer = look(host, ["mig", "cdi", "device_plugin"], mig_config={"half": ALL}, check_mode=True)
    named = {one["name"]: one for one in answer["parts"]}
    assert list(named) == ["environment", "mig", "cdi", "device_plugin"]
    assert answer["drift"] == answer["calls"] == list(named)
    assert [one["action"] for one in named["environment"]["steps"]] == ["release"]
    assert "release" not in [one["action"] for one in named["device_plugin"]["steps"]]
    assert named["mig"]["later"] == "NVML answers"
    assert named["cdi"]["later"] == "the driver is loaded"
    assert "mig: would partition GPUs as half once NVML answers" in answer["lines"]
    assert "cdi: known once the driver is loaded" in answer["lines"]
    assert len(answer["gpu_info"]["pci_gpus"]) == 4


def test_all_refusals_come_at_once_and_before_any_plan(host: FakeHost) -> None:
    with pytest.raises(NodeError) as refused:
        look(host, ["mig", "cdi"], mig_config={"half": [{"device": 1}]}, cdi_path="nvidia.yaml")
    problems = refused.value.details["problems"]
    assert [one["variable"] for one in problems] == ["cdi_path", "mig_config"]
    assert not [one for one in host.ran if one[0] == "systemctl"]


def test_a_node_without_a_gpu_is_not_planned() -> None:
    answer = look(node(), ["cdi", "device_plugin"])
    assert answer["parts"] == answer["calls"] == answer["lines"] == []


def test_a_part_that_would_refuse_says_so_and_the_others_are_planned(
    host: FakeHost,
) -> None:
    answer = look(host, ["runtime", "cdi"], container_runtime_mode="runtime_class")
    named = {one["name"]: one for one in answer["parts"]}
    error = named["runtime"]["error"]
    assert error["msg"].startswith(
        "container_runtime: /usr/bin/nvidia-container-runtime is not on the node"
    )
    assert error["hint"].startswith("install the NVIDIA container toolkit")
    assert (named["runtime"]["later"], answer["refused"]) == ("", [error["msg"]])
    assert answer["drift"] == ["environment", "cdi"]
    assert answer["calls"] == ["environment", "runtime", "cdi"]


def test_only_what_is_not_called_warns_here(host: FakeHost) -> None:
    variables = {"mig_config": {"half": ALL}}
    silent = look(host, ["mig"], **variables)["warnings"]
    assert not [one for one in silent if one.startswith("mig:")]
    told = look(host, ["mig"], check_mode=True, **variables)["warnings"]
    assert [one for one in told if one.startswith("mig: the configuration is valid in form")]


def test_torn_cases_of_repair_are_told_before_a_repair_needs_them(host: FakeHost) -> None:
    assert not [text for text in look(host, ["cdi"])["warnings"] if "repair.json" in text]
    host.files["/var/lib/gpu-node/repair.json"] = '{"version": 1, "gp'
    (told,) = [text for text in look(host, ["cdi"])["warnings"] if "repair.json" in text]
    assert told.startswith("/var/lib/gpu-node/repair.json is damaged: ")
    assert "Next step: " in told


def test_differences_are_there_where_they_are_asked_for(host: FakeHost) -> None:
    (_environment, part) = look(host, ["cdi"])["parts"]
    assert part["diff"] == {}
    (_environment, part) = look(host, ["cdi"], shows_difference=True)["parts"]
    assert set(part["diff"]) == {"before", "after", "prepared"}
    assert "once the driver is loaded" in part["diff"]["prepared"]


class Known:
    """Stands for the validation, which has tests of its own."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def answer(self) -> dict[str, Any]:
        return {"summary": "ready", "warnings": ["labels: late"]}


def test_only_a_node_that_has_nothing_to_do_is_validated(host: FakeHost) -> None:
    busy = look(host, ["cdi"], ask_validation=True)
    assert (busy["calls"], busy["validation"]) == (["environment", "cdi"], {})
    quiet = look(host, ["validate"], ask_validation=True)
    assert (quiet["calls"], quiet["validation"]["summary"]) == ([], "ready")
    assert "labels: late" in quiet["warnings"]
    assert look(host, ["validate"])["validation"] == {}


def test_a_driver_alone_that_is_validated_gets_the_library_that_asks_it(host: FakeHost) -> None:
    host.commands["apt-cache", "policy"] = POLICY.format("nvidia-smi", "550.163.01-2")
    validated = look(host, ["driver"], ask_validation=True)
    assert [one["name"] for one in validated["parts"]] == ["environment", "driver"]
    alone = look(host, ["driver"])
    assert [one["name"] for one in alone["parts"]] == ["driver"]


def test_what_tags_leave_out_is_not_planned(host: FakeHost) -> None:
    answer = look(host, ["cdi", "device_plugin"], only=["device_plugin"])
    assert [one["name"] for one in answer["parts"]] == ["device_plugin"]
    assert "release" in [one["action"] for one in answer["parts"][0]["steps"]]


def test_what_goes_is_planned_without_a_release(host: FakeHost) -> None:
    unit = "/etc/systemd/system/gpu-device-plugin.service"
    host.files[unit] = "[Service]\n"
    stopped = look(host, ["device_plugin"], device_plugin_state="stopped")
    assert [one["name"] for one in stopped["parts"]] == ["device_plugin"]
    assert stopped["parts"][0]["error"] == {}
    gone = look(host, ["device_plugin"], device_plugin_state="absent", shows_difference=True)
    named = "would stop, disable and remove gpu-device-plugin.service"
    assert gone["lines"] == [f"device_plugin: {named}"]
    assert gone["parts"][0]["error"] == {}


@pytest.mark.parametrize("module", modules.MODULES)
def test_a_role_without_its_defaults_would_be_planned_as_with_them(module: str) -> None:
    spec = ArgumentSpecValidator(modules.MODULES[module].spec["argument_spec"])
    given = {**defaults(), f"{module}_state": "present"}
    given["device_plugin_state"] = "started"
    with_them = spec.validate(modules.options(module, given)).validated_parameters
    plain = {f"{module}_state": given[f"{module}_state"]}
    without = spec.validate(modules.options(module, plain)).validated_parameters
    empty = (None, {}, [], "")
    assert {name: one for name, one in with_them.items() if one not in empty} == {
        name: one for name, one in without.items() if one not in empty
    }


def test_options_are_composed_as_the_roles_do() -> None:
    values = {
        "device_plugin_config": {"version": "v1"},
        "device_plugin_sharing": {"mps": {}},
        "gpu_nodes_components": ["device_plugin"],
        "container_runtime_mode": "runtime_class",
        "node_labels_extra": {"a/b": "c"},
        "container_runtime_program": "/opt/bin/nvidia-container-runtime",
    }
    found = modules.options("device_plugin", values)
    assert found["config"] == {**DEFAULT, "sharing": {"mps": {}}}
    assert found["labels"]["output"] == "off"
    assert found["labels"]["extra"] == {"gpu.node/runtime-handler": "nvidia", "a/b": "c"}
    runtime = modules.options("container_runtime", values)
    assert runtime["handler_path"] == "/opt/bin/nvidia-container-runtime"
    role = yaml.safe_load((ROLES / "device_plugin/vars/main.yml").read_text())
    assert modules.HANDLER_LABEL in role["__device_plugin_handler"]


def test_settings_are_planned_where_there_are_rules_and_refused_by_the_variable(
    host: FakeHost,
) -> None:
    assert look(host, ["settings"])["parts"] == []
    answer = look(host, ["settings"], settings_rules=[{"power_limit": "80%"}], check_mode=True)
    named = {one["name"]: one for one in answer["parts"]}
    assert list(named) == ["environment", "settings"]
    assert named["settings"]["later"] == "NVML answers"
    with pytest.raises(NodeError) as refused:
        look(host, ["settings"], settings_rules=[{"power_limits": 300}])
    (problem,) = refused.value.details["problems"]
    assert problem["variable"] == "settings_rules"
    assert "did you mean power_limit?" in str(problem)


EVERY = {"settings_rules": [{"power_limit": "80%", "compute_mode": "exclusive_process"}]}


@pytest.mark.parametrize(
    ("rules", "variables", "refused"),
    [
        (EVERY, {"mig_config": {"half": ALL}}, True),
        (EVERY, {"mig_selected": "all-1g.10gb"}, True),
        (EVERY, {"mig_config": {"half": [{**ALL[0], "devices": [1]}]}}, True),
        (EVERY, {"mig_selected": "all-disabled"}, False),
        (EVERY, {"mig_config": {"half": [{"devices": [0, 1], "mig-enabled": False}]}}, False),
        (
            {"settings_rules": [{"accounting": True, "match": {"index": 0}}]},
            {"mig_config": {"half": ALL}},
            False,
        ),
        (
            {"settings_rules": [*EVERY["settings_rules"], {"compute_mode": "default"}]},
            {"mig_config": {"half": ALL}},
            False,
        ),
    ],
)
def test_a_setting_of_all_gpus_that_their_mig_mode_rules_out_is_refused_before_there_is_a_driver(
    host: FakeHost, rules: dict[str, Any], variables: dict[str, Any], refused: bool
) -> None:
    def asked() -> dict[str, Any]:
        return look(host, ["mig", "settings"], check_mode=True, **rules, **variables)

    if not refused:
        assert "settings" in {one["name"] for one in asked()["parts"]}
        return
    with pytest.raises(NodeError) as error:
        asked()
    (problem,) = error.value.details["problems"]
    assert problem["variable"] == "settings_rules"
    assert "rules[0].compute_mode" in str(problem) or "settings_rules[0].compute_mode" in str(
        problem
    )
    assert "as GPUs of this node are to be in MIG mode" in str(problem)


def test_the_host_is_planned_where_a_variable_asks_for_something(host: FakeHost) -> None:
    host.files["/proc/cpuinfo"] = "vendor_id\t: AuthenticAMD\n"
    host.files["/boot/grub/grub.cfg"] = "  linux /boot/vmlinuz root=/dev/sda1\n"
    host.commands[("update-grub",)] = ""
    assert look(host, ["host"])["parts"] == []
    assert look(host, ["host"], host_iommu="unmanaged")["parts"] == []
    for value, words in (("pt", "iommu=pt"), (False, "amd_iommu=off")):  # YAML reads off so
        answer = look(host, ["host"], host_iommu=value, check_mode=True)
        (part,) = answer["parts"]
        assert part["steps"][0]["summary"].startswith(f"add {words} in the kernel command line")
    with pytest.raises(NodeError) as refused:
        look(host, ["host"], host_iommu="passthrough")
    (problem,) = refused.value.details["problems"]
    assert problem["variable"] == "host_iommu"
