# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a reset of a GPU takes on each kind of machine.

From nvidia-smi's manual and the Fabric Manager's user guide. A machine of which no row speaks is not reset: a person is
asked.
"""

from __future__ import annotations

import typing as t

from .actions import Action
from .state import ObservedGpu, ObservedNode, Virtual

BEFORE_AMPERE = frozenset({"kepler", "maxwell", "pascal", "volta", "turing"})
SINCE_HOPPER = frozenset({"hopper", "blackwell"})  # of those that are behind NVSwitches
WITHOUT_SWITCHES = frozenset({"ampere", "ada"}) | SINCE_HOPPER


class Rule(t.NamedTuple):
    """A kind of machine, and what a reset of a GPU comes to there; ``NONE`` leaves it as it is."""

    holds: t.Callable[[ObservedNode, ObservedGpu], bool]
    action: Action
    text: str


def _switched(node: ObservedNode, gpu: ObservedGpu, *architectures: str) -> bool:
    return bool(node.nvswitch) and gpu.architecture in architectures


# The first that holds counts.
RULES: t.Tuple[Rule, ...] = (
    Rule(
        lambda node, gpu: node.virtual is Virtual.VGPU,
        Action.ASK,
        "a vGPU guest can't reset its GPU: who runs its host can",
    ),
    Rule(
        lambda node, gpu: node.virtual is Virtual.PASSTHROUGH,
        Action.REBOOT,
        "a GPU that is passed through is reset with its virtual machine",
    ),
    Rule(
        lambda node, gpu: node.virtual is None,
        Action.ASK,
        "it is not known whether the node is a virtual machine, so how its GPUs are reset is not either",
    ),
    Rule(
        lambda node, gpu: _switched(node, gpu, *SINCE_HOPPER),
        Action.NONE,
        "behind NVSwitches Hopper and later are reset one by one",
    ),
    Rule(
        lambda node, gpu: _switched(node, gpu, "ampere") and node.fabric_manager is True,
        Action.NONE,
        "the fabric manager runs, so an A100 behind NVSwitches is reset by itself",
    ),
    Rule(
        lambda node, gpu: _switched(node, gpu, "ampere") and node.fabric_manager is False,
        Action.RESET_ALL,
        "the fabric manager does not run, so the A100s behind NVSwitches are reset together",
    ),
    Rule(
        lambda node, gpu: _switched(node, gpu, *BEFORE_AMPERE),
        Action.RESET_ALL,
        "before Ampere, the GPUs behind NVSwitches are reset together",
    ),
    Rule(
        lambda node, gpu: node.nvswitch is False and gpu.architecture in WITHOUT_SWITCHES,
        Action.NONE,
        "from Ampere on, GPUs without NVSwitches are reset one by one",
    ),
    Rule(
        lambda node, gpu: (
            node.nvswitch is False and gpu.architecture in BEFORE_AMPERE and gpu.peers == ()
        ),
        Action.NONE,
        "no NVLink connects it with another GPU",
    ),
    Rule(
        lambda node, gpu: (
            node.nvswitch is False and gpu.architecture in BEFORE_AMPERE and bool(gpu.peers)
        ),
        Action.RESET_ALL,
        "before Ampere, GPUs that NVLink connects are reset together",
    ),
)


def rule(node: ObservedNode, gpu: ObservedGpu) -> Rule:
    """Return what holds of a GPU's reset; one that asks, where the machine is not known."""
    for one in RULES:
        if one.holds(node, gpu):
            return one
    kind = f"{gpu.architecture} GPU" if gpu.architecture else "GPU of this architecture"
    lacks = [
        *(["whether there are NVSwitches"] if node.nvswitch is None else []),
        *(["whether the fabric manager runs"] if _switched(node, gpu, "ampere") else []),
        *(["which GPUs NVLink connects it with"] if gpu.architecture in BEFORE_AMPERE else []),
    ]
    more = f"; not known: {', '.join(lacks)}" if lacks else ""
    text = f"no rule says how a {kind} of this machine is reset{more}"
    return Rule(lambda _node, _gpu: True, Action.ASK, text)
