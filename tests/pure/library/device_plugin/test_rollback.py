# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What counts as shown to work, and what a torn file of it counts as."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.rollback import (
    MANAGER,
    Proven,
    parse,
    proven,
    render,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import UNIT
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    CONFIG,
    UNITS,
    Service,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.agent_nodes import changed, seen

FILES = {CONFIG: "c", f"{UNITS}/{UNIT}": "u"}
DAEMON = Service({"ActiveState": "active"}, {"GPU_NODE_RELEASE": "old"})
STATUS = {"config_sha256": "d", "state": "serving", "resources": {"r": {"registered": True}}}
SERVES = seen(
    releases=("new", "old"),
    files=FILES,
    daemon=DAEMON,
    status=STATUS,
    config_digest="d",
    devices=None,
)


def test_what_serves_is_kept_with_the_release_that_runs() -> None:
    assert proven(SERVES, CONFIG) == Proven("old", "c", "u")
    manager = changed(SERVES, files={**FILES, MANAGER: "m"})
    assert proven(manager, CONFIG) == Proven("old", "c", "u", "m")


@pytest.mark.parametrize(
    "changes",
    [
        {"daemon": Service({"ActiveState": "failed"}, DAEMON.environment)},
        {"status": {}},
        {"status": {**STATUS, "state": "refused"}},
        {"status": {**STATUS, "resources": {"r": {"registered": False}}}},
        {"config_digest": "other"},
        {"daemon": Service(DAEMON.properties)},
        {"daemon": Service(DAEMON.properties, {"GPU_NODE_RELEASE": "gone"})},
        {"files": {f"{UNITS}/{UNIT}": "u"}},
        {"files": {CONFIG: "c"}},
    ],
)
def test_what_does_not_serve_is_not(changes: t.Dict[str, t.Any]) -> None:
    assert proven(changed(SERVES, **changes), CONFIG) is None


@given(st.builds(Proven, *[st.text(min_size=1)] * 3, st.text()))
def test_what_is_kept_is_read_again(kept: Proven) -> None:
    assert parse(render(kept)) == kept


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "7",
        json.dumps({"release": "a", "config": "b"}),
        json.dumps({"release": "a", "config": "b", "unit": 7}),
        json.dumps({"release": "", "config": "b", "unit": "c"}),
        json.dumps({"release": "a", "config": "b", "unit": "c", "manager": 7}),
        json.dumps({"release": "a", "config": "b", "unit": "c", "more": "d"}),
    ],
)
def test_what_is_torn_is_nothing(text: t.Optional[str]) -> None:
    assert parse(text) is None
