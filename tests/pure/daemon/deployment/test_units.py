# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the units say of memory that runs out, and of restarts."""

from __future__ import annotations

from tests.docs.tables import exposure

KUBELET = -999
SPARED = {
    "gpu-device-plugin.service": -997,
    "gpu-dra.service": -997,
    "gpu-node-labels.service": -500,
}


def test_who_is_ended_first_when_memory_runs_out() -> None:
    """After the pods that the kubelet gives up first, from 2 on, and before the kubelet itself."""
    for unit, expected in SPARED.items():
        (score,) = exposure.setting(unit, "OOMScoreAdjust")
        assert KUBELET < int(score) == expected < 2


def test_the_pause_before_a_restart_does_not_grow_for_good() -> None:
    """systemd counts restarts as long as a unit is loaded: a pause that grows never gets shorter again."""
    for unit in SPARED:
        assert exposure.setting(unit, "Restart") == ["always"]
        assert exposure.setting(unit, "StartLimitIntervalSec") == ["0"]
        assert not exposure.setting(unit, "RestartSteps")
