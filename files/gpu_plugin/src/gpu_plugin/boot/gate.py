# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Checks the gate of gpu.node.accept, after a boot and whenever it is asked for, and shows what it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from .._shared._accept.gate import UNREADABLE
from .._shared._accept.machine.gate import GateFile
from .._shared._base.text import strict
from .._shared._machine.host import Host
from .._shared._node.gate import CONFIG, held
from .._shared._node.machine.facts import boot_id
from ..tools import logs
from .driver import Quiet, status_of

OPEN: Final = 0
HELD: Final = 1  # as for whatever keeps the gate from being read


def check() -> int:
    """Check the gate. Return the exit status: 1 if it can't be checked, such as while no GPU can be read."""

    def work(_config: Path) -> int:
        gate = GateFile(Quiet()).check()
        if gate is None:
            logs.info("the node has no gate")
        elif not gate.is_open:
            reasons = [entry.reason for entry in (*filter(None, [gate.node]), *gate.gpus.values())]
            logs.warning("GPUs are held", reasons=reasons)
        return 1 if gate is not None and gate.node and UNREADABLE in gate.node.reason else 0

    return status_of(work, Path(CONFIG))


def show(*, as_json: bool) -> int:
    """Print what is held, and what an operator has let in. Return the exit status: 1 if anything is held."""
    host = Host()
    gate = GateFile(host).read()
    fenced = held(gate, boot_id(host))
    override = gate.override if gate else None
    rows = {uuid: entry.reason for uuid, entry in fenced.gpus.items()}
    if as_json:
        data = {
            "gate": gate is not None,
            "node": fenced.node.reason if fenced.node else "",
            "gpus": rows,
            "override": override._asdict() if override else None,
        }
        print(json.dumps(data, indent=2))
    else:
        named = {"the node": fenced.node.reason, **rows} if fenced.node else rows
        lines = [f"held: {name}: {reason}" for name, reason in named.items()]
        if override:
            since, uuids = strict.written(override.since), ", ".join(override.gpus)
            lines.append(f"let in by an operator since {since}: {uuids}: {override.reason}")
        print("\n".join([*lines, "held" if named else "open" if gate else "the node has no gate"]))
    return HELD if fenced.node or rows else OPEN
