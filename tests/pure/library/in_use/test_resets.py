# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What nvidia-smi says where it resets nothing, and what makes way for a reset and comes back."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan, Step
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._node.machine import resets
from ansible_collections.gpu.node.plugins.module_utils._node.machine.facts import BOOT_ID
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine.services import (
    Services,
)
from ansible_collections.gpu.node.plugins.module_utils._node.users.services import RECORD

from tests.fakes.library.fakes import FakeHost

GPU = "GPU-e8f601d1-77c8-55bd-9276-681ef5fb455f"
MODULE = "/sys/module/nvidia_drm"
# As nvidia-smi 550.163.01 says it.
GROUP = """\
GPU Reset couldn't progress because the specified devices do not meet the reset criterion (e.g. NVLink connected GPUs \
must be reset together). Please append the following device indexes to the command line and retry.
GPU 1 (00000000:29:00.0)
"""


@pytest.mark.parametrize(
    ("status", "said", "cause", "hint"),
    [
        (19, "GPU reset unavailable: In use by another client\n", "another client", "lsof"),
        (3, "GPU reset unavailable: Not Supported\n", "Not Supported", "reboot the node"),
        (
            3,
            "GPU Reset couldn't run because GPU 00000000:29:00.0 is in vGPU mode.\n",
            "in vGPU mode",
            "who runs its host",
        ),
        (2, GROUP, "GPU 1 (00000000:29:00.0)", "together: true"),
        (
            15,
            "Unable to determine the device handle for GPU1: GPU is lost.  Reboot the system\n\n",
            "GPU is lost. Reboot",
            "reboot the node",
        ),
        (
            3,
            "Cannot detect chip architecture for 00000000:18:00.0\nResetting GPU 00000000:18:00.0 is not supported.\n",
            "is not supported",
            "reboot the node",
        ),
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure\n\n",
            "couldn't communicate",
            "gpu.node.nvidia_driver",
        ),
        (127, "nvidia-smi: not found", "not found", "install nvidia-smi"),
        (124, "", "status 124", "does not come to an end"),
        (1, "what nobody knows", "what nobody knows", "journalctl -k"),
        (1, "", "status 1 and said nothing", "journalctl -k"),
    ],
)
def test_refusal_of_nvidia_smi_says_what_helps(
    status: int, said: str, cause: str, hint: str
) -> None:
    host = FakeHost(commands={("nvidia-smi",): Completed(status, said, "")})
    with pytest.raises(NodeError, match=GPU) as found:
        resets.reset(host, [GPU])  # type: ignore[arg-type]
    assert cause in found.value.cause
    assert hint in found.value.hint


def test_gpus_that_go_together_are_reset_by_one_command() -> None:
    host = FakeHost(commands={("nvidia-smi",): "All done.\n"})
    resets.reset(host, ["GPU-a", "GPU-b"])  # type: ignore[arg-type]
    resets.reset(host, [])  # type: ignore[arg-type]
    told = ("nvidia-smi", "--gpu-reset")
    assert host.ran == [(*told, "-i", "GPU-a,GPU-b"), told]


@pytest.mark.parametrize(
    ("modeset", "used", "wanted"),
    [
        ("Y\n", "0\n", ["the module nvidia_drm"]),
        ("Y\n", "2\n", []),  # what somebody uses stays
        ("N\n", "0\n", []),
        (None, None, []),
    ],
)
def test_module_that_has_gpus_open_makes_way_where_nobody_uses_it(
    modeset: str | None, used: str | None, wanted: list[str]
) -> None:
    told = {f"{MODULE}/parameters/modeset": modeset, f"{MODULE}/refcnt": used}
    host = FakeHost({path: text for path, text in told.items() if text is not None})
    assert resets.makes_way(host, [GPU]) == [*wanted, f"persistence mode of {GPU}"]  # type: ignore[arg-type]


def stopping() -> tuple[FakeHost, Services, list[Step]]:
    host = FakeHost(
        {BOOT_ID: "boot-1\n", f"{MODULE}/parameters/modeset": "Y\n"},
        {(name,): "" for name in ("systemctl", "nvidia-smi", "modprobe", "rmmod")},
    )
    services = Services(host, [])  # type: ignore[arg-type]
    plan = Plan((Step("reset_gpu", "reset", needs=("idle_gpu",)),))
    also = ["nvidia-dcgm.service", *resets.makes_way(host, [GPU])]  # type: ignore[arg-type]
    return host, services, list(services.around(plan, also).steps)


def acted(host: FakeHost) -> list[str]:
    return [" ".join(words) for words in host.ran if "show" not in words]


BACK = [f"nvidia-smi -pm 1 -i {GPU}", "modprobe nvidia_drm", "systemctl start nvidia-dcgm.service"]


def test_what_makes_way_for_a_reset_comes_back_in_reverse_order() -> None:
    host, services, steps = stopping()
    assert [step.action for step in steps] == ["stop_services", "reset_gpu", "start_services"]
    assert f"persistence mode of {GPU}, to be started again" in steps[0].summary
    for step in steps:
        services.apply(step)
    away = [
        "systemctl stop nvidia-dcgm.service",
        "rmmod nvidia_drm",
        f"nvidia-smi -pm 0 -i {GPU}",
    ]
    assert acted(host) == [*away, *BACK]
    assert RECORD not in host.files


@pytest.mark.parametrize("made", [1, 2])
def test_next_run_brings_back_what_made_way_for_a_run_that_was_killed(made: int) -> None:
    host, services, steps = stopping()
    for step in steps[:made]:
        services.apply(step)
    host.ran.clear()
    after = Services(host, [])  # type: ignore[arg-type]
    left = after.around(Plan()).steps
    assert [step.action for step in left] == ["start_services"]
    for step in left:
        after.apply(step)
    assert acted(host) == BACK
    assert after.around(Plan()).steps == ()


def test_persistence_mode_that_does_not_come_back_is_a_warning() -> None:
    host, services, steps = stopping()
    services.apply(steps[0])
    host.commands["nvidia-smi",] = Completed(15, "GPU is lost", "")
    services.apply(steps[-1])
    assert any(GPU in one for one in services.around(Plan()).warnings)
    assert acted(host)[-2:] == BACK[1:]
