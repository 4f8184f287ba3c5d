# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The controller's half of the check: variables out of a play, and the daemon's configuration by its own parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.action import preflight
from ansible_collections.gpu.node.plugins.action.preflight import (
    NAMES,
    SECRET,
    configurations,
    explained,
    wheelhouse,
)
from ansible_collections.gpu.node.plugins.plugin_utils.controller.unread import unread
from hypothesis import given
from hypothesis import strategies as st


def lines(values: dict[str, Any]) -> list[str]:
    return [str(one) for one in configurations(values)]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"version": "v2"}, "version: 'v2' is not valid: expected one of v1"),
        (
            {"flags": {"plugin": {"pasDeviceSpecs": True}}},
            "unknown key flags.plugin.pasDeviceSpecs: ",
        ),
        ({"flags": "a"}, "flags is not a mapping: expected keys such as "),
        (
            {"flags": {"migStrategy": "one"}},
            "flags.migStrategy: 'one' is not valid: expected one of none",
        ),
    ],
)
def test_a_configuration_is_refused_by_its_keys(config: dict[str, Any], said: str) -> None:
    assert lines({"device_plugin_config": config})[0].startswith(f"device_plugin_config: {said}")
    named = lines({"device_plugin_configs": {"few": config}})
    assert named[0].startswith(f"device_plugin_configs.few: {said}")
    assert not [one for one in named if " line " in one or "config.yaml" in one]


TEXT = "version: v1\nflags: {migStrategy: none}\n"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": TEXT}}
READ = "\"{{ lookup('ansible.builtin.file', 'FILE') | from_yaml }}\""


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("device_plugin_config", TEXT, "device_plugin_config"),
        ("device_plugin_configs", {"few": TEXT}, "device_plugin_configs.few"),
        ("device_plugin_configs", TEXT, "device_plugin_configs"),
        ("device_plugin_sharing", TEXT, "device_plugin_sharing"),
        ("mig_config", "version: v1\nmig-configs: {}\n", "mig_config"),
    ],
)
def test_text_in_the_place_of_a_mapping_is_refused_with_how_to_read_it(
    variable: str, value: Any, named: str
) -> None:
    (problem,) = unread({variable: value})
    assert problem.variable == variable
    assert problem.text == f"{named}: it is a text, and the variable has the values that are in it"
    assert problem.hint == f"read it, as in {READ}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("device_plugin_config", CONFIG_MAP),
        ("device_plugin_config", CONFIG_MAP["data"]),
        ("device_plugin_configs", CONFIG_MAP),
        ("device_plugin_configs", {"few": CONFIG_MAP}),
        ("device_plugin_sharing", CONFIG_MAP),
        ("mig_config", CONFIG_MAP),
    ],
)
def test_config_map_in_the_place_of_a_configuration_is_refused_with_what_to_give(
    variable: str, value: Any
) -> None:
    (problem,) = unread({variable: value})
    assert "config.yaml" in problem.hint
    assert problem.hint.endswith(f", read as in {READ}")
    assert "\0" not in str(problem)


@pytest.mark.parametrize(
    "values",
    [
        {"device_plugin_config": {"version": "v1"}, "device_plugin_configs": {"few": {}}},
        {"device_plugin_config": None, "device_plugin_configs": None, "mig_config": ""},
        {"device_plugin_config": '{"version": "v1"}', "nvidia_driver_releases": "releases.yml"},
        {"mig_config": [{"devices": "all"}], "mig_selected": "all-balanced"},
        {"container_toolkit_repository": "nvidia"},
    ],
)
def test_values_that_ansible_takes_are_not_refused(values: dict[str, Any]) -> None:
    assert list(unread(values)) == []


def test_both_keys_of_a_pair_are_named() -> None:
    twice = {"flags": {"migStrategy": "none", "migstrategy": "none"}}
    (said,) = lines({"device_plugin_config": twice})
    assert said.startswith("device_plugin_config: flags.migStrategy is given twice")
    assert "line" not in said


def test_what_is_not_to_run_is_not_checked() -> None:
    wrong = {"device_plugin_config": {"flag": 1}, "device_plugin_state": "absent"}
    assert configurations(wrong) == []
    assert configurations({"device_plugin_config": {}, "device_plugin_configs": None}) == []


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2),
            st.dictionaries(
                st.sampled_from(["version", "flags", "sharing", "mps", "resources", "plugin"]),
                inner,
            ),
        ),
        max_leaves=5,
    )
)
def test_no_configuration_is_an_accident(config: Any) -> None:
    for one in lines({"device_plugin_config": config, "device_plugin_configs": {"a": config}}):
        assert one.startswith(("device_plugin_config: ", "device_plugin_configs.a: "))


def test_a_wheelhouse_is_a_folder_with_wheels(tmp_path: Path) -> None:
    given = {"device_plugin_wheelhouse": str(tmp_path)}
    assert "expected a folder with wheels" in str(wheelhouse(given)[0])
    (tmp_path / "a-1-py3-none-any.whl").touch()
    assert wheelhouse(given) == []
    assert wheelhouse({"device_plugin_wheelhouse": ""}) == []


def test_no_password_is_sent() -> None:
    assert SECRET == "device_plugin_index_url"
    assert SECRET not in NAMES


@pytest.mark.parametrize(
    ("msg", "out", "err", "said"),
    [
        (
            "Module result deserialization failed: No start of json char found",
            "plain is not in the sudoers file\n",
            "",
            "char found: plain is not in the sudoers file. Next step: give the user sudo on the node",
        ),
        (
            "The module interpreter '/usr/bin/python3' was not found.",
            "",
            "/bin/sh: 1: /usr/bin/python3: not found\n",
            "python3: not found. Next step: install python3 on the node, by a task with ansible.builtin.raw",
        ),
        (  # of genuine Pythons 3.6 and 2.7, with ansible-core 2.19
            "Module result deserialization failed: No start of json char found",
            "",
            f'  File "/root/.ansible/tmp/{"x" * 200}/AnsiballZ_preflight.py", line 3\n'
            "    from __future__ import annotations\n    ^\n"
            "SyntaxError: future feature annotations is not defined\n",
            "Next step: name a Python of 3.9 or later in ansible_python_interpreter",
        ),
        (
            "Module result deserialization failed: No start of json char found",
            "",
            f'  File "/root/.ansible/tmp/{"x" * 200}/AnsiballZ_preflight.py", line 40\n'
            "    zip_data: str,\n            ^\nSyntaxError: invalid syntax\n",
            "such as CentOS 7, is not supported",
        ),
    ],
)
def test_who_can_not_start_a_module_is_told_how(msg: str, out: str, err: str, said: str) -> None:
    answer = {"failed": True, "msg": msg, "module_stdout": out, "module_stderr": err}
    assert said in explained(answer)["msg"]


def test_other_answers_stay_as_they_are() -> None:
    for answer in ({"gpu_info": {}}, {"failed": True, "msg": "preflight: sudo: no"}):
        assert explained(answer) == answer


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"gpu_nodes_kubeconfig": ""}, None),  # which the role makes the playbook's folder
        ({}, None),
        ({"gpu_nodes_kubeconfig": "x.conf"}, "/playbooks/x.conf"),
    ],
)
def test_the_cluster_is_asked_where_there_is_a_kubeconfig(
    given: dict[str, str], named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def check(values: dict[str, str]) -> list[Any]:
        asked.append(values["gpu_nodes_kubeconfig"])
        return []

    monkeypatch.setattr(preflight.cluster, "check", check)
    action = preflight.ActionModule.__new__(preflight.ActionModule)
    absolute = f"/playbooks/{given.get('gpu_nodes_kubeconfig', '')}"
    action._read = lambda _given, _names: ({"__common_kubeconfig": absolute}, [])  # type: ignore[method-assign]
    assert action._cluster({"gpu_nodes_allocation": "dra", **given}, {}) == []
    assert asked == ([named] if named else [])
