# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.validate: it looks at the node and judges it, and changes nothing."""

from __future__ import annotations

import dataclasses
import typing as t

from .._core import validation
from .._core.boot import PROGRAM
from .._core.errors import NodeError
from .._core.gpu import NvmlError
from .._core.steps import Plan, Step
from .._core.validation import Check, Daemon, Node
from .._host.api import Host
from .._nvml.real import Nvml, open_nvml
from .nodeinfo import gpus

PATIENCE = 60.0  # seconds for the daemon's answer: a driver that hangs must not hang the play
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "gpu_count": {"type": "int", "default": -1},
        "fail": {"type": "bool", "default": True},
    },
}


class ValidateCapability:
    """Checks the driver, the GPUs, the device plugin and what is beside it."""

    name = "validate"

    def __init__(
        self,
        host: Host,
        params: t.Mapping[str, t.Any],
        connect: t.Callable[[], t.ContextManager[Nvml]] = open_nvml,
    ) -> None:
        self._host, self._params, self._connect = host, params, connect

    def observe(self) -> t.List[Check]:
        """Read the node and check it; what cannot be read is a check that does not hold."""
        node = Node(pci_gpus=len(gpus(self._host)), daemon=self._daemon())
        try:
            with self._connect() as nvml:
                found, broken = nvml.gpus()
                node = dataclasses.replace(
                    node,
                    gpus=tuple(found),
                    lost_gpus=tuple(map(str, broken)),
                    mig_uuids=tuple(mig.uuid for gpu in found for mig in nvml.mig_devices(gpu)),
                )
        except NvmlError as error:
            node = dataclasses.replace(node, driver_problem=str(error))
        return validation.checks(node, self._params["gpu_count"])

    def _daemon(self) -> Daemon:
        done = self._host.run([PROGRAM, "status", "--json"], check=False, timeout=PATIENCE)
        if done.rc == 124 and not done.out:  # it timed out
            return Daemon(problem=done.err)
        return Daemon.of(done.out)

    def plan(self, state: t.List[Check]) -> Plan:
        """There is never anything to do; what does not hold is an error, unless that was not wanted."""
        if self._params["fail"] and not all(one.holds for one in state):
            raise NodeError(validation.message(state), **_told(state))
        return Plan()

    def apply(self, step: Step) -> None:
        """Nothing is ever planned."""

    def result(self, state: t.List[Check], plan: Plan) -> t.Dict[str, t.Any]:
        """Return the checks."""
        return _told(state)


def _told(found: t.Sequence[Check]) -> t.Dict[str, t.Any]:
    return {
        "checks": [one._asdict() for one in found],
        "failed_checks": [one.name for one in found if not one.holds],
    }
