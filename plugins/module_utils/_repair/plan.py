# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a run does next about each GPU of a node, from the verdict, the cases and who has set GPUs aside."""

from __future__ import annotations

import dataclasses
import enum
import typing as t

from .._base.text.shown import counted
from .._base.text.strict import written
from .._node.quarantine import OPERATOR, REPAIR
from . import case as kept
from .actions import Action
from .case import Boot, Case, Cases
from .state import Answer, GpuVerdict, ObservedGpu, ObservedNode, Reason, Verdict

DONE = "done"  # what comes of an attempt that has done what it was made for
NEVER, WHEN_NEEDED = REBOOTS = ("never", "when_needed")


class Next(enum.IntEnum):
    """What comes next for a GPU; of a node's GPUs the strongest says what is done with the node."""

    NOTHING = 0
    CLOSE = 1  # the GPU is not in the node any more, another one has its place
    WAIT = 2  # set aside, until a person has done something or who uses it has ended
    PROVE = 3  # nothing is wrong with it any more
    RESET = 4
    REBOOT = 5

    @property
    def works(self) -> bool:
        """Whether the node has to be taken out of service for it, or at least proved."""
        return self >= Next.PROVE


class Seen(t.NamedTuple):
    """A GPU as a run has found it; ``fenced_by`` is empty where nobody has set it aside.

    ``pods`` are the pods and claims that have it, as namespace/name. ``replaced_by`` is the UUID of the GPU that has
    its place now.
    """

    observed: ObservedGpu
    pci: str = ""
    serial: str = ""
    number: t.Optional[int] = None
    fenced_by: str = ""
    pods: t.Tuple[str, ...] = ()
    replaced_by: str = ""

    @property
    def uuid(self) -> str:
        """Return its UUID, or its PCI address where that is all that is known."""
        return self.observed.uuid


NOT_ASKED, UNKNOWN = ObservedNode(), Boot()


@dataclasses.dataclass(frozen=True)
class Observation:
    """A node as a run has found it; ``now`` in seconds since 1970. ``problem`` is why its GPUs can't be judged."""

    node: ObservedNode = NOT_ASKED
    gpus: t.Tuple[Seen, ...] = ()
    cases: Cases = kept.NOBODY
    boot: Boot = UNKNOWN
    now: float = 0.0
    problem: str = ""
    warnings: t.Tuple[str, ...] = ()

    def because(self, problem: str) -> Observation:
        """Return it with why its GPUs can't be judged."""
        return dataclasses.replace(self, problem=problem)


class Todo(t.NamedTuple):
    """What comes next for a GPU, and in words what a person is told of it."""

    seen: Seen
    verdict: GpuVerdict
    next: Next
    step: str = ""
    case: t.Optional[Case] = None


class Work(t.NamedTuple):
    """What a run does with the node. GPUs are named by their UUIDs, and pods by namespace/name.

    ``cases`` are those of which a case is kept, ``new`` those of them that have none yet, ``fence`` those to be set
    aside, ``reset`` those to be reset, which takes those in ``with_them`` too where it is ``together``, ``reboot``
    those that a reboot is for, ``prove`` those that may be given back then, ``close`` those that are gone, and
    ``evict`` the pods that have what is reset.
    """

    next: Next = Next.NOTHING
    cases: t.Tuple[str, ...] = ()
    new: t.Tuple[str, ...] = ()
    fence: t.Tuple[str, ...] = ()
    reset: t.Tuple[str, ...] = ()
    together: bool = False
    with_them: t.Tuple[str, ...] = ()
    reboot: t.Tuple[str, ...] = ()
    prove: t.Tuple[str, ...] = ()
    close: t.Tuple[str, ...] = ()
    evict: t.Tuple[str, ...] = ()
    cordon: bool = False


def reset_since(case: t.Optional[Case]) -> float:
    """Return when a GPU was last reset or its node rebooted by a repair, 0 where it was not or did not work."""
    done = [one.at for one in case.attempts if one.result == DONE] if case else []
    return max(done, default=0.0)


def todo(seen: Observation, verdict: Verdict, reboot: str) -> t.Tuple[Todo, ...]:
    """Return what comes next for each GPU. ``reboot`` is one of ``REBOOTS``."""
    found = []
    judgements, own = {one.uuid: one for one in verdict.gpus}, _own(verdict)
    for one in seen.gpus:
        judged = _as_node(judgements[one.uuid], own)
        case = seen.cases.gpus.get(one.uuid)
        case = case if case and case.is_open else None
        found.append(Todo(one, judged, *_next(one, judged, case, reboot), case=case))
    lost = [one.uuid for one in seen.gpus if one.observed.answer is Answer.LOST]
    return _kept_by(lost, found) if lost else tuple(found)


def _kept_by(lost: t.Sequence[str], found: t.Sequence[Todo]) -> t.Tuple[Todo, ...]:
    """Return it with no reset, as nvidia-smi makes none on a node with a GPU that is lost; a reboot is one of all."""
    if any(one.next is Next.REBOOT for one in found):
        return tuple(found)
    told = f"nvidia-smi resets no GPU of a node while one is lost ({', '.join(lost)}): {REBOOT_IT}"
    return tuple(
        one._replace(next=Next.WAIT, step=told) if one.next is Next.RESET else one for one in found
    )


def _as_node(judged: GpuVerdict, own: t.Tuple[Reason, ...]) -> GpuVerdict:
    """Return a GPU's verdict, or its node's where switches or services of the node ask for a reset of all GPUs."""
    asked = max((one.action for one in own), default=Action.NONE)
    if all(one.action is not Action.RESET_ALL for one in own) or judged.action >= asked:
        return judged
    return judged._replace(action=asked, reasons=(*own, *judged.reasons), together=())


def _own(verdict: Verdict) -> t.Tuple[Reason, ...]:
    """Return the node's reasons that are of none of its GPUs."""
    of_gpus = {f"GPU {one.uuid}: {reason.text}" for one in verdict.gpus for reason in one.reasons}
    return tuple(one for one in verdict.reasons if one.text not in of_gpus)


def _next(one: Seen, judged: GpuVerdict, case: t.Optional[Case], reboot: str) -> t.Tuple[Next, str]:
    action = judged.action
    if one.replaced_by:
        told = f"GPU {one.replaced_by} is in its place, so nothing is left to do for it"
        return (Next.CLOSE, told) if case or one.fenced_by == REPAIR else (Next.NOTHING, "")
    if one.fenced_by == OPERATOR:
        return (Next.WAIT, BY_HAND) if action.fences or case else (Next.NOTHING, "")
    if not action.fences:
        again = case is not None or one.fenced_by == REPAIR
        restarts = action is Action.RESTART_APPLICATION
        told = "restart what uses it" if restarts else WAITS.get(action, "")
        return (Next.PROVE, "it is proved and given back") if again else (Next.NOTHING, told)
    if action is Action.DRAIN_THEN_RESET and one.pods:
        return Next.WAIT, f"it is reset by the run after {', '.join(one.pods)} has ended"
    if action.resets:
        return Next.RESET, "it is reset, proved and given back"
    if action is Action.REBOOT and reboot == WHEN_NEEDED:
        return Next.REBOOT, "the node is rebooted, and the GPU proved and given back"
    return Next.WAIT, WAITS[action]


BY_HAND = "an operator has set it aside: gpu.node.release gives it back"
REBOOT_IT = (
    "reboot the node with gpu.node.reboot -e gpu_nodes_reboot=always, or allow it with"
    " -e repair_reboot=when_needed, and run gpu.node.repair again"
)
SWITCHES = (
    "a person has to look at its link in the kernel's log: gpu.node.reboot -e gpu_nodes_reboot=always resets all GPUs"
    " with their switches. A GPU with signs of its own is set aside"
)
WAITS: t.Mapping[Action, str] = {
    Action.REBOOT: f"no reset can help: {REBOOT_IT}",
    Action.RECOVER_FABRIC: (
        "recover the fabric or IMEX domain that it belongs to, which is more than this node, and run gpu.node.repair"
        " again"
    ),
    Action.ASK: "a person has to look: see the reasons and the evidence, and run gpu.node.repair again",
    Action.REPLACE: "have it replaced: the evidence goes to the vendor",
}


def work(found: t.Sequence[Todo], *, fences: bool = True) -> Work:
    """Return what is done with the node; ``fences`` tells whether a GPU that is set aside gets no new pods here."""
    by = {each: [one.seen.uuid for one in found if one.next is each] for each in Next}
    strongest = max((one.next for one in found), default=Next.NOTHING)
    resets = [] if strongest is Next.REBOOT else [one for one in found if one.next is Next.RESET]
    reset = tuple(one.seen.uuid for one in resets)
    together = any(one.verdict.action is Action.RESET_ALL for one in resets)
    with_them = tuple(
        one.seen.uuid
        for one in found
        if together and one.seen.uuid not in reset and _taken(one, resets)
    )
    touched = {*reset, *with_them}
    kept_of = [one for one in found if one.next >= Next.WAIT and _ours(one)]
    return Work(
        strongest,
        cases=tuple(one.seen.uuid for one in kept_of),
        new=tuple(one.seen.uuid for one in kept_of if one.case is None),
        fence=tuple(one.seen.uuid for one in found if one.verdict.action.fences and _unfenced(one)),
        reset=reset,
        together=together,
        with_them=with_them,
        reboot=tuple(by[Next.REBOOT]),
        prove=tuple(
            one.seen.uuid
            for one in found
            if one.next is Next.PROVE or one.seen.uuid in reset or one.next is Next.REBOOT
        ),
        close=tuple(by[Next.CLOSE]),
        evict=tuple(
            sorted({pod for one in found if one.seen.uuid in touched for pod in one.seen.pods})
        ),
        cordon=strongest is Next.REBOOT or bool(with_them) or bool(reset and not fences),
    )


def _taken(one: Todo, resets: t.Sequence[Todo]) -> bool:
    """Tell whether a reset of others takes a GPU too."""
    several = [each.verdict for each in resets if each.verdict.action is Action.RESET_ALL]
    return any(not each.together or one.seen.uuid in each.together for each in several)


def _ours(one: Todo) -> bool:
    return one.seen.fenced_by != OPERATOR


def _unfenced(one: Todo) -> bool:
    """Tell whether a GPU has to be set aside yet; one whose UUID nobody knows is given out by nobody."""
    seen = one.seen
    return not seen.fenced_by and not seen.replaced_by and seen.uuid != seen.pci


def clock_problem(seen: Observation) -> str:
    """Say that the node's clock was set back, empty where its times can be trusted."""
    ahead = seen.cases.latest - seen.now
    if ahead <= kept.TOLERANCE:
        return ""
    return (
        f"the node's clock is {ahead:.0f} s behind what its repairs have written down, so it is not known what was"
        " before and what after. Next step: set the clock right and run again"
    )


def _of_node(own: t.Sequence[Reason]) -> t.List[str]:
    """Return what is told of the node: of a switch nobody knows which GPUs it concerns, and those tell."""
    asks = [one.text for one in own if one.action is Action.ASK]
    if not asks or any(one.action is Action.RESET_ALL for one in own):
        return []
    return [f"the node: ask: {'; '.join(asks)}", f"  next: {SWITCHES}"]


def lines(found: t.Sequence[Todo], said: Work, verdict: Verdict) -> t.List[str]:
    """Return what a person is told of the node and of GPUs with something to tell: verdict, why, what comes next."""
    told = _of_node(_own(verdict))
    for one in found:
        if one.verdict.action is Action.NONE and one.next is Next.NOTHING:
            continue
        name = f"GPU {one.seen.number} " if one.seen.number is not None else "GPU "
        place = f", {one.seen.pci}" if one.seen.pci and one.seen.pci != one.seen.uuid else ""
        matter = [reason.text for reason in one.verdict.reasons if reason.action]
        why = "; ".join(matter) or "nothing is wrong with it"
        told.append(f"{name}({one.seen.uuid}{place}): {one.verdict.action.name.lower()}: {why}")
        told += [f"  next: {one.step}"] if one.step else []
        if one.case and one.case.attempts:
            last = one.case.attempts[-1]
            times = counted(len(one.case.attempts), "attempt")
            told.append(
                f"  before: {times}, the last a {last.action.name.lower()} at {written(last.at)}:"
                f" {last.result or 'it is not known what came of it'}"
            )
    if said.with_them:
        told.append(f"the reset takes {', '.join(said.with_them)} too")
    if said.evict:
        told.append(f"these have what is reset: {', '.join(said.evict)}")
    return told
