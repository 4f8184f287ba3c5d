# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Values that only go together, what a node lacks, and how all of it is told."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.space import Space
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.node import (
    MIB,
    Need,
    initramfs,
    lacking,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.problems import (
    Problem,
    Refusal,
    once,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.values import check
from hypothesis import given
from hypothesis import strategies as st

MODULES = ("cdi", "container_runtime")
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)
names = [
    "cdi_path",
    "cdi_driver_root",
    "node_labels_kubeconfig",
    "cdi_state",
    "container_runtime_spec_dirs",
    "mig_wait_timeout",
    "x_version",
]


@given(st.dictionaries(st.sampled_from(names), anything))
def test_no_value_is_an_accident(values: dict[str, Any]) -> None:
    for one in check(values, MODULES):
        assert one.variable in {*values, "cdi_path"}  # whose default runtimes may not read
        assert str(one).startswith(f"{one.variable}: ")


@pytest.mark.parametrize(
    "values",
    [
        {"cdi_path": "/run/cdi/x.json"},
        {"cdi_path": "/etc/cdi//x.json", "container_runtime_spec_dirs": ["/etc/cdi/"]},
        {"cdi_path": "/srv/x.json", "container_runtime_spec_dirs": ["/srv"]},
        {"cdi_path": "/srv/x.json", "cdi_state": "absent"},
        {"mig_wait_timeout": "5", "x_version": "550.10", "y_version": 550},
    ],
)
def test_values_that_fit_are_not_complained_of(values: dict[str, Any]) -> None:
    assert check(values, MODULES) == []


def test_a_folder_counts_that_a_runtime_reads() -> None:
    asked = {"cdi_path": "/srv/x.json", "container_runtime_spec_dirs": ["/srv"]}
    assert [one.variable for one in check(asked, ("cdi",))] == ["cdi_path"]  # nobody sets it there
    assert [one.variable for one in check({"container_runtime_spec_dirs": ["/srv"]}, MODULES)] == [
        "cdi_path"
    ]
    assert [one.variable for one in check({"mig_wait_timeout": True}, ())] == ["mig_wait_timeout"]


def test_paths_on_the_node_are_absolute() -> None:
    wrong = {"cdi_driver_root": "root", "node_labels_kubeconfig": "~/.kube/config", "cdi_path": ""}
    assert [str(one) for one in check(wrong, ())] == [
        "cdi_driver_root: 'root' is not valid: expected an absolute path on the node",
        "node_labels_kubeconfig: '~/.kube/config' is not valid: expected an absolute path on the node",
    ]


def test_needs_of_one_file_system_add_up() -> None:
    needs = [Need("/usr", 600 * MIB, "the driver"), Need("/opt", 300 * MIB, "the environment")]
    root = Space(1, 700 * MIB)
    (found,) = lacking(needs, {"/usr": root, "/opt": root})
    assert found.text == (
        "/usr, /opt: 700 MiB are free, and 900 MiB are needed: 600 for the driver, 300 for the environment"
    )
    assert lacking(needs, {"/usr": root, "/opt": Space(2, 300 * MIB)}) == []
    assert lacking([Need("/boot", 0, "")], {"/boot": Space(3, 0)}) == []
    assert initramfs([]) == 0
    assert initramfs([10 * MIB, 50 * MIB]) == 55 * MIB


def test_problems_are_told_line_by_line_and_once() -> None:
    first = Problem.of(InputError.of("config.half[0]", 1, "more"), "mig")
    second = Problem.of(NodeError("it is\nfull", cause="of it", hint="free some"))
    assert first.variable == "mig_config"
    error = Refusal(once([first, Problem("mig_config", "again"), second, second]))
    assert str(error).split("\n") == [
        "nothing was changed, as 2 things have to be corrected first:",
        "- mig_config.half[0]: 1 is not valid: expected more",
        "- it is full: of it (free some)",
        "Next step: correct what is named, and run again",
    ]
    assert [one["variable"] for one in error.details["problems"]] == ["mig_config", ""]
