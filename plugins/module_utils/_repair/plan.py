# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan of a run for each GPU of a node and for the node, from the verdict, the cases and the quarantine."""

from __future__ import annotations

import dataclasses
import enum
import typing as t

from .._base.text.shown import counted
from .._base.text.strict import written
from .._node.quarantine import OPERATOR, REPAIR
from .case import NO_CASES, TOLERANCE, Boot, RepairCase, RepairCases
from .signs import Action, Answer, GpuSigns, NodeSigns
from .verdict import GpuVerdict, NodeVerdict, Reason

NEVER, WHEN_NEEDED = REBOOTS = ("never", "when_needed")


class Next(enum.IntEnum):
    """The next step for a GPU; the strongest of a node's GPUs is the node's."""

    NOTHING = 0
    CLOSE = 1  # the GPU is not in the node any more, another one has its place
    WAIT = 2  # set aside, until a person has done something or who uses it has ended
    PROVE = 3  # nothing is wrong with it any more
    RESET = 4
    REBOOT = 5

    @property
    def works(self) -> bool:
        """Whether the node has to be taken out of service for the step, or at least proved."""
        return self >= Next.PROVE


class RepairGpu(t.NamedTuple):
    """A GPU with its signs; ``fenced_by`` is empty where nobody has set it aside.

    ``pods`` are the pods and claims that have it, as namespace/name. ``replaced_by`` is the UUID of the GPU that has
    its place now.
    """

    signs: GpuSigns
    pci: str = ""
    serial: str = ""
    number: t.Optional[int] = None
    fenced_by: str = ""
    pods: t.Tuple[str, ...] = ()
    replaced_by: str = ""

    @property
    def uuid(self) -> str:
        """Return its UUID, or its PCI address where that is all that is known."""
        return self.signs.uuid


NO_SIGNS, NO_BOOT = NodeSigns(), Boot()


@dataclasses.dataclass(frozen=True)
class RepairObservation:
    """A node before a repair; ``current_time`` in seconds since 1970. ``problem`` is why its GPUs can't be judged."""

    node: NodeSigns = NO_SIGNS
    gpus: t.Tuple[RepairGpu, ...] = ()
    cases: RepairCases = NO_CASES
    boot: Boot = NO_BOOT
    current_time: float = 0.0
    problem: str = ""
    warnings: t.Tuple[str, ...] = ()


class GpuPlan(t.NamedTuple):
    """The next step for a GPU, and the same as a text for people."""

    gpu: RepairGpu
    verdict: GpuVerdict
    next: Next
    step: str = ""
    case: t.Optional[RepairCase] = None


class NodePlan(t.NamedTuple):
    """The plan for a node. GPUs are named by their UUIDs, and pods by namespace/name.

    ``cases`` are those of which a case is ours, ``new`` those of them that have none yet, ``fence`` those to be set
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


# --- the next step for each GPU ---


def plan_gpus(
    observation: RepairObservation, verdict: NodeVerdict, reboot: str
) -> t.Tuple[GpuPlan, ...]:
    """Return the next step for each GPU. ``reboot`` is one of ``REBOOTS``."""
    own = _own_reasons(verdict)
    asked = max((reason.action for reason in own), default=Action.NONE)
    whole = any(reason.action is Action.RESET_ALL for reason in own)
    verdicts = {gpu.uuid: gpu for gpu in verdict.gpus}
    plans = []
    for gpu in observation.gpus:
        judged = verdicts[gpu.uuid]
        if whole and judged.action < asked:
            # Switches or services of the node ask for a reset of all its GPUs.
            judged = judged._replace(action=asked, reasons=(*own, *judged.reasons), together=())
        case = observation.cases.gpus.get(gpu.uuid)
        case = case if case and case.is_open else None
        plans.append(GpuPlan(gpu, judged, *_next_step(gpu, judged.action, case, reboot), case=case))
    lost = [gpu.uuid for gpu in observation.gpus if gpu.signs.answer is Answer.LOST]
    if lost and all(plan.next is not Next.REBOOT for plan in plans):
        text = (
            f"nvidia-smi resets no GPU of a node while one is lost ({', '.join(lost)}): {REBOOT_IT}"
        )
        plans = [
            plan._replace(next=Next.WAIT, step=text) if plan.next is Next.RESET else plan
            for plan in plans
        ]
    return tuple(plans)


def _own_reasons(verdict: NodeVerdict) -> t.Tuple[Reason, ...]:
    """Return the node's reasons that are of none of its GPUs."""
    of_gpus = {f"GPU {gpu.uuid}: {reason.text}" for gpu in verdict.gpus for reason in gpu.reasons}
    return tuple(reason for reason in verdict.reasons if reason.text not in of_gpus)


def _next_step(
    gpu: RepairGpu, action: Action, case: t.Optional[RepairCase], reboot: str
) -> t.Tuple[Next, str]:
    """Return the next step for a GPU, and the same as a text."""
    if gpu.replaced_by:
        text = f"GPU {gpu.replaced_by} is in its place, so nothing is left to do for it"
        return (Next.CLOSE, text) if case or gpu.fenced_by == REPAIR else (Next.NOTHING, "")
    if gpu.fenced_by == OPERATOR:
        return (Next.WAIT, BY_HAND) if action.fences or case else (Next.NOTHING, "")
    if not action.fences:
        if case is not None or gpu.fenced_by == REPAIR:
            return Next.PROVE, "it is proved and given back"
        restarts = action is Action.RESTART_APPLICATION
        return Next.NOTHING, "restart what uses it" if restarts else WAITS.get(action, "")
    if action is Action.DRAIN_THEN_RESET and gpu.pods:
        return Next.WAIT, f"it is reset by the run after {', '.join(gpu.pods)} has ended"
    if action.resets:
        return Next.RESET, "it is reset, proved and given back"
    if action is Action.REBOOT and reboot == WHEN_NEEDED:
        return Next.REBOOT, "the node is rebooted, and the GPU proved and given back"
    return Next.WAIT, WAITS[action]


# --- the plan for the node ---


def plan_node(plans: t.Sequence[GpuPlan], *, fences: bool = True) -> NodePlan:
    """Return the plan for the node; ``fences`` tells whether a GPU that is set aside gets no new pods here."""
    strongest = max((plan.next for plan in plans), default=Next.NOTHING)
    resets = [] if strongest is Next.REBOOT else [p for p in plans if p.next is Next.RESET]
    reset = tuple(plan.gpu.uuid for plan in resets)
    several = [plan.verdict for plan in resets if plan.verdict.action is Action.RESET_ALL]
    with_them = tuple(
        plan.gpu.uuid
        for plan in plans
        if plan.gpu.uuid not in reset
        and any(not verdict.together or plan.gpu.uuid in verdict.together for verdict in several)
    )
    ours = [p for p in plans if p.next >= Next.WAIT and p.gpu.fenced_by != OPERATOR]
    # A GPU whose UUID nobody knows is allocated by nobody.
    fence = tuple(
        plan.gpu.uuid
        for plan in plans
        if plan.verdict.action.fences
        and not plan.gpu.fenced_by
        and not plan.gpu.replaced_by
        and plan.gpu.uuid != plan.gpu.pci
    )
    evicted = {pod for p in plans if p.gpu.uuid in (*reset, *with_them) for pod in p.gpu.pods}
    return NodePlan(
        strongest,
        cases=tuple(plan.gpu.uuid for plan in ours),
        new=tuple(plan.gpu.uuid for plan in ours if plan.case is None),
        fence=fence,
        reset=reset,
        together=bool(several),
        with_them=with_them,
        reboot=tuple(plan.gpu.uuid for plan in plans if plan.next is Next.REBOOT),
        prove=tuple(
            plan.gpu.uuid
            for plan in plans
            if plan.next in (Next.PROVE, Next.REBOOT) or plan.gpu.uuid in reset
        ),
        close=tuple(plan.gpu.uuid for plan in plans if plan.next is Next.CLOSE),
        evict=tuple(sorted(evicted)),
        cordon=strongest is Next.REBOOT or bool(with_them) or bool(reset and not fences),
    )


def new_cases(
    plans: t.Sequence[GpuPlan], work: NodePlan, current_time: float, boot: Boot
) -> t.Dict[str, RepairCase]:
    """Return the cases that the run begins or goes on with, by the GPUs' UUIDs."""
    return {
        plan.gpu.uuid: RepairCase(
            plan.gpu.serial,
            plan.gpu.pci,
            plan.verdict.action,
            tuple(reason.text for reason in plan.verdict.reasons if reason.action),
            current_time,
            boot,
        )
        for plan in plans
        if plan.gpu.uuid in work.cases
    }


def clock_problem(observation: RepairObservation) -> str:
    """Return that the node's clock was set back, or nothing if its times can be trusted."""
    ahead = observation.cases.latest - observation.current_time
    if ahead <= TOLERANCE:
        return ""
    return (
        f"the node's clock is {ahead:.0f} s behind what its repairs have written down, so it is not known what was"
        " before and what after. Next step: set the clock right and run again"
    )


def describe(plans: t.Sequence[GpuPlan], work: NodePlan, verdict: NodeVerdict) -> t.List[str]:
    """Return lines for people about the node and each GPU with a fault: the verdict, the reasons, the next step."""
    lines = []
    own = _own_reasons(verdict)
    asks = [reason.text for reason in own if reason.action is Action.ASK]
    if asks and all(reason.action is not Action.RESET_ALL for reason in own):
        # Nobody knows which GPUs a switch concerns; a reset of all is told by the GPUs.
        lines += [f"the node: ask: {'; '.join(asks)}", f"  next: {SWITCHES}"]
    for plan in plans:
        gpu, action = plan.gpu, plan.verdict.action
        if action is Action.NONE and plan.next is Next.NOTHING:
            continue
        name = f"GPU {gpu.number} " if gpu.number is not None else "GPU "
        place = f", {gpu.pci}" if gpu.pci and gpu.pci != gpu.uuid else ""
        reasons = [reason.text for reason in plan.verdict.reasons if reason.action]
        cause = "; ".join(reasons) or "nothing is wrong with it"
        lines.append(f"{name}({gpu.uuid}{place}): {action.word}: {cause}")
        lines += [f"  next: {plan.step}"] if plan.step else []
        if plan.case and plan.case.attempts:
            last = plan.case.attempts[-1]
            lines.append(
                f"  before: {counted(len(plan.case.attempts), 'attempt')}, the last a {last.action.word} at"
                f" {written(last.at)}: {last.result or 'it is not known what came of it'}"
            )
    if work.with_them:
        lines.append(f"the reset takes {', '.join(work.with_them)} too")
    if work.evict:
        lines.append(f"these have what is reset: {', '.join(work.evict)}")
    return lines
