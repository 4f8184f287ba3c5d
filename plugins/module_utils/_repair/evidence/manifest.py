# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manifest of an archive, the first file in it: ``manifest.json``, and the same to read in ``summary.txt``."""

from __future__ import annotations

import json
import typing as t

from ..._base.text import json_data
from ..._base.text.masking import masked
from ..._base.text.readable import as_yaml
from ..._base.text.strict import written
from ..case import RepairCases, cases_as_data
from .plan import Decision
from .state import Earlier, EvidenceGpu, Missing, Part

FILE, SUMMARY = "manifest.json", "summary.txt"
VERSION = 1
Json = t.Dict[str, t.Any]


class Machine(t.NamedTuple):
    """The machine: its name, its maker and system, its driver, and the slots by the GPUs' PCI addresses."""

    node: str
    machine: t.Mapping[str, str]
    driver: t.Mapping[str, str]
    slots: t.Mapping[str, str]


def build_manifest(
    decision: Decision,
    machine: Machine,
    cases: RepairCases,
    contents: t.Iterable[Part],
    missing: t.Iterable[Missing],
    earlier: t.Sequence[Earlier],
) -> Json:
    """Return the manifest, without credentials."""
    gpus = []
    for gpu in decision.gpus:
        case = cases.gpus.get(gpu.uuid)
        address = gpu.pci or (case.pci if case else "")
        row = {"uuid": gpu.uuid, "pci": address, "slot": machine.slots.get(address, "")}
        row.update(_last_facts(gpu, earlier))
        history = cases_as_data(RepairCases(None, {gpu.uuid: case}))["gpus"] if case else {}
        gpus.append({**row, "case": history.get(gpu.uuid)})
    data = {
        "version": VERSION,
        **decision.archive._asdict(),
        "made": decision.archive.at,
        "node": machine.node,
        "machine": dict(machine.machine),
        "driver": dict(machine.driver),
        "gpus": gpus,
        "kernel_log_since": written(decision.since),
        "contents": [part._asdict() for part in contents],
        "missing": [part._asdict() for part in missing],
        "earlier": [entry.archive.file for entry in earlier],
    }
    return t.cast(Json, masked(data))


def _last_facts(gpu: EvidenceGpu, earlier: t.Iterable[Earlier]) -> Json:
    """Return the facts of a GPU; if it does not answer, those of the earlier archives, of which newer ones count."""
    facts, as_of = dict(gpu.facts), {}
    for entry in earlier if not gpu.answers else ():
        known = [last.facts for last in entry.gpus if last.uuid == gpu.uuid and last.answers]
        if known:
            facts, as_of = {**known[0], **facts}, {"as_of": entry.archive.at}
    return {"answers": gpu.answers, **as_of, "facts": facts}


def as_files(manifest: Json) -> t.Dict[str, str]:
    """Return the texts of the files by their names, the manifest first."""
    return {
        FILE: json.dumps(manifest, indent=1) + "\n",
        SUMMARY: as_yaml(manifest) + "\n",
    }


def parse_manifest(text: str) -> Json:
    """Return the manifest of a file's text.

    Raises:
        ValueError: if the text is no manifest.
    """
    manifest = json_data.loads(text)
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        raise ValueError(f"expected version {VERSION}")
    for key in ("gpus", "contents", "missing"):
        if not all(isinstance(row, dict) for row in json_data.rows(manifest.get(key))):
            raise ValueError(f"{key}: expected a list of keys with values")
    return manifest


def known_gpus(manifest: Json) -> t.Tuple[EvidenceGpu, ...]:
    """Return the GPUs of an earlier archive."""
    text = json_data.text
    return tuple(
        EvidenceGpu(
            text(row.get("uuid")),
            text(row.get("pci")),
            {key: text(fact) for key, fact in json_data.table(row.get("facts")).items()},
        )
        for row in json_data.rows(manifest.get("gpus"))
    )
