# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Decides whether a GPU may go from the device plugin to DRA, or back: not while a pod or a claim holds any of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from .._shared._base.dra import checkpoint
from .._shared._base.dra.checkpoint import PreparedClaim
from .._shared._base.dra.names import CHECKPOINT, DEVICE_PLUGIN, DRA, DRIVER
from .._shared._base.errors import NodeError
from .._shared._base.gpu import Gpu
from .._shared._base.text.shown import counted
from .._shared._machine.host import Host
from .._shared._node.users.allocated import Allocation, Devices, places
from .._shared._node.users.machine.witness import unreported
from ..config.allocation import ALLOCATION, Dra, owner
from ..config.strict_yaml import ConfigError
from ..model.inventory import Inventory
from ..tools import bounded
from .client import KubeletSilent, allocations, answering, sockets

LONGEST: Final = 64 << 20
MOST_NAMED: Final = 3
DRAIN: Final = (
    "drain the node of these pods, or leave the GPU where it is; it is tried again by itself"
)
Claims = Callable[[], Iterable[PreparedClaim]]


class Handover:
    """``kubelet`` is the kubelet's root folder, ``claims`` returns what the DRA driver has prepared.

    ``inventory`` returns the GPUs as they are known now.
    """

    def __init__(self, kubelet: Path, claims: Claims, inventory: Callable[[], Inventory]) -> None:
        self._sockets = sockets(kubelet)
        self._claims, self._inventory = claims, inventory

    def check(self, dra: Dra, before: Dra | None = None) -> bool:
        """Refuse owners by which a GPU would be allocated twice. Return whether all its users are known.

        ``before`` are the owners in force, None at a start.

        Raises:
            ConfigError: if a pod or claim has what is to change owners, or the kubelet does not answer meanwhile.
        """
        inventory = self._inventory()
        if inventory.absent or (before is not None and not moved(inventory, before, dra)):
            return not inventory.absent
        claims = tuple(self._claims())
        if dra.unused and not claims:  # nobody has what is another's
            return True
        pods = self._pods(inventory, dra, before, claims)
        if held := list(dict.fromkeys(taken(inventory, dra, pods or (), claims))):
            gpu, _holder = held[0]
            users = [holder for other, holder in held if other == gpu]
            more = len(users) - MOST_NAMED
            named = [*users[:MOST_NAMED], *([counted(more, "more user")] if more > 0 else [])]
            raise ConfigError(
                f"{ALLOCATION} would give GPU {gpu.index} ({gpu.uuid}) to others",
                cause=f"in use by {', '.join(named)}",
                hint=DRAIN,
            )
        return pods is not None

    def _pods(
        self, inventory: Inventory, dra: Dra, before: Dra | None, claims: Iterable[PreparedClaim]
    ) -> Sequence[Allocation] | None:
        """Return what pods have, None if that is not known; they matter if DRA has a GPU.

        If GPUs change owners, what the kubelet has forgotten of its containers counts too.
        """
        if all(owner(gpu.gpu, dra) != DRA for gpu in inventory.gpus):
            return ()
        try:
            pods = allocations(self._sockets)
            if before is None:
                return pods
            socket = str(answering(self._sockets) or "")
            return (*pods, *unreported(Host(), pods, socket, claims))
        except NodeError as error:
            if before is None:
                return None
            raise ConfigError(
                f"{ALLOCATION} can't be changed now",
                cause=str(error),
                hint="start the kubelet" if isinstance(error, KubeletSilent) else DRAIN,
            ) from error


def read_claims(path: Path) -> Claims:
    """Return the reader of the DRA driver's checkpoint, which returns no claims if there is no file."""

    def read() -> Iterable[PreparedClaim]:
        try:
            text = bounded.read_text(path, LONGEST)
        except FileNotFoundError:
            return ()
        return checkpoint.load(text, str(path)).values()

    return read


def checkpoint_of(host_root: Path) -> Path:
    """Return where the DRA driver's checkpoint is below the host's root."""
    return host_root / CHECKPOINT.lstrip("/")


def taken(
    inventory: Inventory, dra: Dra, pods: Iterable[Allocation], claims: Iterable[PreparedClaim]
) -> Iterator[tuple[Gpu, str]]:
    """Yield the GPUs that another than their owner has allocated, and their users: a pod, or a claim."""
    owners = {view.gpu.uuid: (view.gpu, owner(view.gpu, dra)) for view in inventory.gpus}
    node = [Devices(gpu.gpu, gpu.layout.instances, gpu.mig) for gpu in inventory.gpus]
    for pod in pods:
        if pod.resource == DRIVER or pod.resource.startswith(f"{DRIVER}/"):
            continue
        for uuid in sorted({place.gpu for place in places(pod, node)}):
            if owners[uuid][1] == DRA:
                yield owners[uuid][0], str(pod)
    for claim in claims:
        for device in claim.devices:
            if device.gpu in owners and owners[device.gpu][1] == DEVICE_PLUGIN:
                yield owners[device.gpu][0], f"{claim} with {device.device}"


def moved(inventory: Inventory, before: Dra, after: Dra) -> bool:
    """Return whether a GPU goes from one owner to the other."""
    return any(owner(gpu.gpu, before) != owner(gpu.gpu, after) for gpu in inventory.gpus)
