# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.plan: one look at a node, and what every part would do there."""

from __future__ import annotations

import functools
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..._base.errors import NodeError
from ..._base.steps import Plan, Step
from ..._device_plugin.machine import status
from ..._generated.validate import SPEC
from ..._machine.bounded import AheadHost
from ..._machine.host import Host
from ..._machine.room import Room
from ..._machine.run import Capability, describe_diff, describe_error, describe_plan, with_own_files
from ..._repair.machine.cases import CaseFile
from .. import parts
from ..parts import Part
from ..preflight import layout
from ..preflight.capability import PreflightCapability
from ..preflight.machine import modules
from ..report.machine import overview
from ..validate.capability import ValidateCapability
from .report import differences, lines, refused

Answer = t.Dict[str, t.Any]
MORE = "these steps are done"
AT_ONCE = 2
RELEASED = ("installed", "started")


class PlanState(t.NamedTuple):
    """What gpu_info knows, the parts with their plans, and the node's validation where nothing is to be done."""

    info: Answer
    parts: t.Sequence[Answer]
    validation: Answer


def planned(
    part: Part, make: t.Callable[[], Capability[t.Any]], *, shows_difference: bool
) -> Answer:
    """Return what the part's module would do on the node as it is, or why it would refuse to."""
    try:
        capability = with_own_files(make())
        state = capability.observe()
        plan = capability.plan(state)
        result = capability.result(state, plan)
    except NodeError as error:
        error_fields = {
            **describe_error(part.module, error),
            "until": error.until,
            "stays": error.stays,
        }
        return {**_answer(part.name, Plan(), {}), "error": error_fields}
    answer = _answer(part.name, plan, result)
    if shows_difference and plan.steps:
        answer["diff"] = describe_diff(plan, plan.steps)
    return answer


def _answer(name: str, plan: Plan, result: Answer) -> Answer:
    return {
        "name": name,
        **describe_plan(plan, plan.steps),
        "warnings": list(plan.warnings),
        "error": {},
        "later": plan.later or (MORE if plan.more else ""),
        "diff": {},
        "result": result,
    }


class Validation:
    """What gpu.node.validate does with the variables of its role; the daemon is asked while parts are planned."""

    def __init__(
        self,
        values: modules.Values,
        make: t.Callable[..., ValidateCapability] = ValidateCapability,
        host: t.Optional[AheadHost] = None,
    ) -> None:
        self._values, self._make = values, make
        self._host = host or AheadHost()
        self._host.begin(status.command(self._host), check=False, timeout=status.PATIENCE)

    def answer(self) -> Answer:
        """Return what the module answers, nothing where it has to refuse itself."""
        spec = ArgumentSpecValidator(SPEC["argument_spec"])
        options = {**modules.options("validate", self._values), "fail": False}
        try:
            capability = self._make(self._host, spec.validate(options).validated_parameters)
            state = capability.observe()
            plan = capability.plan(state)
        except NodeError:
            return {}
        return {**capability.result(state, plan), "warnings": list(plan.warnings)}


class PlanCapability:
    """Refuses what preflight does, then plans every part by the capability that makes it; changes nothing."""

    name = "plan"

    def __init__(
        self,
        host: Host,
        room: Room,
        params: t.Mapping[str, t.Any],
        *,
        root: bool,
        check_mode: bool = False,
        shows_difference: bool = False,
        validate: t.Callable[..., Validation] = Validation,
    ) -> None:
        self._host, self._params = host, params
        self._check_mode, self._shows = check_mode, shows_difference
        self._values: modules.Values = params["variables"]
        self._preflight = PreflightCapability(host, room, params, root=root)
        self._validate = validate

    def observe(self) -> PlanState:
        """Look at the node and plan. NodeError names all that stands in the way, before anything is planned."""
        info = self._preflight.observe()
        if not info["pci_gpus"]:
            return PlanState(info, [], {})
        validation = self._validate(self._values) if self._params["validate"] else None
        # Side by side: most of the time goes by while package managers and services answer.
        pairs = [(part, self._options(part, info)) for part in parts.PARTS]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            all_planned = pool.map(self._planned, [pair for pair in pairs if pair[1] is not None])
            answers = parts.with_later(parts.once(all_planned))
        if validation is None or parts.called(answers):
            return PlanState(info, answers, {})
        return PlanState(info, answers, validation.answer())

    def _planned(self, pair: t.Tuple[Part, t.Any]) -> Answer:
        part, options = pair
        make = functools.partial(modules.MODULES[part.module].make, self._host, options)
        return planned(part, make, shows_difference=self._shows)

    def _options(self, part: Part, info: Answer) -> t.Optional[modules.Params]:
        made, daemon = self._preflight.options, self._params["daemon"] or {}
        if self._params["parts"] is not None and part.name not in self._params["parts"]:
            return None
        if part.name == parts.ENVIRONMENT:
            using = parts.BY_NAME[parts.ENVIRONMENT].tags
            # Validation asks the driver by the library that is in it.
            asked = (*using, "nvidia_driver") if self._params["validate"] else using
            if not any(made.get(name, {}).get("state") in ("present", *RELEASED) for name in asked):
                return None
            _refused, composed = modules.check(self._host, "device_plugin", self._values)
            return {**composed, "state": "installed", "digest": daemon.get("digest")}
        options = made.get(part.module)
        if options is not None and part.name == "settings" and "mig" in made:
            return {**options, "partitioned": layout.partitions(made["mig"])}
        if options is not None and part.name == "driver" and info["nvml_available"]:
            return {**options, "gpus": info["gpus"]}  # so that they are not asked again
        if options is None or part.module != "device_plugin":
            return options
        # What stops or goes has no release, as from the role.
        return {**options, **(daemon if options["state"] in RELEASED else {"digest": None})}

    def plan(self, state: PlanState) -> Plan:
        """There is never anything to do; a part that a run calls says itself what it warns of."""
        first = self._preflight.plan(state.info).warnings
        silent = () if self._check_mode else parts.called(state.parts)
        warnings = [
            warning
            for part in state.parts
            if part["name"] not in silent
            for warning in part["warnings"]
        ]
        return Plan(
            warnings=(*first, *warnings, *self._cases(), *state.validation.get("warnings", ()))
        )

    def _cases(self) -> t.Iterator[str]:
        """Yield why the cases of repair can't be read: a repair would be refused, and nobody else reads them."""
        try:
            CaseFile(self._host).read()
        except NodeError as error:
            yield str(error)

    def apply(self, step: Step) -> None:
        """Nothing is ever planned."""

    def result(self, state: PlanState, plan: Plan) -> Answer:
        """Return the parts, and in short which have drifted and which a run would call."""
        return {
            **({"diff": differences(state.parts)} if self._shows else {}),
            "gpu_info": state.info,
            "drift": [part["name"] for part in state.parts if part["steps"]],
            "calls": parts.called(state.parts),
            "parts": list(state.parts),
            "lines": lines(state.parts),
            "refused": refused(state.parts, check_mode=self._check_mode),
            "validation": state.validation,
            "status": overview(
                self._host, state.info, self._values.get("nvidia_driver_releases", True)
            )
            if self._params["status"]
            else {},
        }
