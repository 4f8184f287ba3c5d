# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The settings of a manager as JSON: what was written is read, and nothing else."""

from __future__ import annotations

import json
from dataclasses import fields
from decimal import Decimal
from typing import Any

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.model.mps.settings import (
    ON_BUSY,
    OWNERS,
    PIPE_ACCESS,
    PRIORITIES,
    READERS,
    Percent,
    Settings,
    from_json,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.refusals import refused_otherwise

PERCENT = st.builds(
    Percent, st.decimals(Decimal("0.000000001"), 100, allow_nan=False, places=9).filter(bool)
)
SETTINGS = st.builds(
    Settings,
    replicas=st.integers(1, 4096),
    memory=st.none() | PERCENT | st.integers(1, 2**60),
    threads=st.none() | PERCENT,
    combine=st.integers(1, 4096),
    overcommit=st.booleans(),
    priority=st.sampled_from(list(PRIORITIES)),
    drain=st.integers(1, 86400),
    on_busy=st.sampled_from(ON_BUSY),
    multi_user=st.booleans(),
    pipe_access=st.sampled_from(PIPE_ACCESS),
    shm_size=st.integers(0, 2**60),
    root=st.from_regex(r"/run(/[a-z0-9_-]{1,6}){0,3}", fullmatch=True),
    owner=st.sampled_from(OWNERS),
)
OTHERS = ("", "x", -1, 0, 1.5, "0%", "101%", "8GiB", [], {}, "/run/../etc", "/a b", "run")
WRONG = {
    "replicas": (None, True, "4", *OTHERS),
    "memory": (True, "25", *OTHERS),
    "threads": (True, 25, *OTHERS),
    "combine": (None, True, *OTHERS),
    "overcommit": (None, 1, "true", *OTHERS),
    "priority": (None, 1, *OTHERS),
    "drain": (None, True, *OTHERS),
    "on_busy": (None, "Wait", *OTHERS),
    "multi_user": (None, 1, *OTHERS),
    "pipe_access": (None, *OTHERS),
    "shm_size": (None, False, "1", *(one for one in OTHERS if one != 0)),
    "root": (None, 1, f"/{'x' * 60}", *OTHERS),
    "owner": (None, 1, "DRA", *OTHERS),
}


def data(**changes: Any) -> dict[str, Any]:
    return {**json.loads(Settings(4).to_json()), **changes}


@given(SETTINGS)
def test_what_is_written_is_read(asked: Settings) -> None:
    assert from_json(asked.to_json()) == asked


def test_each_setting_is_in_the_text_beside_its_version() -> None:
    names = {one.name for one in fields(Settings)}
    assert names == READERS.keys() == WRONG.keys()
    assert data().keys() == {"version", *names} - {"owner"}  # as earlier releases wrote it
    assert json.loads(Settings(4, owner="dra").to_json()).keys() == {"version", *names}


def test_other_values_are_refused_by_name() -> None:
    cases = (
        (json.dumps(data(**{name: value})), (f"refused: {name}: ", " is not valid: expected "))
        for name, values in WRONG.items()
        for value in values
    )
    assert refused_otherwise(from_json, cases, NodeError) == []


def test_other_texts_are_refused() -> None:
    cases = {
        "": "it is no JSON",
        "[]": "it is no JSON object",
        json.dumps(data(version=2)): "version: 2 is not valid: expected 1",
        json.dumps(data(version=True)): "version: True",
        json.dumps({"replicas": 4}): "version: None",
        json.dumps(data(memroy=1)): "'memroy' is no setting",
        json.dumps({"version": 1, "replicas": 4}): "combine is missing",
    }
    assert refused_otherwise(from_json, cases.items(), NodeError) == []


# What a manager that runs takes from settings without being started again.
FREE = ("priority", "drain", "on_busy", "owner")


@given(SETTINGS, SETTINGS)
def test_a_manager_suits_whatever_priority_containers_have(one: Settings, other: Settings) -> None:
    mine, theirs = (
        {key: value for key, value in vars(each).items() if key not in FREE}
        for each in (one, other)
    )
    assert one.suits(other) == (mine == theirs)
    assert one.suits(Settings(**{**vars(one), "priority": other.priority}))
