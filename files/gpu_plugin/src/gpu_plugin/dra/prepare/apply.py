# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims are prepared and unprepared: each step is recorded before it is done, and may be repeated.

One claim is one thread's at a time; different claims go on side by side.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from ..._shared._base.dra import checkpoint as form
from ..._shared._base.dra.checkpoint import Instance, PreparedClaim
from ..._shared._base.dra.names import DRIVER
from ..._shared._base.errors import NodeError
from ..._shared._machine.host import Host
from ..._shared._node.users.machine.allocated import running_pods
from ...config.configuration import Config
from ...model.inventory import Inventory
from ...tools import bounded, files, logs
from ...tools.chores import Tries
from ..enforcement.choice import Enforcements
from ..users import Users
from ..values import Claim, Edits, Share
from . import cdi, plan
from .cdi import ClaimFiles
from .claims import ClaimApi, check_uid
from .mig import Instances

ALONE: Final = 10.0  # seconds that a process before this one may take to end
LONGEST: Final = 64 << 20  # of the checkpoint, far above what the most claims of a node come to
MOST_NAMED: Final = 3
PATIENCE: Final = 120.0  # seconds for which nobody must have had a claim


@dataclass(frozen=True)
class Snapshot:
    """The configuration and the GPUs with their problems, published together by the main loop."""

    config: Config
    inventory: Inventory


class Checkpoint:
    """The record of prepared claims, which outlives this process, the kubelet and the claims' objects.

    Claims are by their UIDs. What is put or dropped is on the disk when the call returns. Any thread may call.

    Raises:
        NodeError: if the file can't be read or written. At the start also if it is damaged, or if another process
            holds it for a while: two would each forget what the other did.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        self._alone = ExitStack()
        self._alone.enter_context(Host().lock(f"{path}.lock", timeout=ALONE))
        text: str | None = None
        try:
            text = bounded.read_text(path, LONGEST)
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError) as error:
            raise NodeError(f"{path} can't be read", cause=str(error), hint=form.HINT) from error
        self.missing = text is None
        self._claims = form.load(text, str(path))
        self._entries = {uid: form.entry(held) for uid, held in self._claims.items()}

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        """All claims, as they are now."""
        with self._lock:
            return dict(self._claims)

    def get(self, uid: str) -> PreparedClaim | None:
        """Return a claim, None if it holds nothing."""
        with self._lock:
            return self._claims.get(uid)

    def shares(self, enforcement: str) -> list[Share]:
        """Return the shares that are prepared with an enforcement, or are about to be."""
        held = (claim for claim in self.claims.values() if claim.state != form.UNPREPARING)
        return [
            share
            for claim in held
            if claim.enforcement == enforcement
            for share in plan.shares(claim)
        ]

    def begin(self) -> None:
        """Record that no claim holds anything."""
        with self._lock:
            self._write({})

    def put(self, held: PreparedClaim) -> None:
        """Record a claim in place of its former record, which stays after an error."""
        with self._lock:
            self._write({**self._entries, held.uid: form.entry(held)})
            self._claims[held.uid] = held

    def drop(self, uid: str) -> None:
        """Forget a claim. After an error it is still there."""
        with self._lock:
            self._write({key: entry for key, entry in self._entries.items() if key != uid})
            self._claims.pop(uid, None)

    def _write(self, entries: dict[str, str]) -> None:
        hint = "see that its folder is there, writable and not full"
        with files.failing(f"can't write {self.path}", hint=hint):
            files.replace(self.path, form.dump(entries), 0o600, durable=True)
        self._entries, self.missing = entries, False


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
    """Prepares and unprepares claims. What is recorded of a claim and done for it is by one ``snapshot``."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        api: ClaimApi,
        files: ClaimFiles,
        instances: Instances,
        enforcements: Enforcements,
        snapshot: Snapshot,
        users: Users,
    ) -> None:
        self._checkpoint, self._api, self._files = checkpoint, api, files
        self._instances, self._enforcements, self._users = instances, enforcements, users
        self.snapshot = snapshot
        self._claims, self._room = Locks(), threading.Lock()

    # --- prepare ---

    def prepare(self, namespace: str, name: str, uid: str) -> PreparedClaim:
        """Prepare a claim, and return what its containers get.

        Raises:
            NodeError: if it can't be prepared now, or at all.
        """
        with self._claims.of(check_uid(uid)):
            held, snapshot = self._checkpoint.get(uid), self.snapshot
            moved = intact = False
            if held is not None and held.state != form.UNPREPARING:
                moved = self._api.moved(held)
                intact = held.state == form.PREPARED and not moved and self._intact(held)
            for step in plan.steps(held, intact=intact, moved=moved):
                if held is None or step == plan.NOTE:
                    claim = self._api.read(namespace, name, uid)
                    snapshot = self.snapshot  # the API may have taken its time
                    held = self._note(claim, snapshot)
                elif step == plan.UNDO:
                    self._undo(held)
                elif step == plan.INSTANCES:
                    plan.check_gate(held, snapshot.inventory.quarantine)
                    held = self._with_instances(held)
                elif step == plan.GIVE:
                    self._give(held, snapshot.config)
                else:
                    self._checkpoint.put(replace(held, state=form.PREPARED))
                    devices = [device.device for device in held.devices]
                    logs.info("prepared", claim=f"{held.namespace}/{held.name}", devices=devices)
            if held is None:
                raise NodeError(f"there is no record of claim {namespace}/{name}")
            return held

    def _note(self, claim: Claim, snapshot: Snapshot) -> PreparedClaim:
        """Record what is about to be prepared, if there is room for it."""
        dra = snapshot.config.dra
        limits = plan.limits((view.gpu for view in snapshot.inventory.gpus), dra)
        devices = plan.resolve(claim, snapshot.inventory, limits)
        name = dra.enforcement if any(map(plan.is_share, devices)) else ""
        where = (claim.uid, claim.namespace, claim.name)
        held = PreparedClaim(*where, form.PREPARING, devices, claim.pods, name)
        prepared = tuple(self._checkpoint.claims.values())
        by_mps = any(share.mps for share in snapshot.config.sharing.shares)
        affected = plan.is_affected(held, prepared, plugin_uses_mps=by_mps)
        containers = self._api.containers(claim) if affected else ()
        with self._room:  # of two claims that race for what is left one gets it
            other_claims = tuple(
                other for other in self._checkpoint.claims.values() if other.uid != held.uid
            )
            plan.check_room(held, other_claims, limits)
            plan.check_containers(held, other_claims, containers, plugin_uses_mps=by_mps)
            self._checkpoint.put(held)
        return held

    def _with_instances(self, held: PreparedClaim) -> PreparedClaim:
        """Make the MIG instances of a claim that do not exist; return the claim with all of them."""

        def note(number: int, instance: Instance) -> None:
            nonlocal held
            devices = list(held.devices)
            devices[number] = replace(devices[number], instance=instance)
            held = replace(held, devices=tuple(devices))
            self._checkpoint.put(held)

        for number, device in enumerate(held.devices):
            if device.instance is not None:
                self._instances.make(device, partial(note, number))
        return held

    def _give(self, held: PreparedClaim, config: Config) -> None:
        """Set up what enforces the shares of a claim, and describe it to container runtimes."""
        shares = plan.shares(held)
        edits = self._enforcements.of(held.enforcement).prepare(shares) if shares else Edits()
        nodes = {
            device.instance.uuid: self._instances.nodes(device)
            for device in held.devices
            if device.instance
        }
        node = self._files.node(config)
        spec = cdi.specification(held.uid, held.devices, node, nodes, edits)
        self._files.write(held.uid, spec)

    def _intact(self, held: PreparedClaim) -> bool:
        """Return whether all that a claim was given is there, as it is not after a boot."""
        return self._files.there(held.uid) and all(
            self._instances.stands(device) for device in held.devices if device.instance
        )

    # --- unprepare ---

    def unprepare(self, uid: str) -> None:
        """Undo what was done for a claim, if anything.

        Raises:
            NodeError: if a part failed; the call has to be repeated.
        """
        with self._claims.of(check_uid(uid)):
            held = self._checkpoint.get(uid)
            if held is None:
                self._files.remove(uid)
                return
            self._undo(held)
            logs.info("unprepared", claim=f"{held.namespace}/{held.name}")

    def _undo(self, held: PreparedClaim) -> None:
        """Undo what the checkpoint has of a claim, first what lets containers start with it."""
        if held.state != form.UNPREPARING:
            held = replace(held, state=form.UNPREPARING)
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
        """Restore the state of claims after a start: enforcements, and their files and no others.

        Raises:
            NodeError: if there is no checkpoint, and claims have files since the boot, or pods that run.
        """
        if self._checkpoint.missing:
            self._refuse_unknown()
            self._checkpoint.begin()
        claims = self._checkpoint.claims.values()
        self._files.sweep([path for path in self._files.left() if self._has_ended(path)])
        names = {claim.enforcement for claim in claims if claim.enforcement}
        for name in sorted({*names, self.snapshot.config.dra.enforcement}):
            self._enforcements.of(name)  # which takes up what is live

    def _has_ended(self, path: Path) -> bool:
        """Return whether a claim's file is no longer needed.

        The checkpoint has each claim before its file is there. One that lacks a claim may be older than it, as after a
        restore: then the kubelet says whether the claim has ended, since it drops a claim once it was unprepared.
        """
        uid = self._files.uid(path)
        held = self._checkpoint.get(uid)
        if held is not None:
            return held.state == form.UNPREPARING
        try:
            has_ended = self._users.stamp() is not None and uid not in self._users.read()
        except (NodeError, OSError) as error:
            logs.warning("which claims the kubelet has is not known", cause=error)
            has_ended = False
        if not has_ended:
            logs.warning("a claim's file is not removed: nobody says that it has ended", file=path)
        return has_ended

    def _refuse_unknown(self) -> None:
        """Refuse to begin without a checkpoint while claims have files since the boot, or containers by the kubelet."""
        message = f"what claims hold is not known: {self._checkpoint.path} is gone"
        next_step = "restore it, or delete the pods with claims of this node"
        if left := self._files.left():
            raise NodeError(
                message,
                cause=f"claims were prepared since the boot: {', '.join(map(str, left[:MOST_NAMED]))}",
                hint=f"{next_step}, and then the files of these claims: rm {self._files.path('*')}",
            )
        users = self._users.read(DRIVER)
        running = running_pods(Host()) if users else ()
        if active := sorted(uid for uid, pods in users.items() if pods.intersection(running)):
            cause = f"pods run with claims of the kubelet's: {', '.join(active[:MOST_NAMED])}"
            raise NodeError(message, cause=cause, hint=next_step)

    def refresh(self) -> None:
        """Rewrite the claims' specifications by the node's own, such as after a change of the driver."""
        for uid, held in self._checkpoint.claims.items():
            if held.state == form.PREPARED:
                with self._claims.of(uid):
                    if self._checkpoint.get(uid) == held and self._intact(held):
                        self._give(held, self.snapshot.config)


class Forgotten:
    """Claims that the kubelet has forgotten, as after kubeadm reset: nobody would ever give back what they hold.

    The kubelet writes down a claim before it asks for it to be prepared, and drops it after it was unprepared. So what
    a claim holds that is neither there nor allocated so in the API is nobody's, once no container of it runs: a kubelet
    may have lost what it wrote down, and a pod's object goes before its containers.

    Args:
        users: Which pods have which claims, as the kubelet keeps it.
        checkpoint: What claims hold.
        gone: Whether the API no longer gives a claim what it holds.
        unprepare: Undoes a claim by its UID.
        clock: The time in seconds.
        running: The UIDs of the pods that have a process.
    """

    def __init__(
        self,
        users: Users,
        checkpoint: Checkpoint,
        gone: Callable[[PreparedClaim], bool],
        unprepare: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        running: Callable[[], Collection[str]] = lambda: running_pods(Host()),
    ) -> None:
        self._users, self._checkpoint, self._running = users, checkpoint, running
        self._gone, self._unprepare, self._clock = gone, unprepare, clock
        self._since: dict[str, float] = {}

    def look(self) -> None:
        """Unprepare what has been nobody's for a while.

        Raises:
            NodeError, OSError: if the state of a claim isn't known, or it can't be unprepared.
        """
        claims, moment, tries = self._checkpoint.claims, self._clock(), Tries()
        known = self._users.read() if claims else {}
        lost = [uid for uid in claims if uid not in known]
        self._since = {uid: self._since.get(uid, moment) for uid in lost}
        due = [claims[uid] for uid, since in self._since.items() if moment - since >= PATIENCE]
        for held in due:
            with tries:
                if self._gone(held) and not set(held.pods).intersection(self._running()):
                    logs.warning(
                        "the kubelet has forgotten a claim, which is given back", claim=held
                    )
                    self._unprepare(held.uid)
        tries.check()
