# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The quarantine of a node: GPUs by their UUIDs, or all of the node, each with author and reason.

It is in one file, which only gpu.node.quarantine writes, and all other parts read.
"""

from __future__ import annotations

import json
import typing as t

from .._base.errors import NodeError, readable
from .._base.text import json_data, strict
from .._base.text.shown import shown

PATH = "/var/lib/gpu-node/quarantine.json"
CASES = "/var/lib/gpu-node/repair.json"  # of gpu.node.repair
# A user who may write to these can end a quarantine, which services follow at once.
TRUSTED = {PATH: 0o644, CASES: 0o600}
VERSION = 1
MOST_GPUS = 128
OPERATOR, REPAIR, GATE = "operator", "repair", "gate"
# A gate has a file of its own; see gate.py.
WORDS: t.Mapping[str, str] = {
    OPERATOR: "an operator",
    REPAIR: "gpu.node.repair",
    GATE: "the gate of gpu.node.accept",
}
DAMAGED = (
    "restore it from a backup, or move it away and run gpu.node.quarantine again for the GPUs to set aside; until "
    "then the services keep to what they read last, which `gpu-plugin status` shows"
)
FULL = "release those that are not in the node any more (gpu.node.release)"


class Quarantined(t.NamedTuple):
    """The quarantine of a GPU or a node: its author, its reason, and when it began in seconds since 1970.

    ``serial`` and ``pci`` are the GPU's at that time, empty if they were not known, and for a node.
    """

    author: str
    reason: str
    ticket: str = ""
    since: float = 0.0
    serial: str = ""
    pci: str = ""

    @property
    def why(self) -> str:
        """Return the reason with the ticket."""
        return f"{self.reason} (ticket {self.ticket})" if self.ticket else self.reason

    def __str__(self) -> str:
        """Return a phrase for messages."""
        if self.author == GATE:
            return f"held by {WORDS[GATE]}: {self.why}"
        return (
            f"in quarantine since {strict.written(self.since)} by {WORDS[self.author]}: {self.why}"
        )


class Quarantine(t.NamedTuple):
    """The quarantined GPUs by their UUIDs, and the node's quarantine, None if it has none."""

    gpus: t.Mapping[str, Quarantined] = {}
    node: t.Optional[Quarantined] = None

    def of(self, uuid: str) -> t.Optional[Quarantined]:
        """Return the quarantine of a GPU, its own or its node's; None if it has none."""
        return self.gpus.get(uuid) or self.node


class Seen(t.NamedTuple):
    """A GPU that answers: its UUID, serial number (empty if it has none) and PCI address."""

    uuid: str
    serial: str
    pci: str


EMPTY = Quarantine()
OF_GPU = ("by", *Quarantined._fields[1:])
OF_NODE = OF_GPU[:4]


def fence(before: Quarantine, uuid: str, entry: Quarantined) -> Quarantine:
    """Return the quarantine with a GPU. A repair changes no entry of an operator, and the first time stays.

    Raises:
        NodeError: if there are too many GPUs.
    """
    known = before.gpus.get(uuid)
    if known is None and len(before.gpus) >= MOST_GPUS:
        raise NodeError(f"{PATH} has {MOST_GPUS} GPUs, and takes no more", hint=FULL)
    return before._replace(gpus={**before.gpus, uuid: _joined(known, _bounded(entry))})


def fence_node(before: Quarantine, entry: Quarantined) -> Quarantine:
    """Return the quarantine with the node, by the same rules."""
    return before._replace(node=_joined(before.node, _bounded(entry)))


def release(before: Quarantine, uuid: str, author: str) -> Quarantine:
    """Return the quarantine without a GPU. A repair ends no quarantine of an operator."""
    known = before.gpus.get(uuid)
    if known is None or not _may(author, known):
        return before
    return before._replace(
        gpus={other: entry for other, entry in before.gpus.items() if other != uuid}
    )


def release_node(before: Quarantine, author: str) -> Quarantine:
    """Return the quarantine without the node, by the same rules."""
    if before.node is None or not _may(author, before.node):
        return before
    return before._replace(node=None)


def elsewhere(quarantine: Quarantine, seen: t.Collection[Seen]) -> t.Tuple[NodeError, ...]:
    """Return problems: GPUs in quarantine that are in another slot, and other GPUs in the slot of one."""
    there = {gpu.uuid: gpu.pci for gpu in seen}
    moved = (
        NodeError(
            f"{uuid} is at {there[uuid]}, and was at {entry.pci} when it was set aside: it stays in quarantine, "
            "which is the GPU's and not the slot's"
        )
        for uuid, entry in quarantine.gpus.items()
        if entry.pci and there.get(uuid, entry.pci) != entry.pci
    )
    gone = {
        gpu.pci: (uuid, gpu.serial)
        for uuid, gpu in quarantine.gpus.items()
        if gpu.pci and uuid not in there
    }
    replaced = (
        NodeError(
            f"{_named(gpu.uuid, gpu.serial)} is at {gpu.pci}, where {_named(*gone[gpu.pci])} was "
            "when it was set aside, and is not in quarantine",
            hint="where that was taken out for good, run gpu.node.release for it",
        )
        for gpu in seen
        if gpu.pci in gone and gpu.uuid not in quarantine.gpus
    )
    return (*moved, *replaced)


def _named(uuid: str, serial: str) -> str:
    return f"{uuid} (serial number {serial})" if serial else uuid


def parse(text: t.Optional[str]) -> Quarantine:
    """Return the quarantine from the file's text, empty if there is no file.

    Raises:
        NodeError: if the text is invalid.
    """
    if text is None:
        return EMPTY
    with readable(PATH, DAMAGED):
        data = strict.keys("it", json_data.loads(text), "version", "gpus", "node")
        strict.version(data["version"], VERSION)
        gpus = strict.by_uuid("gpus", data["gpus"], MOST_GPUS, "GPUs")
        node = data["node"]
        return Quarantine(
            {uuid: _read(f"gpus.{uuid}", gpu, OF_GPU) for uuid, gpu in gpus.items()},
            None if node is None else _read("node", node, OF_NODE),
        )


def dump(quarantine: Quarantine) -> str:
    """Return the file's text."""
    return json.dumps(data_of(quarantine), indent=1) + "\n"


def data_of(quarantine: Quarantine) -> t.Dict[str, t.Any]:
    """Return the quarantine as data for JSON."""
    return {
        "version": VERSION,
        "gpus": {uuid: _data(gpu, OF_GPU) for uuid, gpu in quarantine.gpus.items()},
        "node": None if quarantine.node is None else _data(quarantine.node, OF_NODE),
    }


def _data(entry: Quarantined, fields: t.Sequence[str]) -> t.Dict[str, t.Any]:
    data = {**entry._asdict(), "by": entry.author, "since": strict.written(entry.since)}
    return {name: data[name] for name in fields}


def _read(name: str, data: object, fields: t.Sequence[str]) -> Quarantined:
    row = strict.keys(name, data, *fields)
    if row["by"] not in (OPERATOR, REPAIR):
        raise ValueError(f"{name}.by: {shown(row['by'])} is not known")
    if not row["reason"]:
        raise ValueError(f"{name}.reason: expected why it is set aside")
    texts = {key: strict.text(f"{name}.{key}", row[key]) for key in fields if key != "since"}
    author, since = texts.pop("by"), strict.time(f"{name}.since", row["since"])
    return Quarantined(author, since=since, **texts)


def _may(author: str, entry: Quarantined) -> bool:
    return author == OPERATOR or entry.author != OPERATOR


def _joined(known: t.Optional[Quarantined], entry: Quarantined) -> Quarantined:
    """Return the new entry of a GPU or a node that may have one already."""
    if known is None:
        return entry
    if not _may(entry.author, known):
        return known
    serial, pci = entry.serial or known.serial, entry.pci or known.pci
    return entry._replace(since=known.since, serial=serial, pci=pci)


def _bounded(entry: Quarantined) -> Quarantined:
    fields = (name for name in entry._fields if name != "since")
    texts = {name: strict.bounded(getattr(entry, name)) for name in fields}
    return entry._replace(since=strict.second(entry.since), **texts)
