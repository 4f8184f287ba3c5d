# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The units of MPS daemons: who still uses one, and the steps to an end of all."""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import NodeError
from ..steps import Step
from ..text import json_data

UNIT = "gpu-mps@.service"
FOLDER = "/run/gpu-node/mps"


@dataclasses.dataclass(frozen=True)
class Daemon:
    """A device's MPS daemon. ``terminate``: its clients are ended where it has to end."""

    device: str
    clients: int = 0
    terminate: bool = False

    @property
    def unit(self) -> str:
        """The name of its unit."""
        return f"gpu-mps@{self.device}.service"


def settings(text: t.Optional[str]) -> t.Dict[str, str]:
    """Return the variables in a daemon's environment file."""
    lines = [line for line in (text or "").splitlines() if "=" in line]
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def daemon(device: str, variables: t.Mapping[str, str], state: t.Optional[str]) -> Daemon:
    """Return a daemon, from its settings and the state that it told."""
    try:
        clients = int(json_data.loads(state or "{}").get("clients", 0))
    except (ValueError, AttributeError, TypeError, OverflowError):
        clients = 0
    return Daemon(device, clients, variables.get("GPU_MPS_ON_BUSY") == "terminate")


def end(daemons: t.Sequence[Daemon]) -> t.List[Step]:
    """Return what ends all daemons. NodeError: one has clients, and nobody said to end them."""
    busy = [one for one in daemons if one.clients and not one.terminate]
    if busy:
        used = ", ".join(f"{one.device} ({one.clients})" for one in busy)
        raise NodeError(
            "devices that are shared by MPS are in use",
            cause=f"clients of {used}",
            hint="end their pods first, or set onBusy: terminate in sharing.mps",
        )
    if not daemons:
        return []
    names = ", ".join(one.device for one in daemons)
    return [Step("stop_mps", f"stop the MPS daemons of {names}")]
