# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What an archive says of itself, first of all that is in it: ``manifest.json``, and the same to read."""

from __future__ import annotations

import json
import typing as t

from ..._base.text import json_data
from ..._base.text.masking import masked
from ..._base.text.readable import as_yaml
from ..._base.text.strict import written
from ..case import RepairCases, cases_as_data
from .state import Archive, Gpu, Missing, Part

FILE, SUMMARY = "manifest.json", "summary.txt"
VERSION = 1
Json = t.Dict[str, t.Any]


class Earlier(t.NamedTuple):
    """An archive of before that has a GPU, with what it knew of it."""

    archive: Archive
    size: int
    gpus: t.Tuple[Gpu, ...]


class Machine(t.NamedTuple):
    """The machine: its name, who made it, its system and its driver, in words by their names."""

    name: str
    facts: t.Mapping[str, str]
    driver: t.Mapping[str, str]
    slots: t.Mapping[str, str]  # by the GPUs' PCI addresses


def data(
    archive: Archive,
    machine: Machine,
    gpus: t.Sequence[Gpu],
    cases: RepairCases,
    since: float,
    contents: t.Sequence[Part],
    missing: t.Sequence[Missing],
    earlier: t.Sequence[Earlier],
) -> Json:
    """Return it, without credentials. ``since`` is when the kernel's log begins."""
    return t.cast(
        Json,
        masked(
            {
                "version": VERSION,
                **archive._asdict(),
                "made": archive.at,
                "node": machine.name,
                "machine": dict(machine.facts),
                "driver": dict(machine.driver),
                "gpus": [_gpu(one, machine, cases, earlier) for one in gpus],
                "kernel_log_since": written(since),
                "contents": [one._asdict() for one in contents],
                "missing": [one._asdict() for one in missing],
                "earlier": [one.archive.file for one in earlier],
            }
        ),
    )


def _gpu(gpu: Gpu, machine: Machine, cases: RepairCases, earlier: t.Sequence[Earlier]) -> Json:
    case = cases.gpus.get(gpu.uuid)
    facts, as_of = gpu.facts, ""
    if len(facts) <= 1:  # it does not answer: what it said last
        for one in earlier:
            found = [was.facts for was in one.gpus if was.uuid == gpu.uuid and len(was.facts) > 1]
            if found:
                facts, as_of = {**found[0], **facts}, one.archive.at
    answers = {"answers": not as_of and len(facts) > 1, **({"as_of": as_of} if as_of else {})}
    history = cases_as_data(RepairCases(None, {gpu.uuid: case}))["gpus"][gpu.uuid] if case else None
    address = gpu.pci or (case.pci if case else "")
    place = {"uuid": gpu.uuid, "pci": address, "slot": machine.slots.get(address, "")}
    return {**place, **answers, "facts": dict(facts), "case": history}


def text(told: Json) -> str:
    """Return the file's text."""
    return json.dumps(told, indent=1) + "\n"


def summary(told: Json) -> str:
    """Return the same to read."""
    return as_yaml(told) + "\n"


def parse(found: str) -> Json:
    """Return what a file says. ValueError: it can't be understood."""
    told = json_data.loads(found)
    if not isinstance(told, dict) or told.get("version") != VERSION:
        raise ValueError(f"expected version {VERSION}")
    for key in ("gpus", "contents", "missing"):
        if not all(isinstance(one, dict) for one in json_data.rows(told.get(key))):
            raise ValueError(f"{key}: expected a list of keys with values")
    return told


def known_gpus(told: Json) -> t.Tuple[Gpu, ...]:
    """Return the GPUs of an earlier archive."""
    rows = json_data.rows(told.get("gpus"))
    return tuple(
        Gpu(
            json_data.text(one.get("uuid")),
            json_data.text(one.get("pci")),
            {key: json_data.text(fact) for key, fact in json_data.table(one.get("facts")).items()},
        )
        for one in rows
    )
