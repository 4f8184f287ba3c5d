# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.gpu_evidence: what shows a GPU's fault, in one archive."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError
from ..._base.steps import Plan, Step
from ..._base.text import json_data
from ..._machine.host import Host
from ..._machine.limited import Programs
from ..._node.machine import facts
from ..case import NO_CASES, RepairCases
from ..machine import cases as kept
from . import manifest
from .machine.archives import Archives
from .machine.facts import Told, ask_smi, machine
from .machine.parts import Parts
from .manifest import Earlier
from .plan import REMOVE, Decision, decide
from .plan import plan as planned
from .selection import together
from .state import RMA, Archive, Missing, Observed, Wanted


class EvidenceCapability:
    """Looks at a node and writes what it finds into an archive; touches nothing else."""

    name = "gpu_evidence"

    def __init__(
        self,
        host: Host,
        params: t.Mapping[str, t.Any],
        *,
        programs: t.Optional[Programs] = None,
        now: t.Callable[[], float] = kept.read_clock,
    ) -> None:
        self._host, self._wanted = host, Wanted.of(params)
        self._programs = programs or Programs(host)
        self._archives = Archives(host, self._wanted.path)
        self._now = now()
        self._told: t.Optional[Told] = None
        self._decision: t.Optional[Decision] = None
        self._state: t.Optional[Observed] = None
        self._made: t.Optional[Archive] = None

    def observe(self) -> Observed:
        """Return the GPUs, their cases and the archives. InputError: the folder is not root's alone."""
        self._archives.check()
        bus = tuple(one.address for one in facts.gpus(self._host))
        cases, problem = self._cases()
        if self._told is None:  # a driver that hangs is asked once
            gone = {one.pci for one in cases.gpus.values() if one.is_open and one.pci}
            self._told = ask_smi(self._programs, len(gone.union(bus)))
        found = together(self._told.gpus, bus, cases)
        silent = frozenset(bus) - {one.pci for one in self._told.gpus}
        named = frozenset(one.evidence for one in cases.gpus.values() if one.is_open)
        boot = kept.observe_boot(self._host).boot_id
        return Observed(found, silent, cases, problem, boot, self._archives.names(), named)

    def _cases(self) -> t.Tuple[RepairCases, str]:
        try:
            return kept.CaseFile(self._host).read(), ""
        except NodeError as error:
            return NO_CASES, str(error)

    def plan(self, state: Observed) -> Plan:
        """Return the steps. InputError: a GPU that the node can't have, or not one for an RMA."""
        found = decide(state, self._wanted, self._now)
        if self._made in state.archives:  # whatever the clock says of others
            found = found._replace(archive=self._made, there=True)
        self._decision = found
        self._state = state
        return planned(state, self._wanted, found)

    def apply(self, step: Step) -> None:
        """Write the archive, or remove old ones."""
        if step.action == REMOVE:
            self._archives.remove(step.params["files"])
            return
        self._collect()
        self._wanted = self._wanted._replace(force=False)
        self._made = self._decision.archive if self._decision else None

    def _collect(self) -> None:
        decision, wanted = self._decision, self._wanted
        if decision is None or self._told is None:
            raise NodeError("nothing can be kept before the node was observed")
        with self._archives.making() as folder:
            if not wanted.force and decision.archive.of_same(self._archives.names()):
                return  # another run has made it meanwhile
            parts = Parts(self._programs, folder)
            parts.kernel_log(decision.since)
            parts.smi(self._told)
            if wanted.dcgm:
                parts.dcgm()
            parts.bug_report(wanted.bug_report, wanted.bug_report_timeout)
            earlier: t.List[Earlier] = []
            if wanted.stage == RMA:
                earlier, left_out = self._archives.earlier(decision.gpus[0].uuid)
                parts.missing += left_out
            self._write(decision, folder, parts, earlier)

    def _write(
        self, decision: Decision, folder: str, parts: Parts, earlier: t.Sequence[Earlier]
    ) -> None:
        state = self._state
        if state is None:
            raise NodeError("nothing can be kept before the node was observed")
        if state.cases_problem:
            parts.missing.append(Missing("the history of repairs", state.cases_problem))
        about = machine(self._host, [one.pci for one in decision.gpus if one.pci])
        told = manifest.data(
            decision.archive,
            about,
            decision.gpus,
            state.cases,
            decision.since,
            parts.contents,
            parts.missing,
            earlier,
        )
        self._archives.write(decision.archive, folder, told, parts.contents, earlier)

    def result(self, state: Observed, plan: Plan) -> t.Dict[str, t.Any]:
        """Return where the archive is, and what is in it."""
        decision = self._decision
        if decision is None:
            raise NodeError("nothing can be told before it was planned")
        archive = decision.archive
        found = {
            "path": self._archives.path(archive),
            "case": archive.case,
            "stage": archive.stage,
            "made": archive.at,
            "gpus": [str(one) for one in decision.gpus],
        }
        if not decision.there:
            return {**found, "sha256": "", "size": 0, "contents": [], "missing": []}
        return {**found, **self._described(archive)}

    def _described(self, archive: Archive) -> t.Dict[str, t.Any]:
        told = self._archives.read(archive)
        digest, size = self._archives.digest(archive)
        return {
            "sha256": digest,
            "size": size,
            "contents": json_data.rows(told.get("contents")),
            "missing": json_data.rows(told.get("missing")),
        }
