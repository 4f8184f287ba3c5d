# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What to do about the GPUs of a node, and about the node: one answer for whatever was observed.

The strongest of what the signs ask for, as this kind of machine allows it, and stronger each time that it did not help.
"""

from __future__ import annotations

import typing as t

from . import findings, rules
from .actions import WIDE, Action
from .state import GpuVerdict, ObservedGpu, ObservedNode, Reason, Verdict, Virtual
from .xids.table import KNOWN, Table

WINDOW = 24 * 3600.0  # seconds in which a fault that is back is the same one
LADDER = (Action.REBOOT, Action.REPLACE)  # after the first attempt, and after each later one
NVLINK5 = 5


def decide(
    node: ObservedNode,
    gpus: t.Sequence[ObservedGpu],
    now: float,
    table: Table = KNOWN,
    window: float = WINDOW,
) -> Verdict:
    """Return the verdict. ``now`` is in seconds since 1970, as the times of what was observed; ``window`` in seconds.

    The table is the collection's own where none is given. Each of a GPU's reasons asks for no more than its action; the
    node's action is of what concerns more than one GPU.
    """
    gpus_found = [_gpu(node, one, table, (now, window)) for one in gpus]
    wide = [
        Reason(reason.action, f"GPU {verdict.uuid}: {reason.text}")
        for verdict, spent in gpus_found
        for reason in verdict.reasons
        if reason.action in WIDE and not spent
    ]
    ordered = _ordered([*wide, *_node(node)])
    return Verdict(_strongest(ordered), ordered, tuple(one for one, _spent in gpus_found))


def asked(node: ObservedNode, gpu: ObservedGpu, table: Table = KNOWN) -> GpuVerdict:
    """Return what the signs of a GPU ask for by themselves, whatever the machine allows and whatever was tried."""
    ordered = _ordered(findings.of_gpu(gpu, node, table))
    return GpuVerdict(gpu.uuid, _strongest(ordered), ordered)


def _gpu(
    node: ObservedNode, gpu: ObservedGpu, table: Table, times: t.Tuple[float, float]
) -> t.Tuple[GpuVerdict, bool]:
    """Return the verdict on a GPU, and whether all was tried already that could bring it back."""
    reasons = findings.of_gpu(gpu, node, table)
    together: t.Tuple[str, ...] = ()
    if any(one.action.resets for one in reasons):
        rule = rules.rule(node, gpu)
        reasons.append(Reason(rule.action, rule.text))
        together = (gpu.peers or ()) if rule.action is Action.RESET_ALL else ()
    now, window = times
    tried = [one for one in gpu.attempts if one.at > now - window and _repairs(one.action)]
    repairs = any(_repairs(one.action) for one in reasons)
    if tried and repairs:
        action = LADDER[min(len(tried), len(LADDER)) - 1]
        text = (
            f"resets or reboots in the last {window / 3600:g} hours that did not help: {len(tried)}"
        )
        reasons.append(Reason(action, text))
    ordered = _ordered(reasons)
    spent = repairs and len(tried) >= len(LADDER)
    return GpuVerdict(gpu.uuid, _strongest(ordered), ordered, together), spent


def _repairs(action: Action) -> bool:
    return action.resets or action is Action.REBOOT


def _node(node: ObservedNode) -> t.List[Reason]:
    found = findings.of_switches(node.sxids)
    if node.fabric_restarted and node.nvlink == NVLINK5:
        text = "the fabric manager was started again, after which GPUs with NVLink 5 are reset"
        found.append(Reason(Action.RESET_ALL, text))
    if node.virtual is not Virtual.NONE and any(one.action.resets for one in found):
        rule = rules.rule(node, ObservedGpu(""))
        found.append(Reason(rule.action, rule.text))
    return found


def _ordered(reasons: t.Iterable[Reason]) -> t.Tuple[Reason, ...]:
    """Return the reasons, the strongest first; the same ones in the same order, however they came."""
    return tuple(sorted(set(reasons), key=lambda one: (-one.action, one.text)))


def _strongest(ordered: t.Sequence[Reason]) -> Action:
    return ordered[0].action if ordered else Action.NONE
