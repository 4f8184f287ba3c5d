# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.preflight: it looks, and refuses what would fail later."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import PciDevice
from ..._base.steps import Plan, Step
from ..._generated.variables import VARIABLES
from ..._machine.host import Host
from ..._machine.room import Room
from ..._node.gpu_info.capability import GpuInfoCapability, Info
from ..._node.gpu_record import NOT_RECORDED
from ..._node.machine.facts import gpus
from ..parts import MODULES
from . import layout, pairs, values
from .machine import modules, node
from .node import NO_ROOT
from .problems import Problem, Refusal, once


class PreflightCapability:
    """Reads the node as gpu_info does, and compares it with what is wanted of it."""

    name = "preflight"

    def __init__(self, host: Host, room: Room, params: modules.Values, *, root: bool) -> None:
        self._host, self._room, self._root = host, room, root
        self._values: modules.Values = params["variables"]
        components = {MODULES[component]: True for component in params["components"]}
        self._modules = [module for module in components if modules.runs(module, self._values)]
        self._refused = [Problem(**module) for module in params["refused"]]
        self._seconds = max(0, params["cloud_init_timeout"])  # the variable itself is refused below
        meant = self._values.get(VARIABLES["validate"]["gpu_count"], -1)  # -e gives a text
        asked = {"cloud_init_timeout": self._seconds, "allocated": False}
        asked["gpu_count"] = int(meant) if str(meant).isdigit() else -1
        self._info = GpuInfoCapability(host, asked)
        self.options: t.Dict[str, modules.Params] = {}  # of the modules that accept theirs

    def observe(self) -> Info:
        """Return what gpu_info does; NodeError names all that stands in the way."""
        there = gpus(self._host)
        problems = self._problems(there) if there else []
        if problems:
            raise Refusal(problems)
        return self._info.observe()

    def _problems(self, there: t.Sequence[PciDevice]) -> t.List[Problem]:
        """Return what is wrong with the variables, and with the node once its first boot is over."""
        problems = once(self._wrong_values(there))
        recorded = (
            self._info.recorded(device.address for device in there) if problems else NOT_RECORDED
        )
        if recorded.missing:  # which may be why a layout does not fit
            problems.append(Problem("", str(recorded), recorded.next_step))
        try:
            self._info.wait(0 if problems else self._seconds)
        except NodeError:
            if problems:
                return problems
            raise
        if not self._root:
            return [*problems, NO_ROOT]
        return once([*problems, *node.check(self._host, self._room, self._values, self.options)])

    def _wrong_values(self, there: t.Sequence[PciDevice]) -> t.Iterator[Problem]:
        """Yield what is wrong with the variables, and keep the options of modules that accept theirs."""
        yield from self._refused
        yield from values.check(self._values, self._modules)
        for module in self._modules:
            refused, options = modules.check(self._host, module, self._values)
            yield from refused
            if refused:
                continue
            self.options[module] = options
            if module == "mig" and options["state"] == "present":
                try:
                    layout.check(layout.selection(options), there)
                except NodeError as error:
                    yield Problem.of(error, "mig")
        try:
            layout.check_settings(self.options)
        except NodeError as error:
            yield Problem.of(error, "settings")

    def plan(self, state: Info) -> Plan:
        """There is never anything to do."""
        planned = self._info.plan(state)
        warnings = node.warnings(self._host, self._values, self._modules)
        excluded = pairs.warnings(self.options)
        return dataclasses.replace(planned, warnings=(*planned.warnings, *warnings, *excluded))

    def apply(self, step: Step) -> None:
        """Nothing is ever planned."""

    def result(self, state: Info, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the facts under one key."""
        return self._info.result(state, plan)
