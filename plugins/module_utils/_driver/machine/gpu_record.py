# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The record of the GPUs that the node has, which tells later runs what is missing."""

from __future__ import annotations

import typing as t

from ..._base.gpu import NvmlError
from ..._base.steps import Step
from ..._node.gpu_record import ACTION, PATH, dump, identities, load
from ..._node.machine import facts as node_facts
from ..._node.machine.quarantine import answering
from ..._node.quarantine import Seen
from ..facts import Machine
from .sources import Node, Params, Part


class GpuRecord(Part):
    """The record; ``gpu_count`` is the user's number of GPUs, -1 for those that are there."""

    def __init__(self, node: Node, gpu_count: int) -> None:
        super().__init__(node)
        self._count = gpu_count

    def steps(self, machine: Machine, actions: t.Collection[str], *, absent: bool) -> t.List[Step]:
        """Return the step that brings the record up to date, or removes it if no planned action does."""
        host = self._node.host
        if absent:
            stays = host.exists(PATH) and "remove" not in actions
            return [Step(ACTION, "forget which GPUs the node had")] if stays else []
        addresses = (address for address, _architecture in machine.gpus)
        return node_facts.recorded_gpus(host, addresses, self._count).steps()

    def apply(self, params: Params) -> None:
        """Write the record, or remove it without parameters."""
        host = self._node.host
        if params:
            text = dump(params["gpus"], node_facts.machine(host), self._seen())
            host.write(PATH, text, mode=0o644)
        else:
            host.remove(PATH)

    def identify(self) -> None:
        """Add what NVML says of the GPUs, if it answers only now that the driver is loaded."""
        host, machine = self._node.host, node_facts.machine(self._node.host)
        text = host.read(PATH)
        gpus = load(text, machine)
        if gpus and not identities(text, machine):
            host.write(PATH, dump(gpus, machine, self._seen()), mode=0o644)

    @staticmethod
    def _seen() -> t.Collection[Seen]:
        """Return what NVML says of the GPUs, nothing if it does not answer yet."""
        try:
            return answering().values()
        except NvmlError:
            return ()
