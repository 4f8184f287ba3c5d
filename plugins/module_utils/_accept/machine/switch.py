# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps that switch the gate of a node on or off, and that hold or let in its GPUs."""

from __future__ import annotations

import typing as t

from ..._base.steps import Step
from ..._machine.host import Host
from ..._node.gate import CONFIG, PATH, Gate
from ..._node.machine import boot
from ..gate import BOOT, TEXTS, GateConfig, GateNode, GateState, check, dump_config, let_in
from .gate import GateFile

HOLD, REMOVE = "gate", "gate_remove"
FILES = {CONFIG: 0o644, PATH: 0o644}


class GateSwitch:
    """Switches a gate on or off, or checks the one that there is.

    Args:
        config: What the gate is to ask for if it is to be on.
        on: Whether it is to be on, None for as it is.
        override: An operator's reason to let in what it holds, empty for none.
        unit: Whether it is checked at boot, too, by a program that may not be on the node yet.
    """

    def __init__(
        self,
        host: Host,
        config: GateConfig,
        *,
        on: t.Optional[bool],
        override: str,
        unit: bool,
    ) -> None:
        self._host, self._file = host, GateFile(host)
        self._config, self._on, self._override, self._unit = config, on, override, unit

    def observe(self) -> t.Optional[GateState]:
        """Read the gate, and the node where there is a gate or is to be one; None if there is nothing to read.

        Raises:
            NodeError: if a record or the gate is damaged.
        """
        config = None if self._on else self._file.config()
        if not self._on and config is None and not self._host.exists(PATH):
            return None
        state = GateState(
            boot.observe(self._host, BOOT), config=self._config if self._on else config
        )
        if state.config is None or self._on is False:
            return state
        return state._replace(before=self._file.read(), node=self._file.observe())

    def gate(self, state: GateState, *, in_use: t.Callable[[], bool]) -> t.Optional[Gate]:
        """Return what the gate is to be; ``in_use`` returns whether somebody has a GPU of the node."""
        if state.config is None or self._on is False:
            return None
        before = state.before
        if before is None:
            before = Gate("", exempt_boot=state.node.boot if in_use() else "")
        return self._overridden(check(before, state.config, state.node), state.node)

    def steps(
        self, state: t.Optional[GateState], gate: t.Optional[Gate], *, check_mode: bool
    ) -> t.List[Step]:
        """Return the steps to a gate, or to none."""
        if state is None:
            return []
        if gate is None or state.config is None:
            steps = BOOT.plan(state.boot, None, TEXTS, check_mode=check_mode)
            if self._host.exists(PATH):
                steps.append(Step(REMOVE, f"remove {PATH}: no GPU is held any more"))
            return steps
        steps = []
        if self._on:
            text, is_bare = dump_config(state.config), not self._unit and not state.boot.program
            steps = BOOT.plan(state.boot, text, TEXTS, check_mode=check_mode or is_bare)
            if is_bare:
                steps = [step for step in steps if step.action == "boot_config"]
        if gate != state.before:
            steps.append(Step(HOLD, _summary(gate), {"gate": gate}))
        return steps

    def apply(self, step: Step) -> bool:
        """Carry out a step; return whether it is one of the gate's."""
        if step.action.startswith("boot_"):
            boot.apply(self._host, step)
        elif step.action == REMOVE:
            self._host.remove(PATH)
        elif step.action == HOLD:
            planned: Gate = step.params["gate"]
            self.check(Gate("", exempt_boot=planned.exempt_boot))
        else:
            return False
        return True

    def check(self, first: t.Optional[Gate] = None) -> None:
        """Check the gate that there is, or the ``first`` one, by what the GPUs and their record are by now."""
        self._file.check(self._overridden, first)

    def _overridden(self, gate: Gate, node: GateNode) -> Gate:
        return let_in(gate, self._override, node.current_time) if self._override else gate

    def describe(self, gate: t.Optional[Gate]) -> t.Dict[str, t.Any]:
        """Return a gate as the module answers."""
        if gate is None:
            return {"on": False, "open": True, "holds_node": False, "held": [], "override": ""}
        held = [f"GPU {uuid}: {entry.reason}" for uuid, entry in gate.gpus.items()]
        return {
            "on": True,
            "open": gate.is_open,
            "holds_node": gate.holds_node,
            "held": [*([gate.node.reason] if gate.node else []), *held],
            "override": gate.override.reason if gate.override else "",
        }


def _summary(gate: Gate) -> str:
    if gate.is_open:
        return f"let in {len(gate.open_gpus)} GPUs"
    if gate.node:
        return f"hold the node: {gate.node.reason}"
    named = "; ".join(f"GPU {uuid}: {entry.reason}" for uuid, entry in gate.gpus.items())
    return f"hold {len(gate.gpus)} GPUs: {named}"
