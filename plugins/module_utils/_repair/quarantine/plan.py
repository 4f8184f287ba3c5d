# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The changes of the quarantine that a user asks for, and the steps to them."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..._base.steps import Plan, Step
from ..._base.text import strict
from ..._base.text.masking import masked_text
from ..._node.quarantine import (
    Quarantine,
    Quarantined,
    data_of,
    elsewhere,
    fence,
    fence_node,
    release,
    release_node,
)
from .state import QuarantineState, gpus_to_fence, gpus_to_release

FENCE, RELEASE = "quarantine", "release"


class QuarantineRequest(t.NamedTuple):
    """The GPUs, by any name of theirs, and the node that are to be set aside or released; by whom, and why."""

    present: bool
    gpus: t.Tuple[str, ...]
    node: bool
    entry: Quarantined


class QuarantineChange(t.NamedTuple):
    """A change for a GPU, or for the node where ``uuid`` is empty."""

    present: bool
    uuid: str
    entry: Quarantined

    def make(self, before: Quarantine) -> Quarantine:
        """Return the quarantine after the change.

        Raises:
            NodeError: if there is no room.
        """
        uuid, entry = self.uuid, self.entry
        if self.present:
            return fence(before, uuid, entry) if uuid else fence_node(before, entry)
        return release(before, uuid, entry.author) if uuid else release_node(before, entry.author)


def parse_request(params: t.Mapping[str, t.Any], current_time: float) -> QuarantineRequest:
    """Return the request of the options. InputError."""
    present = params["state"] == "present"
    gpus = tuple(name.strip() for name in params["gpus"])
    if not gpus and not params["node"]:
        raise InputError.of("gpus", params["gpus"], "GPUs, such as [0], or node: true")
    texts = {}
    for name in ("reason", "ticket"):
        texts[name] = masked_text(" ".join(params[name].split()))
        if strict.bounded(texts[name]) != texts[name]:
            expected = f"a line of at most {strict.LONGEST} printable characters"
            raise InputError.of(name, params[name], expected)
    if present and not texts["reason"]:
        raise InputError.of("reason", params["reason"], "why it is set aside, in words")
    entry = Quarantined(params["by"], **texts, since=current_time)
    return QuarantineRequest(present, gpus, params["node"], entry)


def changes(state: QuarantineState, request: QuarantineRequest) -> t.Tuple[QuarantineChange, ...]:
    """Return a change for each GPU and for the node.

    Raises:
        InputError: if a GPU is not known.
    """
    choose = gpus_to_fence if request.present else gpus_to_release
    entry = request.entry
    gpus = [
        QuarantineChange(request.present, gpu.uuid, entry._replace(serial=gpu.serial, pci=gpu.pci))
        for gpu in choose(state, request.gpus)
    ]
    node = [QuarantineChange(request.present, "", entry)] if request.node else []
    return (*gpus, *node)


def plan(state: QuarantineState, requested: t.Sequence[QuarantineChange]) -> Plan:
    """Return the steps.

    Raises:
        NodeError: if there is no room.
    """
    steps, warnings = [], []
    after = state.quarantine
    for change in requested:
        known = after.gpus.get(change.uuid) if change.uuid else after.node
        before, after = after, change.make(after)
        name = state.named(change.uuid) if change.uuid else "the node"
        if after != before and change.present:
            verb = "set aside" if known is None else "keep aside"
            summary = f"{verb} {name}: {change.entry.why}"
            steps.append(Step(FENCE, summary, {"change": change}))
        elif after != before:
            entry = f", {known}" if known else ""
            steps.append(Step(RELEASE, f"release {name}{entry}", {"change": change}))
        elif known is not None and known.author != change.entry.author:
            warnings.append(f"{name} stays as an operator has set it aside: {known.why}")
    return Plan(
        tuple(steps),
        data_of(state.quarantine),
        data_of(after),
        warnings=(*warnings, *map(str, elsewhere(after, state.answering.values()))),
    )
