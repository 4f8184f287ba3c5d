# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a gate asks for, and which GPUs it holds by the record of their tests. Pure."""

from __future__ import annotations

import json
import typing as t

from .._base.boot import BEFORE, PROGRAM, SANDBOX, Boot, BootState
from .._base.errors import readable
from .._base.text import json_data, strict
from .._node.gate import CONFIG, MOST_GPUS, UNIT, Gate, Held, Override
from .._repair.case import RepairCases
from .record import (
    ANY_LEVEL,
    MOST_FIGURES,
    Identity,
    Record,
    RequiredLevel,
    reason_to_test,
)
from .result import FAILED, LEVELS, TOOLS

GPU, NODE = SCOPES = ("gpu", "node")
VERSION = 1
MOST_NAMED = 4
UNREADABLE = "not accepted: its GPUs can't be read"
# Ordering only: a gate is closed until it was checked, so nothing waits for this.
SERVICE_TEXT = f"""\
# Written by gpu.node.accept.
[Unit]
Description=Check which GPUs were accepted before they get work (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service
Before={BEFORE}
Before=slurmd.service
ConditionPathExists={CONFIG}
StartLimitIntervalSec=0

[Service]
ExecStart={PROGRAM} gate check
Restart=on-failure
RestartSec=10
RuntimeDirectory=gpu-node
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
StateDirectory=gpu-node

{SANDBOX}
[Install]
WantedBy=multi-user.target
"""
TEXTS = {UNIT: SERVICE_TEXT}
BOOT = Boot(CONFIG, UNIT, "checks which GPUs were accepted", "boot")


class GateConfig(t.NamedTuple):
    """What a gate asks for.

    Attributes:
        scope: Whether a GPU that was not accepted is held alone, or the node with it.
        valid_days: How many days a pass is good for, 0 for any time.
        floors: The least that figures may be.
        required: How much has to be tested.
    """

    scope: str = GPU
    valid_days: int = 0
    floors: t.Mapping[str, float] = {}
    required: RequiredLevel = ANY_LEVEL


class GateNode(t.NamedTuple):
    """A node when its gate is checked: its boot, its GPUs by UUID, and what is recorded of them.

    ``silent`` is why NVML does not answer, empty if it does.
    """

    boot: str
    current_time: float
    gpus: t.Mapping[str, Identity] = {}
    record: Record = {}
    cases: RepairCases = RepairCases()
    silent: str = ""


class GateState(t.NamedTuple):
    """The files and the unit of a gate, the gate as it was checked last, and the node to check it against."""

    boot: BootState
    before: t.Optional[Gate] = None
    config: t.Optional[GateConfig] = None
    node: GateNode = GateNode("", 0.0)


def check(before: t.Optional[Gate], config: GateConfig, node: GateNode) -> Gate:
    """Return the gate after a check, where ``before`` is what it was, None for one that is switched on.

    A GPU that was let in since the boot stays so until it fails a test, is repaired, or is not the same any more: that
    its pass gets old takes nothing from those that have it.
    """
    current = before or Gate("")
    silent = node.silent or ("" if node.gpus else "the driver has none")
    if silent:
        if current.boot == node.boot:
            return current
        reason = f"{UNREADABLE}: {silent}"
        return current._replace(boot=node.boot, node=_since(current.node, reason, node), gpus={})
    is_exempt = bool(node.boot) and current.exempt_boot == node.boot
    open_before = current.open_gpus if current.boot == node.boot else ()
    reasons = {
        uuid: _reason(uuid, config, node, exempt=is_exempt, is_open=uuid in open_before)
        for uuid in node.gpus
    }
    unaccepted = {uuid: reason for uuid, reason in reasons.items() if reason}
    override = current.override
    if override:
        let_in = tuple(uuid for uuid in override.gpus if uuid in unaccepted or uuid not in reasons)
        override = override._replace(gpus=let_in) if let_in else None
    refused = {
        uuid: reason
        for uuid, reason in unaccepted.items()
        if not override or uuid not in override.gpus
    }
    missing = {uuid: entry for uuid, entry in current.gpus.items() if uuid not in reasons}
    held = {uuid: _since(current.gpus.get(uuid), why, node) for uuid, why in refused.items()}
    node_reason = _node_reason(refused, len(reasons)) if config.scope == NODE else ""
    return Gate(
        node.boot,
        current.exempt_boot if is_exempt else "",
        _since(current.node, node_reason, node) if node_reason else None,
        dict(list({**held, **missing}.items())[:MOST_GPUS]),
        tuple(uuid for uuid in reasons if uuid not in refused)[:MOST_GPUS],
        override,
    )


def _reason(uuid: str, config: GateConfig, node: GateNode, *, exempt: bool, is_open: bool) -> str:
    """Return why a GPU is held, empty if it is not."""
    acceptance = node.record.get(uuid)
    if acceptance is not None and (acceptance.faults or acceptance.verdict == FAILED):
        return f"not accepted: {'; '.join(acceptance.faults) or 'its last test has failed'}"
    if exempt:
        return ""
    why = reason_to_test(
        acceptance,
        node.gpus[uuid],
        repaired_at=node.cases.reset_at(uuid),
        current_time=node.current_time,
        valid_days=0 if is_open else config.valid_days,
        floors={} if is_open else config.floors,
        required=ANY_LEVEL if is_open else config.required,
    )
    return f"not accepted: {why}" if why else ""


def _since(before: t.Optional[Held], reason: str, node: GateNode) -> Held:
    """Return an entry, whose time stays while it is held."""
    since = before.since if before else strict.second(node.current_time)
    return Held(strict.bounded(reason), since)


def _node_reason(refused: t.Mapping[str, str], count: int) -> str:
    if not refused:
        return ""
    named = [f"GPU {uuid}: {reason}" for uuid, reason in list(refused.items())[:MOST_NAMED]]
    return f"{len(refused)} of {count} GPUs are not accepted: {'; '.join(named)}"


def let_in(gate: Gate, reason: str, current_time: float) -> Gate:
    """Return the gate once an operator has let in all GPUs that it holds."""
    if gate.is_open:
        return gate
    earlier = gate.override.gpus if gate.override else ()
    gpus = tuple(dict.fromkeys((*earlier, *gate.gpus)))[:MOST_GPUS]
    return gate._replace(
        node=None,
        gpus={},
        open_gpus=tuple(dict.fromkeys((*gate.open_gpus, *gate.gpus)))[:MOST_GPUS],
        override=Override(strict.bounded(reason), strict.second(current_time), gpus),
    )


# --- the file with what it asks for ---


def dump_config(config: GateConfig) -> str:
    """Return the file's text."""
    data = {
        "version": VERSION,
        **config._asdict(),
        "floors": dict(config.floors),
        "required": {**config.required._asdict(), "tools": list(config.required.tools)},
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def parse_config(text: t.Optional[str]) -> t.Optional[GateConfig]:
    """Return what a gate asks for, None if there is no file, so no gate.

    Raises:
        NodeError: if the file is damaged.
    """
    if text is None:
        return None
    with readable(CONFIG, "run gpu.node.accept with gpu_nodes_gate: true, which writes it again"):
        data = strict.keys("it", json_data.loads(text), "version", *GateConfig._fields)
        strict.version(data["version"], VERSION)
        if data["scope"] not in SCOPES:
            raise ValueError(f"scope: expected one of {', '.join(SCOPES)}")
        if not json_data.is_whole(data["valid_days"]) or data["valid_days"] < 0:
            raise ValueError("valid_days: expected a number of days")
        floors = data["floors"]
        if not isinstance(floors, dict) or len(floors) > MOST_FIGURES:
            raise ValueError(f"floors: expected at most {MOST_FIGURES} figures by their names")
        for name, floor in floors.items():
            if isinstance(floor, bool) or not isinstance(floor, (int, float)):
                raise ValueError(f"floors.{name}: expected a number")
        required = strict.keys("required", data["required"], *RequiredLevel._fields)
        tools = strict.listed("required.tools", required["tools"], len(TOOLS))
        if required["name"] not in LEVELS or not json_data.is_whole(required["dcgm"]):
            raise ValueError(f"required: expected a level, one of {', '.join(LEVELS)}")
        return GateConfig(
            data["scope"],
            data["valid_days"],
            {name: float(floor) for name, floor in floors.items()},
            RequiredLevel(
                required["name"],
                required["dcgm"],
                tuple(strict.text("required.tools", tool) for tool in tools),
            ),
        )
