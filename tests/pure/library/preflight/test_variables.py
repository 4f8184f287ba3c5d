# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The table of options and variables says what the roles do."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.variables import in_variables
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine.modules import (
    options,
    runs,
)


def test_options_come_from_the_variables() -> None:
    values = {
        "mig_config": {},
        "mig_selected": "all-disabled",
        "mig_boot": False,
        "nvidia_driver_repository": "nvidia",
        "nvidia_driver_version": "",
        "node_labels_output": "file",
    }
    assert options("mig", values) == {"selected": "all-disabled", "boot": False}
    driver = {"version": "", "repository": {"preset": "nvidia"}}
    assert options("nvidia_driver", values) == driver
    assert options("device_plugin", values)["labels"] == {"output": "file"}


@pytest.mark.parametrize(
    ("module", "key", "named"),
    [
        ("mig", "config.mig-configs.half[1].devices", "mig_config.mig-configs.half[1].devices"),
        ("container_runtime", "handler_path", "container_runtime_handler_path"),
        ("device_plugin", "labels.output", "node_labels_output"),
        ("device_plugin", "labels: NODE_NAME", "labels: NODE_NAME"),
        ("nvidia_driver", "runfile.sha256", "nvidia_driver_runfile.sha256"),
        ("cdi", "compare", "compare"),
        ("unheard_of", "path", "path"),
        ("mig", "", ""),
    ],
)
def test_a_key_in_the_variables_of_a_role(module: str, key: str, named: str) -> None:
    assert in_variables(module, key) == named


@pytest.mark.parametrize(
    ("by_label", "does"), [("false", False), ("true", True), (True, True), (False, False)]
)
def test_a_truth_that_is_given_as_a_text_is_read_as_ansible_reads_it(
    by_label: object, does: bool
) -> None:
    assert runs("mig", {"mig_by_label": by_label}) is does
