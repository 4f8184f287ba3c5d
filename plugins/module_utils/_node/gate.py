# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The gate of a node: the GPUs that get no work, because they were not accepted.

gpu.node.accept and the unit gpu-gate.service write it; the services that give out GPUs read it with each quarantine. A
gate that was not checked since the boot is closed, so that nothing has to run in time for it to hold.
"""

from __future__ import annotations

import json
import typing as t

from .._base.errors import readable
from .._base.text import json_data, strict
from .quarantine import EMPTY, GATE, Quarantine, Quarantined

PATH = "/var/lib/gpu-node/gate.json"
RECORD = "/var/lib/gpu-node/acceptance.json"  # of what was accepted
CONFIG = "/etc/gpu-node/gate.json"
UNIT = "gpu-gate.service"
VERSION = 1
MOST_GPUS = 128
NOT_CHECKED = "not accepted: the gate was not checked since the node booted"
DAMAGED = "move it away, and run gpu.node.accept with gpu_nodes_gate: true, which writes it again"


class Held(t.NamedTuple):
    """Why a GPU or the node is held, and since when in seconds since 1970."""

    reason: str
    since: float = 0.0


class Override(t.NamedTuple):
    """An operator's decision to let GPUs in, given by their UUIDs, that were not accepted."""

    reason: str
    since: float
    gpus: t.Tuple[str, ...] = ()


class Gate(t.NamedTuple):
    """The gate as it was checked last.

    Attributes:
        boot: The ID of the boot in which it was checked.
        exempt_boot: That of the boot in which it was switched on while GPUs were in use, empty if none was. In that
            boot it holds only GPUs with faults.
        node: Why the whole node is held, None if it is not.
        gpus: The GPUs that are held, by UUID.
        open_gpus: The UUIDs of those that are let in.
        override: What an operator has let in, None if nothing.
    """

    boot: str
    exempt_boot: str = ""
    node: t.Optional[Held] = None
    gpus: t.Mapping[str, Held] = {}
    open_gpus: t.Tuple[str, ...] = ()
    override: t.Optional[Override] = None

    @property
    def is_open(self) -> bool:
        """Return whether nothing is held."""
        return self.node is None and not self.gpus

    @property
    def holds_node(self) -> bool:
        """Return whether no GPU is let in, so that the node has no work to do."""
        return self.node is not None or not self.open_gpus


def held(gate: t.Optional[Gate], boot: str) -> Quarantine:
    """Return what a gate holds in a boot, given by its ID, in the form of a quarantine. None is no gate."""
    if gate is None:
        return EMPTY
    if gate.boot != boot:
        return Quarantine(node=Quarantined(GATE, NOT_CHECKED))
    return Quarantine(
        {
            uuid: Quarantined(GATE, entry.reason, since=entry.since)
            for uuid, entry in gate.gpus.items()
        },
        Quarantined(GATE, gate.node.reason, since=gate.node.since) if gate.node else None,
    )


class GateReport(t.NamedTuple):
    """What a gate holds, as texts, and the reason of an operator who has let GPUs in, empty if none has."""

    held: t.Tuple[str, ...] = ()
    override: str = ""


def report_gate(text: t.Optional[str], boot: str) -> GateReport:
    """Return what the file of a gate says in a boot, given by its ID.

    Raises:
        NodeError: if the file is damaged.
    """
    gate = parse_gate(text)
    entries = held(gate, boot)
    named = {"all GPUs": entries.node} if entries.node else entries.gpus
    return GateReport(
        tuple(f"{name}: {entry.reason}" for name, entry in named.items()),
        gate.override.reason if gate and gate.override else "",
    )


def with_held(quarantine: Quarantine, gate: Quarantine) -> Quarantine:
    """Return a quarantine with what a gate holds besides."""
    return Quarantine({**gate.gpus, **quarantine.gpus}, quarantine.node or gate.node)


def dump_gate(gate: Gate) -> str:
    """Return the file's text."""
    data = {
        "version": VERSION,
        **gate._asdict(),
        "node": gate.node and _held_data(gate.node),
        "gpus": {uuid: _held_data(entry) for uuid, entry in gate.gpus.items()},
        "override": gate.override
        and {**gate.override._asdict(), "since": strict.written(gate.override.since)},
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _held_data(entry: Held) -> t.Dict[str, str]:
    return {"reason": entry.reason, "since": strict.written(entry.since)}


def parse_gate(text: t.Optional[str]) -> t.Optional[Gate]:
    """Return the gate that a file has, None if there is no file.

    Raises:
        NodeError: if the file is damaged.
    """
    if text is None:
        return None
    with readable(PATH, DAMAGED):
        data = strict.keys("it", json_data.loads(text), "version", *Gate._fields)
        strict.version(data["version"], VERSION)
        gpus = strict.by_uuid("gpus", data["gpus"], MOST_GPUS, "GPUs")
        return Gate(
            strict.text("boot", data["boot"]),
            strict.text("exempt_boot", data["exempt_boot"]),
            None if data["node"] is None else _parse_held("node", data["node"]),
            {uuid: _parse_held(f"gpus.{uuid}", entry) for uuid, entry in gpus.items()},
            _parse_uuids("open_gpus", data["open_gpus"]),
            None if data["override"] is None else _parse_override(data["override"]),
        )


def _parse_held(name: str, data: object) -> Held:
    row = strict.keys(name, data, *Held._fields)
    return Held(
        strict.text(f"{name}.reason", row["reason"]), strict.time(f"{name}.since", row["since"])
    )


def _parse_override(data: object) -> Override:
    row = strict.keys("override", data, *Override._fields)
    return Override(
        strict.text("override.reason", row["reason"]),
        strict.time("override.since", row["since"]),
        _parse_uuids("override.gpus", row["gpus"]),
    )


def _parse_uuids(name: str, data: object) -> t.Tuple[str, ...]:
    return tuple(strict.text(name, uuid) for uuid in strict.listed(name, data, MOST_GPUS))
