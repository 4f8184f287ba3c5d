# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims are prepared and unprepared: each step is written down before it is done, and may be done again.

One claim is one thread's at a time; different claims go on side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ..._shared._base.dra.checkpoint import (
    PREPARED,
    PREPARING,
    UNPREPARING,
    Device,
    Instance,
    PreparedClaim,
)
from ..._shared._base.dra.names import MPS
from ..._shared._base.errors import NodeError
from ...config.configuration import Config
from ...model.inventory import Inventory
from ...tools import logs
from ..enforcing import Enforcements
from ..values import Claim, Edits
from . import cdi, plan
from .cdi import ClaimFiles
from .checkpoint import Checkpoint
from .claims import ClaimApi, check_uid
from .mig import Instances


@dataclass(frozen=True)
class Snapshot:
    """What holds at the moment, with what is wrong with each GPU: published as one by the main loop."""

    config: Config
    inventory: Inventory


@dataclass(frozen=True)
class PreparedDevice:
    """A device as the kubelet is told of it."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi: str
    share_id: str


class Locks:
    """Locks by name, of which there are only those that somebody holds or waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Hold a lock in a with statement."""
        with self._lock:
            lock, users = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, users = self._held.pop(name)
                if users > 1:
                    self._held[name] = lock, users - 1


class Preparer:
    """What is written down of a claim goes by one ``snapshot``, as does what is done for it then."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        api: ClaimApi,
        files: ClaimFiles,
        instances: Instances,
        enforcements: Enforcements,
        snapshot: Snapshot,
    ) -> None:
        self._checkpoint, self._api, self._files = checkpoint, api, files
        self._instances, self._enforcements = instances, enforcements
        self.snapshot = snapshot
        self._claims, self._room = Locks(), threading.Lock()

    # --- prepare ---

    def prepare(self, namespace: str, name: str, uid: str) -> tuple[PreparedDevice, ...]:
        """Return what the containers of a claim get. NodeError: it can't be prepared now, or at all."""
        with self._claims.of(check_uid(uid)):
            held, now = self._checkpoint.get(uid), self.snapshot
            moved = intact = False
            if held is not None and held.state != UNPREPARING:
                moved = self._api.moved(held)
                intact = held.state == PREPARED and not moved and self._intact(held)
            for step in plan.steps(held, intact=intact, moved=moved):
                if held is None or step == plan.NOTE:
                    claim = self._api.read(namespace, name, uid)
                    now = self.snapshot  # the API may have taken its time
                    held = self._note(claim, now)
                elif step == plan.UNDO:
                    self._undo(held)
                elif step == plan.INSTANCES:
                    held = self._with_instances(held)
                elif step == plan.GIVE:
                    self._give(held, now.config)
                else:
                    self._done(held)
            if held is None:
                raise NodeError(f"nothing is known of claim {namespace}/{name}")
            return tuple(_given(held, one) for one in held.devices)

    def _note(self, claim: Claim, now: Snapshot) -> PreparedClaim:
        """Write down what is about to be prepared, if there is room for it."""
        dra = now.config.dra
        limits = plan.limits((view.gpu for view in now.inventory.gpus), dra)
        devices = plan.resolve(claim, now.inventory, limits)
        name = dra.enforcement if any(map(plan.is_share, devices)) else ""
        where = (claim.uid, claim.namespace, claim.name)
        held = PreparedClaim(*where, PREPARING, devices, claim.pods, name)
        beside = self._api.beside(claim) if name == MPS else frozenset()
        with self._room:  # of two claims that race for what is left one gets it
            others = self._checkpoint.claims.values()
            plan.check_room(held, others, limits)
            plan.check_apart(held, others, beside)
            self._checkpoint.put(held)
        return held

    def _with_instances(self, held: PreparedClaim) -> PreparedClaim:
        """See that the MIG instances of a claim are there; return the claim with them."""
        for number, device in enumerate(held.devices):
            if device.instance is not None:
                held = self._with_instance(held, number)
        return held

    def _give(self, held: PreparedClaim, config: Config) -> None:
        """Set up what enforces the shares of a claim, and describe it to container runtimes."""
        edits = self._enforced(held)
        nodes = {
            one.instance.uuid: self._instances.nodes(one) for one in held.devices if one.instance
        }
        node = self._files.node(config)
        spec = cdi.specification(held.uid, held.devices, node, nodes, edits)
        self._files.write(held.uid, spec)

    def _done(self, held: PreparedClaim) -> None:
        self._checkpoint.put(replace(held, state=PREPARED))
        devices = [one.device for one in held.devices]
        logs.info("prepared", claim=f"{held.namespace}/{held.name}", devices=devices)

    def _with_instance(self, held: PreparedClaim, number: int) -> PreparedClaim:
        """See that the MIG instance of a device is there; return the claim with it."""
        found = held

        def note(instance: Instance) -> None:
            nonlocal found
            devices = list(held.devices)
            devices[number] = replace(devices[number], instance=instance)
            found = replace(held, devices=tuple(devices))
            self._checkpoint.put(found)

        self._instances.make(held.devices[number], note)
        return found

    def _enforced(self, held: PreparedClaim) -> Edits:
        """Return what a claim's containers get, once its shares can be enforced."""
        found = plan.shares(held)
        return self._enforcements.of(held.enforcement).prepare(found) if found else Edits()

    def _intact(self, held: PreparedClaim) -> bool:
        """Tell whether all that a claim was given is there, as it is not after a boot."""
        return self._files.there(held.uid) and all(
            self._instances.stands(one) for one in held.devices if one.instance
        )

    # --- unprepare ---

    def unprepare(self, uid: str) -> None:
        """Undo what was done for a claim, if anything. NodeError: it is to be tried again."""
        with self._claims.of(check_uid(uid)):
            held = self._checkpoint.get(uid)
            if held is None:
                self._files.remove(uid)
                return
            self._undo(held)
            logs.info("unprepared", claim=f"{held.namespace}/{held.name}")

    def _undo(self, held: PreparedClaim) -> None:
        """Undo it, first what lets containers start with it, from what is written down alone."""
        if held.state != UNPREPARING:
            held = replace(held, state=UNPREPARING)
            self._checkpoint.put(held)
        self._files.remove(held.uid)
        shares = plan.shares(held)
        if shares:
            self._enforcements.of(held.enforcement).unprepare(shares)
        for device in held.devices:
            if device.instance is not None:
                self._instances.destroy(device)
        self._checkpoint.drop(held.uid)

    # --- beside calls of the kubelet ---

    def restore(self) -> None:
        """Take up, after a start, what claims hold: what is enforced, and their files and no others."""
        claims = self._checkpoint.claims.values()
        self._files.sweep(one.uid for one in claims if one.state == PREPARED)
        names = {one.enforcement for one in claims if one.enforcement}
        for name in sorted({*names, self.snapshot.config.dra.enforcement}):
            self._enforcements.of(name)  # which takes up what is live

    def refresh(self) -> None:
        """Follow the node's own specification, such as that of another driver, in those of the claims."""
        for uid, held in self._checkpoint.claims.items():
            if held.state == PREPARED:
                with self._claims.of(uid):
                    if self._checkpoint.get(uid) == held and self._intact(held):
                        self._give(held, self.snapshot.config)


def _given(held: PreparedClaim, device: Device) -> PreparedDevice:
    # The kubelet knows subrequests by their request.
    request = device.request.partition("/")[0]
    name = cdi.qualified(held.uid, device)
    return PreparedDevice((request,), device.pool, device.device, name, device.share_id)
