# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How often the kubelet is asked what pods have: not at each look at the GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._generated.mig import SPEC
from ansible_collections.gpu.node.plugins.module_utils._mig import capability
from ansible_collections.gpu.node.plugins.module_utils._mig.capability import (
    ASK_AGAIN_SECONDS,
    LOOK_AGAIN_SECONDS,
    MigCapability,
)

from tests.fakes.clock import Clock
from tests.fakes.library.fakes import FakeHost


def test_an_answer_is_good_for_a_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(), list[float]()
    monkeypatch.setattr(capability, "time", clock)
    monkeypatch.setattr(
        capability.allocated, "observe", lambda _host: (asked.append(clock.now), ())[1]
    )
    params = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}
    host = FakeHost()
    one = MigCapability(host, {**params, "selected": "all-disabled"}, check_mode=False)  # type: ignore[arg-type]
    for seconds in (0, 1, ASK_AGAIN_SECONDS, ASK_AGAIN_SECONDS + 1):
        clock.now = seconds
        one._holders([], ASK_AGAIN_SECONDS)
    assert asked == [0, ASK_AGAIN_SECONDS]
    clock.now = ASK_AGAIN_SECONDS + LOOK_AGAIN_SECONDS  # before a GPU is touched it has to be newer
    one._holders([], LOOK_AGAIN_SECONDS)
    assert asked == [0, ASK_AGAIN_SECONDS, clock.now]
