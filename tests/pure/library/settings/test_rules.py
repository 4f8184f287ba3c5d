# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Rules: which GPUs they are about, what they set, and what of them a board does not allow."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import NAMES, Gpu, SettingsTold
from ansible_collections.gpu.node.plugins.module_utils._settings.rules import parse, resolve_rules
from hypothesis import given
from hypothesis import strategies as st

LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
JSON = st.recursive(
    LEAF,
    lambda more: (
        st.lists(more, max_size=3)
        | st.dictionaries(st.sampled_from((*NAMES, "match", "index", "x")), more, max_size=4)
    ),
    max_leaves=9,
)
UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
GPU = Gpu(
    1, UUID, "NVIDIA H100 80GB HBM3", "0000:3b:00.0", 1, 1 << 36, (9, 0), True, False, False, 0
)
TOLD = SettingsTold(
    present={
        "persistence": False,
        "power_limit": 700_000,
        "power_profiles": (),
        "ecc": True,
        "compute_mode": "default",
        "accounting": False,
    },
    power=(200_000, 700_000),
    power_default=700_000,
    clocks={"gpu_clocks": (210, 1980), "memory_clocks": (1593, 2619)},
    running={},
    ecc_next=True,
    profiles={"max_p": ("max_q",), "max_q": (), "network": (), "profile_30": ()},
)


def found(*rules: dict[str, Any], told: SettingsTold = TOLD) -> dict[str, Any]:
    return dict(resolve_rules(parse(rules), GPU, told))


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ("all", True),
        ({}, True),
        ({"index": 1}, True),
        ({"index": [0, 2]}, False),
        ({"uuid": UUID.upper()}, True),
        ({"uuid": [UUID[:-1] + "1"]}, False),
        ({"pci": "0000:3B:00.0"}, True),
        ({"pci": "00000000:3b:00.0"}, True),
        ({"pci": "3b:00.0"}, True),
        ({"pci": "3c:00.0"}, False),
        ({"model": "H100*"}, True),
        ({"model": "nvidia h100 80gb hbm3"}, True),
        ({"model": "H100"}, False),
        ({"model": ["A100*", "H?00*"], "index": 1}, True),
        ({"model": "H100*", "index": 0}, False),
    ],
)
def test_a_rule_is_about_the_gpus_that_match_all_of_it(match: Any, holds: bool) -> None:
    assert parse([{"match": match, "ecc": False}])[0].matches(GPU) is holds


@pytest.mark.parametrize(
    ("name", "value", "means"),
    [
        ("power_limit", 550, 550_000),
        ("power_limit", 450.5, 450_500),
        ("power_limit", "80%", 560_000),
        ("power_limit", "33%", 231_000),
        ("power_limit", "default", 700_000),
        ("gpu_clocks", [300, 1200], (300, 1200)),
        ("gpu_clocks", 1200, (1200, 1200)),
        ("gpu_clocks", [1200], (1200, 1200)),
        ("gpu_clocks", "default", None),
        ("memory_clocks", 1593, (1593, 1593)),
        ("compute_mode", "exclusive_process", "exclusive_process"),
        ("power_profiles", ["network", "max_q"], ("max_q", "network")),
        ("power_profiles", ["max_q", "max_q"], ("max_q",)),
        ("power_profiles", "profile_30", ("profile_30",)),
        ("power_profiles", "default", ()),
        ("persistence", True, True),
        ("ecc", False, False),
    ],
)
def test_what_a_value_means_for_a_board(name: str, value: Any, means: Any) -> None:
    assert found({name: value}) == {name: means}


def test_the_last_rule_that_names_a_setting_counts() -> None:
    rules = (
        {"power_limit": "80%", "ecc": True},
        {"match": {"index": 1}, "power_limit": "default"},
        {"match": {"index": 0}, "power_limit": 300},
    )
    assert found(*rules) == {"power_limit": 700_000, "ecc": True}


@pytest.mark.parametrize(
    ("rule", "key", "expected"),
    [
        ({"power_limit": 900}, "rules[0].power_limit", "200 to 700 W, which GPU 1 (NVIDIA H100"),
        ({"power_limit": "20%"}, "rules[0].power_limit", "200 to 700 W"),
        ({"power_limit": True}, "rules[0].power_limit", "watts, a share"),
        ({"power_limit": "80"}, "rules[0].power_limit", "watts, a share"),
        ({"power_limit": "0%"}, "rules[0].power_limit", "watts, a share"),
        ({"gpu_clocks": [1200, 300]}, "rules[0].gpu_clocks", "from and to"),
        ({"gpu_clocks": [300, 900, 1200]}, "rules[0].gpu_clocks", "from and to"),
        ({"gpu_clocks": 3000}, "rules[0].gpu_clocks", "210 to 1980 MHz, which GPU 1"),
        ({"memory_clocks": [1, 1593]}, "rules[0].memory_clocks", "1593 to 2619 MHz"),
        ({"compute_mode": "exclusive"}, "rules[0].compute_mode", "exclusive_process"),
        ({"power_profiles": "turbo"}, "rules[0].power_profiles", "some of max_p, max_q, compute"),
        ({"power_profiles": "profile_3"}, "rules[0].power_profiles", "some of max_p"),
        ({"power_profiles": "profile_255"}, "rules[0].power_profiles", "some of max_p"),
        ({"power_profiles": []}, "rules[0].power_profiles", "or default for none"),
        (
            {"power_profiles": ["hpc", "max_q"]},
            "rules[0].power_profiles",
            "some of max_p, max_q, network, profile_30, which GPU 1 (NVIDIA H100",
        ),
        (
            {"power_profiles": ["max_q", "max_p"]},
            "rules[0].power_profiles",
            "profiles that go together: max_p and max_q conflict on GPU 1",
        ),
        ({"ecc": "no"}, "rules[0].ecc", "true or false"),
        ({"power_limits": 500}, "rules[0].power_limits", "did you mean power_limit?"),
        (
            {"match": {"name": "H100"}, "ecc": True},
            "rules[0].match.name",
            "model, uuid, index, pci",
        ),
        ({"match": {"index": [[]]}, "ecc": True}, "rules[0].match.index", "a text or a number"),
        ({"match": "H100", "ecc": True}, "rules[0].match", "all, or a mapping"),
        ({"match": "all"}, "rules[0]", "at least one of persistence"),
    ],
)
def test_what_can_not_be_is_refused_by_its_name(
    rule: dict[str, Any], key: str, expected: str
) -> None:
    with pytest.raises(InputError) as refused:
        found(rule)
    assert refused.value.details["key"] == key
    assert expected in str(refused.value)


def test_a_board_without_a_setting_refuses_no_value_of_it() -> None:
    bare = dataclasses.replace(GPU, name="old")
    none = SettingsTold(present={"persistence": False})
    rules = parse([{"power_limit": 900, "gpu_clocks": 5000, "persistence": True}])
    assert resolve_rules(rules, bare, none)["persistence"] is True


@given(st.lists(JSON, max_size=3))
def test_whatever_is_given_is_understood_or_refused_by_its_name(rules: list[Any]) -> None:
    refused, parsed = "rules[", ()
    with contextlib.suppress(InputError):
        try:
            parsed = parse(rules)
        except InputError as error:
            refused = error.details["key"]
            raise
    assert refused.startswith("rules[")
    for rule in parsed:
        assert set(rule.settings) <= set(NAMES)
