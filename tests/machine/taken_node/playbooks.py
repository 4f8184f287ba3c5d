# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How each playbook is run where one of its nodes is taken: what is declared, and what the nodes are like."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.machine.taken_node.attacks import VICTIM, Changes
from tests.machine.taken_node.scene import EVIL, TWIN, UUID, TakenScene

ASIDE = {"quarantine_node": True, "quarantine_reason": "XID 79"}


class Case(NamedTuple):
    """Variables of the group and of the taken node, and what that one answers so that it is changed."""

    variables: dict[str, Any] = {}
    evil: dict[str, Any] = {}
    needs: Changes = []


THERE = {"keys": {"stdout": "/etc/gpu-node/x", "stdout_lines": ["/etc/gpu-node/x"]}}
CASES = {
    "accept": Case(),
    "bundle": Case({"bundle_path": "out/bundle"}),
    "docker_host": Case(),
    "fractions": Case({"fractions_image": "registry.example.com/webhook@sha256:" + "0" * 64}),
    "gpu_nodes": Case(),
    "mig": Case({"mig_selected": "half"}),
    "quarantine": Case(ASIDE),
    "reboot": Case(evil={"gpu_nodes_reboot": "always"}),
    "release": Case(ASIDE),
    "repair": Case(),
    "report": Case(),
    "slurm_node": Case(),
    "teardown": Case(needs=[{"module": "command", "text": "test -L", **THERE}]),
    "upgrade_driver": Case({"nvidia_driver_version": "580"}),
    "validate": Case(),
}


def prepare(scene: TakenScene, name: str, changes: Changes) -> None:
    """Make the nodes such that the playbook changes the taken one, and the others have nothing to do."""
    case = CASES[name]
    scene.declare({EVIL: case.evil}, **case.variables)
    for node in (VICTIM, TWIN):
        scene.become(node, nvidia_driver="580", mig="half", plan=[], sick={})
    scene.become(EVIL, plan=["device_plugin"], sick={UUID: "reset"})
    scene.attack([*case.needs, *changes])
