# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.plan: one look at a node, and what every part would do there."""

from __future__ import annotations

import functools
import typing as t

from ..._core.look import parts as rows
from ..._core.look.report import lines, refused
from ..._core.steps import Plan, Step
from ..._host.api import Host
from ..._host.room import Room
from ..preflight import parts
from ..preflight.capability import SPEC as PREFLIGHT
from ..preflight.capability import PreflightCapability
from ..validate.capability import ValidateCapability
from .planned import Answer, planned
from .validation import validated

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        **PREFLIGHT["argument_spec"],
        "daemon": {
            "type": "dict",
            "options": {"digest": {"type": "str", "default": ""}, "units": {"type": "dict"}},
        },
        "validate": {"type": "bool", "default": False},
    }
}


class State(t.NamedTuple):
    """What gpu_info knows, the parts with their plans, and the node's validation where nothing is to be done."""

    info: Answer
    parts: t.Sequence[Answer]
    validation: Answer


class LookCapability:
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
        validate: t.Callable[..., ValidateCapability] = ValidateCapability,
    ) -> None:
        self._host, self._params = host, params
        self._check_mode, self._shows = check_mode, shows_difference
        self._values: parts.Values = params["variables"]
        self._preflight = PreflightCapability(host, room, params, root=root)
        self._validate = validate

    def observe(self) -> State:
        """Look at the node and plan. NodeError names all that stands in the way, before anything is planned."""
        info = self._preflight.observe()
        found = rows.with_later(self._parts()) if info["pci_gpus"] else []
        quiet = bool(info["pci_gpus"]) and not rows.called(found)
        asked = self._params["validate"] and quiet
        return State(info, found, validated(self._values, self._validate) if asked else {})

    def _parts(self) -> t.Iterator[Answer]:
        done: t.List[t.Any] = []  # by a part before, of the same module
        for part in rows.PARTS:
            options = self._options(part)
            if options is not None:
                make = functools.partial(parts.PARTS[part.module].make, self._host, options)
                found = planned(part, make, shows_difference=self._shows)
                found["steps"] = [one for one in found["steps"] if one not in done]
                done += found["steps"]
                yield found

    def _options(self, part: rows.Part) -> t.Optional[parts.Params]:
        """Return a part's options, None where it is not wanted here."""
        made, daemon = self._preflight.options, self._params["daemon"] or {}
        if part.name == rows.ENVIRONMENT:
            return self._environment(daemon) if self._needs_environment() else None
        options = made.get(part.module)
        if options is not None and part.module == "device_plugin":
            return {**options, **daemon}
        return options

    def _needs_environment(self) -> bool:
        """Tell whether a part is wanted that runs from the environment, or imports what is in it."""
        made = self._preflight.options
        using = [one for one in ("mig", "cdi") if made.get(one, {}).get("state") == "present"]
        return bool(using) or made.get("device_plugin", {}).get("state") in ("installed", "started")

    def _environment(self, daemon: Answer) -> parts.Params:
        _refused, found = parts.check(self._host, "device_plugin", self._values)
        return {**found, "state": "installed", "digest": daemon.get("digest")}

    def plan(self, state: State) -> Plan:
        """There is never anything to do; a part that a run calls says itself what it warns of."""
        first = self._preflight.plan(state.info).warnings
        silent = () if self._check_mode else rows.called(state.parts)
        said = [
            one for part in state.parts if part["name"] not in silent for one in part["warnings"]
        ]
        return Plan(warnings=(*first, *said, *state.validation.get("warnings", ())))

    def apply(self, step: Step) -> None:
        """Nothing is ever planned."""

    def result(self, state: State, plan: Plan) -> Answer:
        """Return the parts, and in short which have drifted and which a run would call."""
        return {
            "gpu_info": state.info,
            "drift": [part["name"] for part in state.parts if part["steps"]],
            "calls": rows.called(state.parts),
            "parts": list(state.parts),
            "lines": lines(state.parts),
            "refused": refused(state.parts),
            "validation": state.validation,
        }
