# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.plan: one look at a node, and what every part would do there."""

from __future__ import annotations

import functools
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ..._base.steps import Plan, Step
from ..._machine.host import Host
from ..._machine.room import Room
from .. import parts
from ..preflight.capability import PreflightCapability
from ..preflight.machine import modules
from ..report.machine import overview
from .machine import Answer, Validation, planned
from .report import differences, lines, refused

AT_ONCE = 2
RELEASED = ("installed", "started")


class State(t.NamedTuple):
    """What gpu_info knows, the parts with their plans, and the node's validation where nothing is to be done."""

    info: Answer
    parts: t.Sequence[Answer]
    validation: Answer


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

    def observe(self) -> State:
        """Look at the node and plan. NodeError names all that stands in the way, before anything is planned."""
        info = self._preflight.observe()
        if not info["pci_gpus"]:
            return State(info, [], {})
        validation = self._validate(self._values) if self._params["validate"] else None
        found = parts.with_later(parts.once(self._parts()))
        if validation is None or parts.called(found):
            return State(info, found, {})
        return State(info, found, validation.answer())

    def _parts(self) -> t.List[Answer]:
        """Plan the parts side by side: most of the time goes by while package managers and services answer."""
        wanted = [(part, self._options(part)) for part in parts.PARTS]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self._planned, [one for one in wanted if one[1] is not None]))

    def _planned(self, wanted: t.Tuple[parts.Part, t.Any]) -> Answer:
        part, options = wanted
        make = functools.partial(modules.MODULES[part.module].make, self._host, options)
        return planned(part, make, shows_difference=self._shows)

    def _options(self, part: parts.Part) -> t.Optional[modules.Params]:
        """Return a part's options, None where it is not wanted here."""
        made, daemon = self._preflight.options, self._params["daemon"] or {}
        if self._params["parts"] is not None and part.name not in self._params["parts"]:
            return None
        if part.name == parts.ENVIRONMENT:
            return self._environment(daemon) if self._needs_environment() else None
        options = made.get(part.module)
        if options is None or part.module != "device_plugin":
            return options
        # What stops or goes has no release, as from the role.
        return {**options, **(daemon if options["state"] in RELEASED else {"digest": None})}

    def _needs_environment(self) -> bool:
        made = self._preflight.options
        using = parts.BY_NAME[parts.ENVIRONMENT].tags
        return any(made.get(one, {}).get("state") in ("present", *RELEASED) for one in using)

    def _environment(self, daemon: Answer) -> modules.Params:
        _refused, found = modules.check(self._host, "device_plugin", self._values)
        return {**found, "state": "installed", "digest": daemon.get("digest")}

    def plan(self, state: State) -> Plan:
        """There is never anything to do; a part that a run calls says itself what it warns of."""
        first = self._preflight.plan(state.info).warnings
        silent = () if self._check_mode else parts.called(state.parts)
        said = [
            one for part in state.parts if part["name"] not in silent for one in part["warnings"]
        ]
        return Plan(warnings=(*first, *said, *state.validation.get("warnings", ())))

    def apply(self, step: Step) -> None:
        """Nothing is ever planned."""

    def result(self, state: State, plan: Plan) -> Answer:
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
            "status": self._status(state.info) if self._params["status"] else {},
        }

    def _status(self, info: Answer) -> Answer:
        return overview(self._host, info, self._values.get("nvidia_driver_releases", True))
