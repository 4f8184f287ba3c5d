# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Misspelt variables are found."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpu.node.plugins.filter.unknown_variables import SHARED, unknown_variables
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import REPOSITORY

SPECS = [
    {"argument_specs": {"main": {"options": {"mig_config": {}, "mig_selected": {}}}}},
    {"argument_specs": {"main": {"options": None}, "other": {"options": {"mig_reset": {}}}}},
]
ROLES = REPOSITORY / "roles"
ALL = [yaml.safe_load(path.read_text()) for path in ROLES.glob("*/meta/argument_specs.yml")]
OURS = sorted(
    {name for one in ALL for point in one["argument_specs"].values() for name in point["options"]}
)
SHORT = [name for name in OURS if name.startswith(tuple(f"{one}_" for one in SHARED))]
# Of NVIDIA's and others' charts, roles and inventories.
OTHERS = (
    "mig_strategy",
    "mig_manager_version",
    "mig_parted_version",
    "mig_profiles",
    "cdi_enabled",
)
OTHERS += ("cdi_default", "dcgm_exporter_version", "dcgm_exporter_port", "dcgm_hostengine_address")


def test_known_names_are_silent() -> None:
    assert unknown_variables(["mig_config", "mig_reset"], SPECS) == []


def test_unknown_names_come_with_the_nearest_known_one() -> None:
    assert unknown_variables(["mig_confg", "zebra", "mig_confg"], SPECS) == [
        "mig_confg is unknown (did you mean mig_config?)",
        "zebra is unknown",
    ]


@pytest.mark.parametrize("specs", [[{}], [None], [{"argument_specs": {"main": None}}]])
def test_what_is_no_spec_is_refused(specs: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="not an argument spec"):
        unknown_variables(["x"], specs)


@pytest.mark.parametrize("name", OTHERS)
def test_variable_of_another_tool_that_only_begins_alike_is_not_refused(name: str) -> None:
    assert unknown_variables([name], ALL) == []


@pytest.mark.parametrize(
    "name", ["nvidia_driver_skip_reboot", "device_plugin_image", "validate_gpu_x"]
)
def test_prefixes_that_are_long_are_claimed(name: str) -> None:
    assert name in unknown_variables([name], ALL)[0]


def test_exchanged_letters_of_a_very_short_name_are_found() -> None:
    assert unknown_variables(["host_cas"], ALL) != []


@given(st.sampled_from(SHORT), st.data())
def test_slip_in_a_short_name_is_found(name: str, data: st.DataObject) -> None:
    start = name.index("_") + 1
    place = data.draw(st.integers(start, len(name) - 1))
    after = place + 1
    slips = [name[:place] + name[after:], name[:after] + name[place:]]
    if after < len(name):
        slips.append(name[:place] + name[after] + name[place] + name[after + 1 :])
    slip = data.draw(st.sampled_from(slips))
    found = unknown_variables([slip], ALL)
    assert found == [] if slip in OURS else found[0].startswith(f"{slip} is unknown")
