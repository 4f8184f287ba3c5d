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
from .plan import QuarantineChange, changes, parse_request, plan
from .state import QuarantineState

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
        self._request = parse_request(params, clock())
        self._changes: t.Optional[t.Tuple[QuarantineChange, ...]] = None
        self._warnings: t.Tuple[str, ...] = ()

    def observe(self) -> QuarantineState:
        """Read what is in quarantine, and the GPUs.

        Raises:
            NodeError: if the file is damaged.
        """
        host, quarantine = self._host, self._file.read()
        answering: t.Mapping[int, Seen] = {}
        silent = ""
        try:
            answering = self._look()
        except NvmlError as error:
            silent = str(error)
        self._warnings = ()

        def recorded_at(
            parse: t.Callable[[t.Optional[str], str], t.Tuple[T, ...]],
        ) -> t.Tuple[T, ...]:
            return self._readable(lambda: parse(host.read(gpu_record.PATH), machine(host)))

        # The GPUs that the device plugin knows, also one that does not answer it any more.
        known = json_data.rows(json_data.table_in(host.read(PLUGIN)).get("gpu_uuids"))[:MOST_KNOWN]
        recorded = (
            *recorded_at(gpu_record.identities),
            *self._readable(self._cases),
            *(Seen(uuid, entry.serial, entry.pci) for uuid, entry in quarantine.gpus.items()),
            *(Seen(uuid, "", "") for uuid in known if json_data.text(uuid)),
        )
        on_bus = (gpu.address for gpu in gpus(host))
        addresses = (*on_bus, *recorded_at(gpu_record.load))
        return QuarantineState(quarantine, answering, recorded, addresses, silent)

    def _readable(self, read: t.Callable[[], t.Tuple[T, ...]]) -> t.Tuple[T, ...]:
        """Return a record; one that is damaged is told, and its GPUs can't be named by it."""
        try:
            return read()
        except NodeError as error:
            self._warnings = (*self._warnings, str(error))
            return ()

    def _cases(self) -> t.Tuple[Seen, ...]:
        cases = CaseFile(self._host).read().gpus
        return tuple(Seen(uuid, case.serial, case.pci) for uuid, case in cases.items())

    def plan(self, state: QuarantineState) -> Plan:
        """Plan with pure functions.

        Raises:
            NodeError: if a GPU is not known, or there is no room for it.
        """
        if self._changes is None:  # once: what is released may not be known any more
            self._changes = changes(state, self._request)
        result = plan(state, self._changes)
        return dataclasses.replace(result, warnings=(*result.warnings, *self._warnings))

    def own(self, _state: QuarantineState) -> OwnFiles:
        """Return what is root's alone."""
        return OwnFiles(self._host, {PATH: 0o644})

    def apply(self, step: Step) -> None:
        """Carry out one step, on what is in quarantine by then."""
        self._file.change(step.params["change"].make)

    def result(self, _state: QuarantineState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report all that is in quarantine, and the GPUs that were meant."""
        return {
            "quarantine": plan.after,
            "gpus": [change.uuid for change in self._changes or () if change.uuid],
        }
