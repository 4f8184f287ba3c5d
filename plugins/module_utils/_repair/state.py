# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What was observed of GPUs and of their node before a repair. None is what is not known or not supported."""

from __future__ import annotations

import dataclasses
import enum
import typing as t

from .._base.gpu import (
    GPU_IS_LOST,
    NOT_FOUND,
    NOTHING_TOLD,
    RESET_REQUIRED,
    TIMEOUT,
    UNKNOWN_ERROR,
    FaultSigns,
)
from .actions import Action


class Answer(enum.Enum):
    """How NVML answers for a GPU. One that is slow answers."""

    YES = "yes"
    RESET_REQUIRED = "reset required"  # NVML_ERROR_RESET_REQUIRED
    LOST = "lost"  # NVML_ERROR_GPU_IS_LOST
    NEVER = "never"  # not within the time after which a GPU counts as hung


# By NVML's error. The driver has a GPU that NVML does not find where it could not initialise it.
ANSWERED: t.Mapping[int, Answer] = {
    RESET_REQUIRED: Answer.RESET_REQUIRED,
    GPU_IS_LOST: Answer.LOST,
    TIMEOUT: Answer.NEVER,
    NOT_FOUND: Answer.NEVER,
    UNKNOWN_ERROR: Answer.NEVER,
}


class Xid(t.NamedTuple):
    """An XID since the GPU's last reset; ``at`` is its last time in seconds since 1970.

    ``instances`` are the MIG instances that the driver blamed, as it names them: ``GPU-I:05 GPU-CI:00``.
    """

    number: int
    at: float = 0.0
    times: int = 1
    instances: t.Tuple[str, ...] = ()


class SXid(t.NamedTuple):
    """An SXID of an NVSwitch since the last reset; ``trunk`` is a link between switches, and no GPU's."""

    number: int
    fatal: bool
    trunk: t.Optional[bool] = None
    at: float = 0.0
    times: int = 1


class Attempt(t.NamedTuple):
    """What was done for a GPU before, and when, in seconds since 1970."""

    action: Action
    at: float


@dataclasses.dataclass(frozen=True)
class ObservedGpu:
    """A GPU. ``architecture`` is as ``_base.gpu.architecture`` names it, empty where it is not known.

    ``attempts`` are those for this GPU alone: a reboot for another one's sake is none. ``peers`` are the UUIDs of the
    GPUs that NVLink bridges connect it with, straight or through others.
    """

    uuid: str
    architecture: str = ""
    present: bool = True
    answer: Answer = Answer.YES
    signs: FaultSigns = NOTHING_TOLD
    xids: t.Tuple[Xid, ...] = ()
    attempts: t.Tuple[Attempt, ...] = ()
    peers: t.Optional[t.Tuple[str, ...]] = None


class Virtual(enum.Enum):
    """What kind of machine it is to its GPUs, as NVML's virtualization mode has it."""

    NONE = "bare metal"
    PASSTHROUGH = "passthrough"
    VGPU = "vGPU guest"


@dataclasses.dataclass(frozen=True)
class ObservedNode:
    """A node. ``branch`` is the driver's, and ``nvlink`` the generation of NVLink; 0 is none.

    ``fabric_manager`` tells whether it runs, ``fabric_restarted`` whether it was started after the GPUs' last reset.
    """

    branch: int = 0
    virtual: t.Optional[Virtual] = None
    nvswitch: t.Optional[bool] = None
    nvlink: t.Optional[int] = None
    fabric_manager: t.Optional[bool] = None
    fabric_restarted: bool = False
    sxids: t.Tuple[SXid, ...] = ()


class Reason(t.NamedTuple):
    """Something that was found, and the least that it asks for."""

    action: Action
    text: str


class GpuVerdict(t.NamedTuple):
    """What to do about a GPU, and why, the strongest reason first.

    ``together`` are the other GPUs that a reset of several takes, none where it takes all of the node.
    """

    uuid: str
    action: Action
    reasons: t.Tuple[Reason, ...] = ()
    together: t.Tuple[str, ...] = ()


class Verdict(t.NamedTuple):
    """What to do about each GPU, in the order in which they were given, and about the node as a whole."""

    action: Action
    reasons: t.Tuple[Reason, ...]
    gpus: t.Tuple[GpuVerdict, ...]
