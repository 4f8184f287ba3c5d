# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a reset takes on each kind of machine."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import FaultSigns
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import (
    Action,
    GpuSigns,
    NodeSigns,
    Virtual,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.verdict import (
    RULES,
    judge_node,
    reset_rule,
)

BARE = Virtual.NONE
OTHERS = ("GPU-b", "GPU-c")
MACHINES = {
    "a vGPU guest": (NodeSigns(580, Virtual.VGPU, False), ("ada", ()), Action.ASK),
    "a GPU passed through": (
        NodeSigns(580, Virtual.PASSTHROUGH, True),
        ("hopper", ()),
        Action.REBOOT,
    ),
    "a machine that may be virtual": (NodeSigns(580, None, False), ("hopper", ()), Action.ASK),
    "HGX H100": (NodeSigns(580, BARE, True, 4), ("hopper", None), Action.RESET),
    "HGX H100 without fabric manager": (
        NodeSigns(580, BARE, True, 4, fabric_manager=False),
        ("hopper", None),
        Action.RESET,
    ),
    "HGX B200": (
        NodeSigns(580, BARE, True, 5, fabric_manager=True),
        ("blackwell", None),
        Action.RESET,
    ),
    "HGX A100": (
        NodeSigns(580, BARE, True, 3, fabric_manager=True),
        ("ampere", None),
        Action.RESET,
    ),
    "HGX A100 without fabric manager": (
        NodeSigns(580, BARE, True, 3, fabric_manager=False),
        ("ampere", None),
        Action.RESET_ALL,
    ),
    "HGX A100 of unknown fabric manager": (
        NodeSigns(580, BARE, True, 3),
        ("ampere", None),
        Action.ASK,
    ),
    "DGX-2": (NodeSigns(580, BARE, True, 2), ("volta", None), Action.RESET_ALL),
    "A100s with bridges": (NodeSigns(580, BARE, False, 3), ("ampere", OTHERS), Action.RESET),
    "L40S": (NodeSigns(580, BARE, False, 0), ("ada", ()), Action.RESET),
    "T4": (NodeSigns(580, BARE, False, 0), ("turing", ()), Action.RESET),
    "V100s with NVLink": (NodeSigns(580, BARE, False, 2), ("volta", OTHERS), Action.RESET_ALL),
    "V100s of unknown links": (NodeSigns(580, BARE, False, 2), ("volta", None), Action.ASK),
    "switches that nobody looked for": (NodeSigns(580, BARE), ("hopper", ()), Action.ASK),
    "an architecture to come": (NodeSigns(580, BARE, True, 6), ("rubin", ()), Action.ASK),
    "an architecture that nobody read": (NodeSigns(580, BARE, False), ("", ()), Action.ASK),
    "Ada behind switches": (NodeSigns(580, BARE, True), ("ada", ()), Action.ASK),
}
WANTS_RESET = FaultSigns(recovery=1)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_reset_is_what_the_machine_allows(machine: str) -> None:
    node, (architecture, peers), action = MACHINES[machine]
    gpu = GpuSigns("GPU-a", architecture, signs=WANTS_RESET, peers=peers)
    found = judge_node(node, [gpu], 0.0).gpus[0]
    assert found.action is action, found.reasons
    assert found.together == (OTHERS if machine == "V100s with NVLink" else ())
    assert reset_rule(node, gpu).text in {one.text for one in found.reasons}


def test_each_rule_has_a_machine() -> None:
    met = {
        reset_rule(node, GpuSigns("", architecture, peers=peers)).text
        for node, (architecture, peers), _action in MACHINES.values()
    }
    assert {one.text for one in RULES} < met


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("an architecture to come", "how a rubin GPU of this machine is reset"),
        ("an architecture that nobody read", "how a GPU of this architecture of this machine"),
        ("switches that nobody looked for", "not known: whether there are NVSwitches"),
        ("HGX A100 of unknown fabric manager", "not known: whether the fabric manager runs"),
        ("V100s of unknown links", "not known: which GPUs NVLink connects it with"),
    ],
)
def test_a_machine_that_no_rule_knows_is_refused_with_what_is_not_known(
    machine: str, said: str
) -> None:
    node, (architecture, peers), _action = MACHINES[machine]
    assert said in reset_rule(node, GpuSigns("", architecture, peers=peers)).text


def test_who_needs_no_reset_is_asked_for_no_rule() -> None:
    vgpu, gpu = NodeSigns(580, Virtual.VGPU, False), GpuSigns("GPU-a", "ada")
    assert judge_node(vgpu, [gpu], 0.0).gpus[0].action is Action.NONE
