# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Misspelt variables are found."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpu.node.plugins.filter.unknown_variables import unknown_variables

SPECS = [
    {"argument_specs": {"main": {"options": {"mig_config": {}, "mig_selected": {}}}}},
    {"argument_specs": {"main": {"options": None}, "other": {"options": {"mig_reset": {}}}}},
]


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
