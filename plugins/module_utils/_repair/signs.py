# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The signs of a fault that GPUs and their node show before a repair, and the actions that a sign can ask for.

None is a sign that is not known or not supported.
"""

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


class Action(enum.IntEnum):
    """An action on a GPU or its node, each stronger than those before it.

    The order is the driver's own where it has one: a reset goes before a drain, a reboot before both. ``ASK`` and
    ``REPLACE`` are a person's work, and stronger than a reboot: nothing else is done before that.
    """

    NONE = 0
    RESTART_APPLICATION = 1
    RECOVER_FABRIC = 2
    DRAIN_THEN_RESET = 3  # no new work, what runs may end, then a reset
    RESET = 4  # of the GPU, once whatever uses it has ended
    RESET_ALL = 5  # of several GPUs by one command
    REBOOT = 6
    ASK = 7
    REPLACE = 8

    @property
    def word(self) -> str:
        """The action's name, as users write and read it."""
        return self.name.lower()

    @property
    def acts(self) -> bool:
        """Whether a repair acts on the GPU or its node; applications are restarted by their owners."""
        return self > Action.RESTART_APPLICATION

    @property
    def fences(self) -> bool:
        """Whether the GPU gets no new work until the action is completed. Most jobs do without its fabric."""
        return self > Action.RECOVER_FABRIC

    @property
    def resets(self) -> bool:
        """Whether the action is a reset of any kind."""
        return Action.DRAIN_THEN_RESET <= self <= Action.RESET_ALL


STEPS: t.Mapping[Action, str] = {
    Action.NONE: "nothing",
    Action.RESTART_APPLICATION: "a restart of the application",
    Action.RECOVER_FABRIC: "a recovery of the fabric, or of the IMEX domain",
    Action.DRAIN_THEN_RESET: "no new work, and a reset of the GPU when what runs has ended",
    Action.RESET: "a reset of the GPU",
    Action.RESET_ALL: "a reset of several GPUs at once",
    Action.REBOOT: "a reboot of the node",
    Action.ASK: "a person who looks at it",
    Action.REPLACE: "another GPU in its place",
}
ACTIONS: t.Mapping[str, Action] = {action.word: action for action in Action}


class Answer(enum.Enum):
    """NVML's answer for a GPU. A GPU that is slow answers."""

    YES = "yes"
    RESET_REQUIRED = "reset required"  # NVML_ERROR_RESET_REQUIRED
    LOST = "lost"  # NVML_ERROR_GPU_IS_LOST
    NEVER = "never"  # not within the time after which a GPU counts as hung


# By NVML's error. The driver has a GPU that NVML does not find where it could not initialise it.
ANSWERS_BY_ERROR: t.Mapping[int, Answer] = {
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
    """An attempt to repair a GPU, in seconds since 1970; ``result`` is empty until it is known."""

    action: Action
    at: float
    result: str = ""


@dataclasses.dataclass(frozen=True)
class GpuSigns:
    """The signs of a GPU. ``architecture`` is as ``_base.gpu.architecture`` names it, empty where it is not known.

    ``attempts`` are those for this GPU alone: a reboot for another GPU's sake is none. ``peers`` are the UUIDs of the
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
    """The kind of machine that the node is to its GPUs, as NVML's virtualization mode has it."""

    NONE = "bare metal"
    PASSTHROUGH = "passthrough"
    VGPU = "vGPU guest"


@dataclasses.dataclass(frozen=True)
class NodeSigns:
    """The signs of a node. ``branch`` is the driver's, and ``nvlink`` the generation of NVLink; 0 is none.

    ``fabric_manager`` tells whether it runs, ``fabric_restarted`` whether it was started after the GPUs' last reset.
    """

    branch: int = 0
    virtual: t.Optional[Virtual] = None
    nvswitch: t.Optional[bool] = None
    nvlink: t.Optional[int] = None
    fabric_manager: t.Optional[bool] = None
    fabric_restarted: bool = False
    sxids: t.Tuple[SXid, ...] = ()


def connected_gpus(
    gpu: str, links: t.Mapping[str, t.Optional[t.Collection[str]]]
) -> t.Optional[t.Tuple[str, ...]]:
    """Return the GPUs that NVLink bridges connect with a GPU, straight or through others, or None if not known.

    Args:
        links: The GPUs with which each GPU has links, None if it does not answer. A link has two ends, so that a
            single GPU that does not answer is known by the answers of the others. Of two such it is not known whether
            they have links with each other, nor which GPUs are connected with either of them.
    """
    if gpu not in links:
        return None
    edges: t.Dict[str, t.Set[str]] = {}
    for end, far_ends in links.items():
        for far_end in far_ends or ():
            edges.setdefault(end, set()).add(far_end)
            edges.setdefault(far_end, set()).add(end)
    reached, pending = {gpu}, [gpu]
    while pending:
        new = edges.get(pending.pop(), set()) - reached
        reached |= new
        pending += sorted(new)
    silent = {end for end, far_ends in links.items() if far_ends is None}
    return None if len(silent) > 1 and silent & reached else tuple(sorted(reached - {gpu}))
