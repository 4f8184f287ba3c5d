# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs of a node before a reset, and the users of each."""

from __future__ import annotations

import typing as t

from ..._base.gpu import ECC, PERSISTENCE, POWER, SettingsTold
from ..._node.users.allocated import Devices
from ..signs import GpuSigns, NodeSigns

NOTHING_TOLD, NOT_ASKED = SettingsTold({}), NodeSigns()


class IdleServer(t.NamedTuple):
    """An MPS server without clients, which is no work, and where its control daemon is asked."""

    pid: int
    pipe: str


class ResetGpu(t.NamedTuple):
    """A GPU. ``devices`` is None where it does not tell of its MIG instances, ``number`` is NVML's index.

    ``users`` are the texts for those from whom a reset would take it.
    """

    signs: GpuSigns
    pci: str
    number: t.Optional[int] = None
    serial: str = ""
    devices: t.Optional[Devices] = None
    reported: SettingsTold = NOTHING_TOLD
    users: t.Tuple[str, ...] = ()
    servers: t.Tuple[IdleServer, ...] = ()

    @property
    def uuid(self) -> str:
        """Return its UUID, or its PCI address where that is all that is known."""
        return self.signs.uuid

    def __str__(self) -> str:
        """Return it as users are told of it."""
        name = f"{self.devices.gpu.name}, " if self.devices else ""
        index = "GPU" if self.number is None else f"GPU {self.number}"
        return f"{index} ({name}{self.uuid})"

    @property
    def instances(self) -> t.Tuple[str, ...]:
        """Return its MIG devices by their profiles and UUIDs."""
        migs = self.devices.migs if self.devices else ()
        return tuple(f"{mig.profile} ({mig.uuid})" for mig in migs)

    @property
    def waiting(self) -> t.Tuple[str, ...]:
        """Return the modes that wait for a reset."""
        gpu, ecc = self.devices.gpu if self.devices else None, self.reported.ecc_next
        return (
            *(["MIG mode"] if gpu and gpu.mig_current != gpu.mig_pending else []),
            *(["ECC mode"] if ecc is not None and ecc != self.reported.present.get(ECC) else []),
        )

    @property
    def persistent(self) -> bool:
        """Whether the driver keeps it initialised, which counts as a client."""
        return bool(self.reported.present.get(PERSISTENCE))

    @property
    def settings(self) -> t.Dict[str, t.Any]:
        """Return what a reset may lose: MIG devices, and what the driver keeps. Power is in watts."""
        settings = {name: value for name, value in self.reported.present.items() if name != ECC}
        limit = settings.pop(POWER, None)
        watts = {} if limit is None else {POWER: t.cast(int, limit) // 1000}
        return {"mig_devices": list(self.instances), **settings, **watts}


class ResetState(t.NamedTuple):
    """The node and its GPUs. ``problem`` is why they are not known.

    ``ours`` are the services of this collection that run, ``fabric_unit`` whether the fabric manager's does.
    """

    node: NodeSigns = NOT_ASKED
    gpus: t.Tuple[ResetGpu, ...] = ()
    ours: t.Tuple[str, ...] = ()
    fabric_unit: bool = False
    problem: str = ""


def lost_settings(before: ResetGpu, after: ResetGpu) -> t.Dict[str, t.Any]:
    """Return the settings that a GPU had before its reset and has no more."""
    had, has = before.settings, after.settings
    gone = [mig for mig in had["mig_devices"] if mig not in has["mig_devices"]]
    changed = {
        name: value
        for name, value in had.items()
        if name != "mig_devices" and value != has.get(name)
    }
    return {**({"mig_devices": gone} if gone else {}), **changed}
