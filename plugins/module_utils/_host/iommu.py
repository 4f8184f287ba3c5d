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


def plan(now: Iommu, kept: CommandLine, mode: str, asked: Words, guests: t.Sequence[str]) -> Plan:
    """Return the plan; without a mode, to what there was before. ``asked`` are the words that the mode takes.

    NodeError: it can't be carried out. ``guests`` are those that have devices, or might.
    """
    if mode and now.none and not kept.added:
        return Plan(before={}, after={}, warnings=(NO_IOMMU,))
    theirs = edited(edited(now.written, (), kept.added), kept.replaced, ())
    added = lacking(theirs, asked)
    change = set(added) != set(kept.added) or bool(lacking(now.written, asked)) or now.lost
    pending = lacking(now.running, asked)
    if asked and not now.loader and not pending:
        change = False  # who boots this node some other way has seen to it
    if change or pending:
        _check(now, mode, asked, theirs, guests)
    removed = tuple(one for one in kept.added if one not in added)
    reasons = _reasons(now, kept, asked, removed, change=change)
    steps = []
    if change:
        replaced = same_keys(theirs, added) if now.replaces else ()
        back = tuple(one for one in kept.replaced if one not in replaced)
        more = (*added, *back)
        words = [f"add {' '.join(more)}"] if more else []
        words += [f"remove {' '.join(removed)}"] if removed else []
        line = CommandLine(added, replaced, now.boot if added else "")
        params = {"kept": line, "add": more, "remove": removed}
        summary = f"{' and '.join(words)} in the kernel command line of {now.loader}"
        steps.append(Step(WRITE, summary, params, ("reboot",)))
    if reasons != now.noted:
        summary = "note that a reboot is needed" if reasons else "note that no reboot is needed"
        steps.append(Step(NOTE, summary, {"lines": reasons}))
    after = edited(now.written, added, removed)
    return Plan(
        tuple(steps),
        {"command line": " ".join(now.written)} if steps else {},
        {"command line": " ".join(after)} if steps else {},
        reboot_required=reasons,
        warnings=tuple(_warnings(now, kept, mode, asked)),
    )


def _reasons(now: Iommu, kept: CommandLine, asked: Words, removed: Words, *, change: bool) -> Words:
    """Return why a reboot is needed, in words."""
    pending = lacking(now.running, asked)
    left = [one for one in removed if one in now.running]
    if asked:
        if pending and (change or not _elsewhere(now, kept)):
            return (f"iommu: the kernel was booted without {' '.join(pending)}",)
        return ()
    if change:
        return (f"iommu: the kernel was booted with {' '.join(left)}",) if left else ()
    return now.noted  # a boot forgets it


def _elsewhere(now: Iommu, kept: CommandLine) -> bool:
    """Tell whether what was written in an earlier boot is not what this one was booted with."""
    return kept.boot not in ("", now.boot)


def _check(now: Iommu, mode: str, asked: Words, theirs: Words, guests: t.Sequence[str]) -> None:
    what = f"iommu can't be {mode}" if mode else "iommu can't be given back"
    if not now.loader:
        by_hand = f"have what boots this node add {' '.join(asked)}, reboot, and run again"
        raise NodeError(
            what,
            cause=f"how this node's kernel command line is written is not known: {now.why}",
            hint=f"{by_hand}; or set host_iommu to unmanaged" if asked else "remove it by hand",
        )
    if mode == OFF and guests:
        raise NodeError(
            what,
            cause=f"this host hands devices to guests, who need the IOMMU: {', '.join(guests)}",
            hint="set host_iommu to pt or unmanaged",
        )
    forbidden = set(map(parameter, AGAINST_PT)) if mode == PT else set()
    against = [word for word in theirs if parameter(word) in forbidden]
    if against:
        raise NodeError(
            what,
            cause=f"the kernel command line has {' '.join(against)} from somebody else, and nothing takes that back",
            hint=f"remove it in {now.loader}, or set host_iommu to unmanaged",
        )


def _warnings(now: Iommu, kept: CommandLine, mode: str, asked: Words) -> t.Iterator[str]:
    if not mode:
        return
    pending = lacking(now.running, asked)
    if pending:
        if now.loader and _elsewhere(now, kept) and not lacking(now.written, asked):
            yield (
                f"host: {' '.join(pending)} is written for {now.loader} since an earlier boot, and the kernel was "
                "booted without it. Next step: see what boots this node, by cat /proc/cmdline"
            )
    elif mode == PT and now.in_force == OFF:
        yield NO_IOMMU
    elif now.in_force not in (mode, UNKNOWN):
        yield (
            f"host: the kernel was booted with {' '.join(asked)}, and the IOMMU of the GPUs is {now.in_force}. "
            "Next step: see grep . /sys/kernel/iommu_groups/*/type, and dmesg"
        )
