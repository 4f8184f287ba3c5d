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
SETTINGS = ".settings.json"


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


def file(device: str) -> str:
    """Return where a manager's settings are."""
    return f"{FOLDER}/{device}{SETTINGS}"


def devices(names: t.Iterable[str]) -> t.List[str]:
    """Return the devices that have such a file, from what is in their folder."""
    return sorted(name[: -len(SETTINGS)] for name in names if name.endswith(SETTINGS))


def state_file(device: str, settings: t.Optional[str]) -> str:
    """Return where a manager writes its state, by the text of its settings."""
    root = _json(settings).get("root")
    return f"{root if isinstance(root, str) and root else FOLDER}/{device}.json"


def daemon(device: str, settings: t.Optional[str], state: t.Optional[str]) -> Daemon:
    """Return a daemon, from its settings and the state that its manager wrote."""
    try:
        clients = int(_json(state).get("clients", 0))
    except (ValueError, TypeError, OverflowError):
        clients = 0
    return Daemon(device, clients, _json(settings).get("on_busy") == "terminate")


def _json(text: t.Optional[str]) -> t.Mapping[str, t.Any]:
    try:
        found = json_data.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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
