# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The table of options and variables says what the roles do."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._capability.preflight.parts import (
    OMITTED,
    options,
    runs,
)
from ansible_collections.gpu.node.plugins.module_utils._core.variables import (
    VARIABLES,
    in_variables,
)

from tests.support.paths import REPOSITORY

ROLES = REPOSITORY / "roles"
MODULES = sorted(set(VARIABLES) - {"gpu_info"})
# What roles compute rather than take from a user.
COMPUTED = {"package", "sharing", "fail", "state", "change"}


def given(module: str) -> dict[str, str]:
    """Return what the role gives its module, by option: what stands in the braces."""
    for path in sorted((ROLES / module / "tasks").glob("*.yml")):
        for task in yaml.safe_load(path.read_text()):
            args = task.get(f"gpu.node.{module}")
            if args and args.get("state") not in ("installed", "absent", "stopped"):
                return {**_flat(args), **task.get("vars", {})}
    raise AssertionError(module)


def _flat(args: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in args.items():
        if isinstance(value, dict):
            found.update({f"{name}.{key}": str(one) for key, one in value.items()})
        else:
            found[name] = str(value)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_each_option_has_the_variable_that_its_role_gives(module: str) -> None:
    texts = given(module)
    hidden = {name: text for name, text in texts.items() if name.startswith("__")}
    for option, text in texts.items():
        if option in COMPUTED or option.startswith("__"):
            continue
        text = next((one for name, one in hidden.items() if name in text), text)
        variable = VARIABLES[module].get(option, "not in the table")
        assert re.search(rf"\b{variable}\b", text), f"{option}: {text}"
        if "." not in option and (module, option) != ("device_plugin", "config"):
            assert ("omit" in texts[option]) == (option in OMITTED), option
    assert set(VARIABLES[module]) - COMPUTED <= set(texts)


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
