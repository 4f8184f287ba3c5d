# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is set aside or released, by whose word, and the steps to it."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..._base.steps import Plan, Step
from ..._base.text import strict
from ..._base.text.masking import masked_text
from ..._node.quarantine import (
    Quarantine,
    Quarantined,
    Seen,
    data_of,
    elsewhere,
    fence,
    fence_node,
    release,
    release_node,
)
from .state import State, to_fence, to_release

FENCE, RELEASE = "quarantine", "release"


class Desired(t.NamedTuple):
    """What is to be set aside or released: GPUs by any name of theirs, the node, or both; with whose word, and why."""

    present: bool
    gpus: t.Tuple[str, ...]
    node: bool
    entry: Quarantined


class Change(t.NamedTuple):
    """What is done to a GPU, or to the node where ``uuid`` is empty."""

    present: bool
    uuid: str
    entry: Quarantined

    def of(self, before: Quarantine) -> Quarantine:
        """Return what is in quarantine after it. NodeError: there is no room."""
        if self.present:
            return (
                fence(before, self.uuid, self.entry)
                if self.uuid
                else fence_node(before, self.entry)
            )
        by = self.entry.by
        return release(before, self.uuid, by) if self.uuid else release_node(before, by)

    def entry_in(self, found: Quarantine) -> t.Optional[Quarantined]:
        """Return what stands of it."""
        return found.gpus.get(self.uuid) if self.uuid else found.node


def parse_desired(params: t.Mapping[str, t.Any], now: float) -> Desired:
    """Return what the options ask for. InputError."""
    present = params["state"] == "present"
    gpus = tuple(one.strip() for one in params["gpus"])
    if not gpus and not params["node"]:
        raise InputError.of("gpus", params["gpus"], "GPUs, such as [0], or node: true")
    words = {name: _line(name, params[name]) for name in ("reason", "ticket")}
    if present and not words["reason"]:
        raise InputError.of("reason", params["reason"], "why it is set aside, in words")
    return Desired(present, gpus, params["node"], Quarantined(params["by"], **words, since=now))


def _line(name: str, value: str) -> str:
    line = masked_text(" ".join(value.split()))
    if strict.bounded(line) != line:
        raise InputError.of(name, value, f"a line of at most {strict.LONGEST} printable characters")
    return line


def changes(state: State, wanted: Desired) -> t.Tuple[Change, ...]:
    """Return what is asked for, one for each GPU and one for the node. InputError: a GPU is not known."""
    choose = to_fence if wanted.present else to_release
    found = [
        Change(wanted.present, one.uuid, wanted.entry._replace(serial=one.serial, pci=one.pci))
        for one in choose(state, wanted.gpus)
    ]
    whole = [Change(wanted.present, "", wanted.entry)] if wanted.node else []
    return (*found, *whole)


def plan(state: State, wanted: t.Sequence[Change]) -> Plan:
    """Return the steps. NodeError: there is no room."""
    steps, kept = [], []
    before = after = state.quarantine
    for change in wanted:
        known = change.entry_in(after)
        there, after = after, change.of(after)
        if after != there:
            steps.append(_step(state, change, known))
        elif known is not None and known.by != change.entry.by:
            kept.append(
                f"{_named(state, change)} stays as an operator has set it aside: {known.why}"
            )
    seen: t.Collection[Seen] = state.answering.values()
    return Plan(
        tuple(steps),
        data_of(before),
        data_of(after),
        warnings=(*kept, *elsewhere(after, seen)),
    )


def _step(state: State, change: Change, known: t.Optional[Quarantined]) -> Step:
    name, params = _named(state, change), {"change": change}
    if not change.present:
        was = f", {known}" if known else ""
        return Step(RELEASE, f"release {name}{was}", params)
    verb = "set aside" if known is None else "keep aside"
    return Step(FENCE, f"{verb} {name}: {change.entry.why}", params)


def _named(state: State, change: Change) -> str:
    return state.named(change.uuid) if change.uuid else "the node"
