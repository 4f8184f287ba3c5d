# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pods hold which devices, by the kubelet and by containers; which are gone, and how they were advertised."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from .._shared._base.dra.checkpoint import PreparedClaim
from .._shared._machine.host import Host
from .._shared._node.users.allocated import NAMED, Allocation
from .._shared._node.users.machine.allocated import of_pods_that_run
from .._shared._node.users.machine.witness import unreported
from ..advertise.decide import Advertised, Form, Holders
from ..model.inventory import Inventory
from ..tools import logs
from ..tools.chores import Chore, Worker
from ..tools.files import StateFile, recall
from .client import allocations, answering, sockets
from .listener import Identity, identity

FILE: Final = "forms.json"
SETTLED: Final = 1.0  # seconds after a change, in which the kubelet ends what it is about to give
AGAIN: Final = 5.0  # while somebody is waited for, or the kubelet has not answered
SELDOM: Final = 600.0
WITNESS_AGAIN: Final = 60.0  # while a container has what the kubelet does not know of
SILENCE: Final = 10.0  # of a new kubelet, after which it is served all the same
REGISTRATION: Final = "device-plugins/kubelet.sock"


@dataclass(frozen=True)
class Answer:
    """The devices of pods, and the forms and UUIDs of the devices when the kubelet was asked.

    ``kubelet`` is the identity of the kubelet, None if there was none.
    """

    allocations: Sequence[Allocation]
    forms: Mapping[str, Form] = field(default_factory=dict)
    uuids: frozenset[str] = frozenset()
    kubelet: Identity | None = None


class HolderWatch:
    """Asks the kubelet when it or devices have changed, again while a pod is waited for, and seldom besides.

    A kubelet may have forgotten what it gave away, so the containers that are older than it are looked at once, and
    what they have is among the answer. It does so in a thread of its own.

    Args:
        kubelet: The kubelet's root folder.
        folder: Where the forms are stored for the next process.
        wake: Called when there is an answer.
        clock: The time in seconds.
        claims: Returns what the DRA driver has prepared.
    """

    def __init__(
        self,
        kubelet: Path,
        folder: Path,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        claims: Callable[[], Iterable[PreparedClaim]] = tuple,
    ) -> None:
        self.answer: Answer | None = None
        self._registration, self._claims = kubelet / REGISTRATION, claims
        self._kubelet: Identity | None = None
        self._asked_of: Identity | None = None
        self._came = float("-inf")  # when this kubelet was seen first
        self._reported: Sequence[Allocation] = ()
        self._unreported: Sequence[Allocation] = ()
        self._witnessed: tuple[Identity | None, float] | None = None
        self._sockets = sockets(kubelet)
        self._file, self._wake, self._clock = StateFile(folder / FILE, mode=0o600), wake, clock
        self._worker = Worker("pods")
        self._taken: Answer | None = None
        self._settles, self._asked = 0.0, float("-inf")
        self._answer = Answer(())
        trouble = "it is not known which pods have which devices"
        self._ask = Chore("pods", trouble, self._look)
        trouble = "it can't be kept in which forms devices are advertised"
        self._keep = Chore("forms", trouble, self._write)
        trouble = "it is not known what containers have that are older than the kubelet"
        self._witness = Chore("containers", trouble, self._look_at_containers)
        self.chores = (self._ask, self._keep, self._witness)
        self._forms = read_forms(self._file.path)

    @property
    def holders(self) -> Holders:
        """The holders by the last answer."""
        answer = self.answer
        if answer is None:
            return Holders(None, self._forms)
        return Holders(answer.allocations, self._forms, answer.forms)

    @property
    def settled(self) -> bool:
        """Return whether the last answer is about the devices that there are now."""
        return self.answer is not None and self.answer.uuids == self._answer.uuids

    @property
    def knows_kubelet(self) -> bool:
        """Whether the last answer taken is of the kubelet that there is now, or it has been silent for long."""
        answered = self._taken is not None and self._taken.kubelet == self._kubelet
        return answered or self._clock() - self._came >= SILENCE

    def first_answer(self, pause: Callable[[], bool]) -> None:
        """Wait for the kubelet's first answer or its silence, or until ``pause`` is False."""
        self.tick(waiting=True)
        while not self._ask.ran and pause():
            pass

    def tick(self, *, waiting: bool) -> bool:
        """Begin to ask if that is due. Return whether the answer has changed since the last tick."""
        moment, kubelet = self._clock(), identity(self._registration)
        if kubelet != self._kubelet:
            self._kubelet, self._came = kubelet, moment
        again = self._asked + (AGAIN if waiting or self._ask.error else SELDOM)
        due = self._settles if self._asked < self._settles else again
        if kubelet != self._asked_of:
            due = moment
        elif not self.knows_kubelet:
            due = min(due, self._asked + SETTLED)
        about = replace(self._answer, kubelet=kubelet)
        if moment >= due and self._worker.start(lambda: self._begin(about)):
            self._asked, self._asked_of = moment, kubelet
        before, self._taken = self._taken, self.answer
        return self._taken is not before

    def advertised(self, advertised: Advertised, inventory: Inventory) -> None:
        """Note what is advertised from now on. It is written before it is published."""
        gpus = [gpu.gpu.uuid for gpu in inventory.gpus]
        answer = Answer((), advertised.forms, frozenset([*gpus, *inventory.mig_uuids]))
        if answer != self._answer:
            self._answer, self._settles = answer, self._clock() + SETTLED
        complete = not (inventory.absent or inventory.strangers)
        forms = in_force(self._forms, advertised.forms, advertised.held)
        if complete:  # what no GPU has any more is reported as vanished
            forms = {uuid: form for uuid, form in forms.items() if uuid in answer.uuids}
        if forms != self._forms or self._keep.error:
            self._forms = forms
            self._keep.run()

    def _write(self) -> None:
        self._file.write({"forms": dump(self._forms)})

    def _begin(self, about: Answer) -> None:
        self._ask.run(about)
        self._wake()

    def _look(self, about: Answer) -> None:
        self._reported = allocations(self._sockets)
        self._witness.run(about.kubelet)
        running = of_pods_that_run(Host(), (*self._reported, *self._unreported))
        self.answer = replace(about, allocations=running)

    def _look_at_containers(self, kubelet: Identity | None) -> None:
        """Look at the containers once for each kubelet, and again while it has forgotten any."""
        if self._witnessed is not None and not self._witness.error:
            seen, at = self._witnessed
            again = self._unreported and self._clock() - at >= WITNESS_AGAIN
            if seen == kubelet and not again:
                return
        socket, claims = str(answering(self._sockets) or ""), self._claims()
        containers = unreported(Host(), self._reported, socket, claims, starting=True)
        for container in containers:
            if container not in self._unreported:
                problem = "a container has a device that the kubelet does not know of"
                logs.error(problem, who=str(container))
        self._unreported, self._witnessed = containers, (kubelet, self._clock())


def read_allocations(
    places: Sequence[Path], claims: Iterable[PreparedClaim] = ()
) -> Sequence[Allocation]:
    """Return what pods that have not ended have, also what the kubelet has forgotten.

    Raises:
        KubeletSilent: if a kubelet is there and does not answer.
        NodeError: if the devices of a container can't be read.
    """
    reported = allocations(places)
    socket = str(answering(places) or "")
    return of_pods_that_run(Host(), (*reported, *unreported(Host(), reported, socket, claims)))


def read_forms(path: Path) -> dict[str, Form]:
    """Return the forms that a process stored, none if they can't be read, which is logged."""
    trouble = "in which forms devices were advertised is not known"
    return recall(path, trouble, lambda data: load(data["forms"]), {})


def in_force(
    before: Mapping[str, Form], current: Mapping[str, Form], waiting: Container[str]
) -> dict[str, Form]:
    """Return the forms that are in force once devices are advertised ``current``, of which some are ``waiting``."""
    free = {uuid: form for uuid, form in current.items() if uuid not in waiting}
    staying = {
        uuid: form
        for uuid, form in before.items()
        if not any(form.is_nested(uuid, other, other_form) for other, other_form in free.items())
    }
    return {**staying, **free}


def dump(forms: Mapping[str, Form]) -> dict[str, list[Any]]:
    """Return forms as JSON can hold them."""
    return {uuid: list(form) for uuid, form in sorted(forms.items())}


def load(data: object) -> dict[str, Form]:
    """Read what dump() returned.

    Raises:
        TypeError, ValueError: if it has another form.
    """
    if not isinstance(data, dict):
        raise TypeError(f"{data!r} is no object")
    return {
        str(uuid): Form(str(gpu), str(name), str(kind), int(shares))
        for uuid, (gpu, name, kind, shares) in data.items()
    }


class Vanished:
    """Logs devices of pods that no GPU has any more, once each."""

    def __init__(self) -> None:
        self.allocations: tuple[Allocation, ...] = ()
        self._looked_at: Answer | None = None

    def look(self, answer: Answer | None, inventory: Inventory) -> None:
        """Look through an answer of the kubelet, unless the driver or a GPU was never read."""
        unread = any(gpu.problem and not gpu.mig and gpu.gpu.mig_current for gpu in inventory.gpus)
        if answer is None or answer is self._looked_at:
            return
        if inventory.absent or inventory.strangers or unread:
            return
        self._looked_at = answer
        vanished = tuple(gone(answer.allocations, answer.uuids))
        for allocation in vanished:
            if allocation not in self.allocations:
                pod, device = str(allocation), allocation.device
                logs.error("a device vanished under a pod", who=pod, device=device)
        for allocation in self.allocations:
            if allocation not in vanished:
                logs.info("no pod has the vanished device any more", device=allocation.device)
        self.allocations = vanished

    def describe(self) -> list[dict[str, str]]:
        """Return them as JSON can hold them."""
        return [asdict(allocation) for allocation in self.allocations]


def gone(reported: Iterable[Allocation], uuids: frozenset[str]) -> list[Allocation]:
    """Return the allocations of a UUID that no GPU and no MIG device has, one share for all of a container's."""
    by_container: dict[tuple[str, ...], Allocation] = {}
    for allocation in reported:
        match = NAMED.search(allocation.device)
        if match and match[0] not in uuids and "MIG-GPU-" not in allocation.device:
            by_container.setdefault(
                (allocation.namespace, allocation.pod, allocation.container, match[0]), allocation
            )
    return list(by_container.values())
