# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From the command line that there is, to the one that an IOMMU mode asks for."""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError
from .._base.steps import Plan, Step
from .._base.text.kernel_parameters import parameter
from .command_line import AGAINST_PT, OFF, PT, Words, edited, lacking, same_keys
from .state import CommandLine, Iommu

UNKNOWN = "unknown"
NO_IOMMU = "host: there is no IOMMU, so nothing is translated: the firmware has it off, or this is a virtual machine"
WRITE, NOTE = "command_line", "note_reboot"


def plan(
    current: Iommu, record: CommandLine, mode: str, asked: Words, guests: t.Sequence[str]
) -> Plan:
    """Return the plan; without a mode, to what there was before.

    Args:
        current: What the kernel is booted with, and will be.
        record: What earlier runs have added.
        mode: The desired mode, empty if the IOMMU is not managed.
        asked: The options that the mode takes.
        guests: The guests that have devices, or might.

    Raises:
        NodeError: if it can't be carried out.
    """
    if mode and current.none and not record.added:
        return Plan(before={}, after={}, warnings=(NO_IOMMU,))
    theirs = edited(edited(current.written, (), record.added), record.replaced, ())
    added = lacking(theirs, asked)
    change = set(added) != set(record.added) or current.lost
    change = change or bool(lacking(current.written, asked))
    pending = lacking(current.running, asked)
    if asked and not current.loader and not pending:
        change = False  # what boots this node in another way has the options already
    if change or pending:
        _check(current, mode, asked, theirs, guests)
    removed = tuple(option for option in record.added if option not in added)
    reasons = _reasons(current, record, asked, removed, change=change)
    steps = []
    if change:
        replaced = same_keys(theirs, added) if current.replaces else ()
        back = tuple(option for option in record.replaced if option not in replaced)
        more = (*added, *back)
        changes = [f"add {' '.join(more)}"] if more else []
        changes += [f"remove {' '.join(removed)}"] if removed else []
        line = CommandLine(added, replaced, current.boot if added else "")
        params = {"kept": line, "add": more, "remove": removed}
        summary = f"{' and '.join(changes)} in the kernel command line of {current.loader}"
        steps.append(Step(WRITE, summary, params, ("reboot",)))
    if reasons != current.noted:
        summary = "note that a reboot is needed" if reasons else "note that no reboot is needed"
        steps.append(Step(NOTE, summary, {"lines": reasons}))
    after = edited(current.written, added, removed)
    return Plan(
        tuple(steps),
        {"command line": " ".join(current.written)} if steps else {},
        {"command line": " ".join(after)} if steps else {},
        reboot_required=reasons,
        warnings=tuple(_warnings(current, record, mode, asked)),
    )


def _reasons(
    current: Iommu, record: CommandLine, asked: Words, removed: Words, *, change: bool
) -> Words:
    """Return why a reboot is needed, in words."""
    pending = lacking(current.running, asked)
    left = [option for option in removed if option in current.running]
    if asked:
        if pending and (change or not _elsewhere(current, record)):
            return (f"iommu: the kernel was booted without {' '.join(pending)}",)
        return ()
    if change:
        return (f"iommu: the kernel was booted with {' '.join(left)}",) if left else ()
    return current.noted  # a boot forgets it


def _elsewhere(current: Iommu, record: CommandLine) -> bool:
    """Return whether the command line was written in an earlier boot, and this boot does not have it."""
    return record.boot not in ("", current.boot)


def _check(current: Iommu, mode: str, asked: Words, theirs: Words, guests: t.Sequence[str]) -> None:
    refusal = f"iommu can't be {mode}" if mode else "iommu can't be given back"
    if not current.loader:
        by_hand = f"have what boots this node add {' '.join(asked)}, reboot, and run again"
        raise NodeError(
            refusal,
            cause=f"how this node's kernel command line is written is not known: {current.why}",
            hint=f"{by_hand}; or set host_iommu to unmanaged" if asked else "remove it by hand",
        )
    if mode == OFF and guests:
        raise NodeError(
            refusal,
            cause=f"this host hands devices to guests, who need the IOMMU: {', '.join(guests)}",
            hint="set host_iommu to pt or unmanaged",
        )
    forbidden = set(map(parameter, AGAINST_PT)) if mode == PT else set()
    against = [word for word in theirs if parameter(word) in forbidden]
    if against:
        raise NodeError(
            refusal,
            cause=f"the kernel command line has {' '.join(against)} from somebody else, and nothing takes that back",
            hint=f"remove it in {current.loader}, or set host_iommu to unmanaged",
        )


def _warnings(current: Iommu, record: CommandLine, mode: str, asked: Words) -> t.Iterator[str]:
    if not mode:
        return
    pending = lacking(current.running, asked)
    if pending:
        if current.loader and _elsewhere(current, record) and not lacking(current.written, asked):
            yield (
                f"host: {' '.join(pending)} is written for {current.loader} since an earlier boot, and the kernel was "
                "booted without it. Next step: see what boots this node, by cat /proc/cmdline"
            )
    elif mode == PT and current.in_force == OFF:
        yield NO_IOMMU
    elif current.in_force not in (mode, UNKNOWN):
        yield (
            f"host: the kernel was booted with {' '.join(asked)}, and the IOMMU of the GPUs is {current.in_force}. "
            "Next step: see grep . /sys/kernel/iommu_groups/*/type, and dmesg"
        )
