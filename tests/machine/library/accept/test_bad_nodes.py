# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes with a bad GPU, whose runs are killed and which boot in between: the bad GPU gets no work at any time."""

from __future__ import annotations

import random

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.record import PATH
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._node.gate import CONFIG, held, parse_gate
from ansible_collections.gpu.node.plugins.module_utils._node.gate import PATH as GATE

from tests.machine.library.accept.scene import AcceptScene
from tests.machine.library.repair.reset.scene import BOOT_ID, uuids

# Of the part that tests one GPU: the stand-in can't tell the GPUs of the part that tests links.
FAULTS = (
    *("bit", "cell", "cuInit", "cuMemAlloc_v2", "cuLaunchKernel", "cuCtxSynchronize"),
    *("cuMemcpyDtoH_v2", "cuMemcpyDtoDAsync_v2", "cuEventElapsedTime"),
)
SCOPES = ("gpu", "node")
FEW, MANY = 3, 1000


def let_in(node: AcceptScene) -> set[str]:
    """Return the UUIDs of the GPUs that services give out, as they read the gate."""
    files = node["files"]
    gate = parse_gate(files.get(GATE))
    fenced = held(gate, files.get(BOOT_ID, "boot-1\n").strip())
    return {uuid for uuid in uuids(node, 0, 1) if fenced.of(uuid) is None}


def live(node: AcceptScene, seed: int) -> None:
    """Bring a node with a bad GPU up, in a way of its own."""
    chance = random.Random(seed)
    good, bad = chance.sample(uuids(node, 0, 1), 2)
    scope, boots = chance.choice(SCOPES), 1
    node.change(files={PROGRAM: ""}, services={}, log=[])
    node.fault, node.bad_gpu = chance.choice(FAULTS), bad
    node.run(gate=True, scope=scope, test="never", fail=False)
    assert let_in(node) == set()
    for _again in range(chance.randint(1, 3)):
        die_before = chance.choice((CONFIG, GATE, PATH, "", ""))
        if die_before:
            process = node.begin(die_before=die_before, gate=True, scope=scope, test="always")
            process.communicate()
        else:
            node.run(gate=True, scope=scope, test=chance.choice(("always", "when_needed")))
        assert bad not in let_in(node)
        if chance.random() < 0.5:
            boots += 1
            node.change(files={**node["files"], BOOT_ID: f"boot-{boots}\n"})
            assert let_in(node) == set()
    node.run(gate=True, scope=scope)
    assert let_in(node) == ({good} if scope == "gpu" else set())


def test_bad_gpu_gets_no_work_through_kills_and_boots(node: AcceptScene) -> None:
    for seed in range(FEW):
        live(node, seed)


@pytest.mark.endurance
def test_no_bad_gpu_of_a_thousand_gets_work(node: AcceptScene) -> None:
    for seed in range(FEW, MANY):
        live(node, seed)
