# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.quarantine."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import NvmlError
from ..._base.steps import Plan, Step
from ..._base.text import json_data
from ..._machine.host import Host
from ..._machine.own_files import OwnFiles
from ..._node import gpu_record
from ..._node.machine.facts import gpus, machine
from ..._node.machine.quarantine import QuarantineFile, answering
from ..._node.quarantine import PATH, Seen
from ..machine.cases import CaseFile
from .plan import Change, Desired, changes, parse_desired, plan
from .state import State

PLUGIN = "/run/gpu-node/status.json"
MOST_KNOWN = 128
T = t.TypeVar("T")


class QuarantineCapability:
    """Keeps GPUs, or the node, in quarantine or out of it."""

    name = "quarantine"

    def __init__(
        self,
        host: Host,
        params: t.Mapping[str, t.Any],
        look: t.Callable[[], t.Mapping[int, Seen]] = answering,
        clock: t.Callable[[], float] = time.time,
    ) -> None:
        self._host, self._look = host, look
        self._file = QuarantineFile(host)
        self._desired: Desired = parse_desired(params, clock())
        self._changes: t.Optional[t.Tuple[Change, ...]] = None
        self._warnings: t.Tuple[str, ...] = ()

    def observe(self) -> State:
        """Read what is in quarantine, and the GPUs. NodeError: the file is damaged."""
        found, silent = self._file.read(), ""
        there: t.Mapping[int, Seen] = {}
        try:
            there = self._look()
        except NvmlError as error:
            silent = str(error)
        self._warnings = ()
        recorded = (
            *self._readable(self._identities),
            *self._readable(self._cases),
            *(Seen(uuid, one.serial, one.pci) for uuid, one in found.gpus.items()),
            *self._advertised(),
        )
        on_bus = (one.address for one in gpus(self._host))
        addresses = (*on_bus, *self._readable(self._addresses))
        return State(found, there, recorded, addresses, silent)

    def _readable(self, read: t.Callable[[], t.Tuple[T, ...]]) -> t.Tuple[T, ...]:
        """Return a record; one that is damaged is told, and its GPUs can't be named by it."""
        try:
            return read()
        except NodeError as error:
            self._warnings = (*self._warnings, str(error))
            return ()

    def _identities(self) -> t.Tuple[Seen, ...]:
        return gpu_record.identities(self._host.read(gpu_record.PATH), machine(self._host))

    def _addresses(self) -> t.Tuple[str, ...]:
        return gpu_record.load(self._host.read(gpu_record.PATH), machine(self._host))

    def _cases(self) -> t.Tuple[Seen, ...]:
        cases = CaseFile(self._host).read().gpus
        return tuple(Seen(uuid, one.serial, one.pci) for uuid, one in cases.items())

    def _advertised(self) -> t.Iterator[Seen]:
        """Return the GPUs that the device plugin knows, also one that does not answer it any more."""
        known = json_data.rows(json_data.table_in(self._host.read(PLUGIN)).get("gpu_uuids"))
        for uuid in known[:MOST_KNOWN]:
            if json_data.text(uuid):
                yield Seen(uuid, "", "")

    def plan(self, state: State) -> Plan:
        """Plan with pure functions. NodeError: a GPU is not known, or there is no room."""
        if self._changes is None:  # once: what is released may not be known any more
            self._changes = changes(state, self._desired)
        found = plan(state, self._changes)
        return dataclasses.replace(found, warnings=(*found.warnings, *self._warnings))

    def own(self, _state: State) -> OwnFiles:
        """Return what is root's alone."""
        return OwnFiles(self._host, {PATH: 0o644})

    def apply(self, step: Step) -> None:
        """Carry out one step, on what is in quarantine by then."""
        self._file.change(step.params["change"].of)

    def result(self, _state: State, plan: Plan) -> t.Dict[str, t.Any]:
        """Report all that is in quarantine, and the GPUs that were meant."""
        return {
            "quarantine": plan.after,
            "gpus": [one.uuid for one in self._changes or () if one.uuid],
        }
