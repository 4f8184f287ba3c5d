# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs that the driver has, with the UUIDs that it tells below /proc."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import TIMEOUT, NvmlError
from ansible_collections.gpu.node.plugins.module_utils._repair.machine.observe_nvml import (
    NvmlAnswer,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.reset import machine

from tests.fakes.library.fakes import FakeHost

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
# As the driver writes it before the GPU was initialised.
UNKNOWN = "GPU-????????-????-????-????-????????????"
FIRST, SECOND, THIRD, FOURTH = (f"0000:{bus}:00.0" for bus in ("18", "2a", "3b", "5e"))


def host() -> FakeHost:
    def information(uuid: str, excluded: str = "No") -> str:
        return f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nDevice Minor: \t 0\nGPU Excluded:\t {excluded}\n"

    folder = "/proc/driver/nvidia"
    gpus = {
        FIRST: information(UUID),
        SECOND: information(UNKNOWN),
        THIRD: information(UNKNOWN),
        FOURTH: information(UUID, "Yes"),
    }
    return FakeHost(
        {
            f"{folder}/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  x\n",
            **{f"{folder}/gpus/{at}/information": text for at, text in gpus.items()},
        },
        {("systemctl", "show"): "", ("systemd-detect-virt",): "none\n"},
    )


def test_reset_names_a_gpu_whose_uuid_is_not_known_by_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = NvmlAnswer(error=NvmlError(TIMEOUT, "reading"))
    monkeypatch.setattr(machine.observe_nvml, "ask", lambda gpus: dict.fromkeys(gpus, silent))
    monkeypatch.setattr(machine, "_ask_use", lambda _gpus: {})
    state = machine.observe(host())  # type: ignore[arg-type]
    assert [gpu.uuid for gpu in state.gpus] == [UUID, SECOND, THIRD]
