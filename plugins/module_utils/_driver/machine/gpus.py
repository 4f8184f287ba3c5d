# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs a node has, kept where later looks find it."""

from __future__ import annotations

import typing as t

from ..._base.steps import Step
from ..._node.gpu_record import ACTION, PATH, dump
from ..._node.machine.facts import machine, recorded_gpus
from ..state import Observed
from .sources import Node, Params, Part


class RecordedGpus(Part):
    """The record of a node's GPUs; ``meant`` is how many the user says that there are to be, -1: has not said."""

    def __init__(self, node: Node, meant: int) -> None:
        super().__init__(node)
        self._meant = meant

    def steps(self, observed: Observed, found: t.Sequence[Step]) -> t.List[Step]:
        """Return the step that brings the record up to date, or removes it where none that was found removes all."""
        host = self._node.host
        if self._node.desired.state == "absent":
            stays = host.exists(PATH) and "remove" not in [one.action for one in found]
            return [Step(ACTION, "forget which GPUs the node had")] if stays else []
        there = (address for address, _architecture in observed.gpus)
        return recorded_gpus(host, there, self._meant).steps()

    def apply(self, params: Params) -> None:
        """Write the record, or remove it."""
        host = self._node.host
        if params:
            host.write(PATH, dump(params["gpus"], machine(host)), mode=0o644)
        else:
            host.remove(PATH)
