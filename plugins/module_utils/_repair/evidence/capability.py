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
from ..case import NO_CASES
from ..machine import cases as case_file
from .machine.archives import Archives
from .machine.facts import SmiAnswers, ask_smi, machine
from .machine.parts import Parts
from .manifest import build_manifest
from .plan import REMOVE, Decision, decide
from .plan import plan as planned
from .state import RMA, Archive, Earlier, EvidenceOptions, EvidenceState, Missing, join_gpus


class EvidenceCapability:
    """Looks at a node and writes evidence of its faults into an archive; touches nothing else."""

    name = "gpu_evidence"

    def __init__(
        self,
        host: Host,
        params: t.Mapping[str, t.Any],
        *,
        programs: t.Optional[Programs] = None,
        current_time: t.Callable[[], float] = case_file.read_clock,
    ) -> None:
        self._host, self._options = host, EvidenceOptions.from_params(params)
        self._programs = programs or Programs(host)
        self._archives = Archives(host, self._options.path)
        self._current_time = current_time()
        self._answers: t.Optional[SmiAnswers] = None
        self._decision: t.Optional[Decision] = None
        self._state: t.Optional[EvidenceState] = None
        self._made: t.Optional[Archive] = None

    def observe(self) -> EvidenceState:
        """Return the GPUs, their cases and the archives.

        Raises:
            InputError: if not only root may write to the folder.
        """
        self._archives.check()
        bus = tuple(gpu.address for gpu in facts.gpus(self._host))
        cases, problem = NO_CASES, ""
        try:
            cases = case_file.CaseFile(self._host).read()
        except NodeError as error:
            problem = str(error)
        if self._answers is None:  # a driver that hangs is asked once
            gone = {case.pci for case in cases.gpus.values() if case.is_open and case.pci}
            self._answers = ask_smi(self._programs, len(gone.union(bus)))
        return EvidenceState(
            join_gpus(self._answers.gpus, bus, cases),
            silent=frozenset(bus) - {gpu.pci for gpu in self._answers.gpus},
            cases=cases,
            cases_problem=problem,
            boot=case_file.observe_boot(self._host).boot_id,
            archives=self._archives.names(),
            named=frozenset(case.evidence for case in cases.gpus.values() if case.is_open),
        )

    def plan(self, state: EvidenceState) -> Plan:
        """Return the steps.

        Raises:
            InputError: if the node can't have a GPU that is named, or it is none for an RMA.
        """
        decision = decide(state, self._options, self._current_time)
        if self._made in state.archives:  # whatever the clock says of others
            decision = decision._replace(archive=self._made, there=True)
        self._decision, self._state = decision, state
        return planned(state, self._options, decision)

    def apply(self, step: Step) -> None:
        """Write the archive, or remove old ones."""
        if step.action == REMOVE:
            self._archives.remove(step.params["files"])
            return
        self._collect()
        self._options = self._options._replace(force=False)
        self._made = self._decision.archive if self._decision else None

    def _collect(self) -> None:
        decision, options, state = self._decision, self._options, self._state
        if decision is None or state is None or self._answers is None:
            raise NodeError("nothing can be kept before the node was observed")
        with self._archives.making() as folder:
            if not options.force and decision.archive.of_same(self._archives.names()):
                return  # another run has made it meanwhile
            parts = Parts(self._programs, folder)
            parts.kernel_log(decision.since)
            parts.smi(self._answers)
            parts.acceptance(self._host)
            if options.dcgm:
                parts.dcgm()
            parts.bug_report(options.bug_report, options.bug_report_timeout)
            earlier: t.List[Earlier] = []
            if options.stage == RMA:
                earlier, left_out = self._archives.earlier(decision.gpus[0].uuid)
                parts.missing += left_out
            if state.cases_problem:
                parts.missing.append(Missing("the history of repairs", state.cases_problem))
            addresses = [gpu.pci for gpu in decision.gpus if gpu.pci]
            manifest = build_manifest(
                decision,
                machine(self._host, addresses),
                state.cases,
                parts.contents,
                parts.missing,
                earlier,
            )
            self._archives.write(decision.archive, folder, manifest, parts.contents, earlier)

    def result(self, state: EvidenceState, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the archive's path, and its contents."""
        decision = self._decision
        if decision is None:
            raise NodeError("nothing can be told before it was planned")
        archive = decision.archive
        result = {
            "path": self._archives.path(archive),
            "case": archive.case,
            "stage": archive.stage,
            "made": archive.at,
            "gpus": [str(gpu) for gpu in decision.gpus],
            "sha256": "",
            "size": 0,
            "contents": [],
            "missing": [],
        }
        if decision.there:
            manifest = self._archives.read(archive)
            digest, size = self._archives.digest(archive)
            result.update(
                sha256=digest,
                size=size,
                contents=json_data.rows(manifest.get("contents")),
                missing=json_data.rows(manifest.get("missing")),
            )
        return result
