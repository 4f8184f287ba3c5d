# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Why nvidia-smi has reset no GPU, from its output, and the next step."""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError
from .._base.text.shown import cut

REBOOT = "reboot the node, for example by the playbook gpu.node.reboot"
IN_USE = "in use by another client"
TIMED_OUT, NOT_FOUND = 124, 127  # statuses of a shell's
MOST = 600  # characters of what it says
# Phrases of its output, in lower case, and the next step for each. The first that the output has counts.
REFUSALS: t.Tuple[t.Tuple[str, str], ...] = (
    (
        IN_USE,
        "see who has it open by 'lsof /dev/nvidia*' on the node, and end that, or name its service in"
        " gpu_nodes_stop_services (stop_services of the module). Persistence mode counts as well: nvidia-smi -pm 0,"
        " or systemctl stop nvidia-persistenced",
    ),
    ("vgpu mode", "have who runs its host reset it: a vGPU guest can't"),
    (
        "must be reset together",
        "reset them in one command: gpu.node.gpu_reset does with together: true",
    ),
    ("gpu is lost", f"{REBOOT}: no reset brings back a GPU that fell off the bus"),
    ("primary gpu", "reboot the node: a reset of the GPU with the console is not possible"),
    ("not supported", f"{REBOOT}; a virtual machine is started again by its host"),
    ("couldn't communicate with the nvidia driver", "bring up the driver (gpu.node.nvidia_driver)"),
    ("permission", "set become: true, for a user with sudo"),
)


def in_use(error: NodeError) -> bool:
    """Return whether a refusal is temporary, since a process has the GPU open that may be about to close it."""
    return IN_USE in error.cause.lower()


def refusal(uuids: t.Sequence[str], status: int, output: str) -> NodeError:
    """Return the error of nvidia-smi, which ended with this status, for these GPUs, none for all of the node."""
    gpus = ", ".join(uuids) or "all GPUs"
    text = " ".join(output.split())
    problem = "nvidia-smi has reset nothing"
    hint = next((step for phrase, step in REFUSALS if phrase in text.lower()), "")
    if status == TIMED_OUT:
        problem = "no end of the reset"
        hint = f"{REBOOT}: the driver does not come to an end with the reset"
    elif status == NOT_FOUND:
        hint = "install nvidia-smi, which is of the driver's packages for compute or utilities"
    return NodeError(
        f"{gpus}: {problem}",
        cause=cut(text, MOST) or f"it ended with status {status} and said nothing",
        hint=hint or "see the kernel's log, journalctl -k, for messages of NVRM",
    )
