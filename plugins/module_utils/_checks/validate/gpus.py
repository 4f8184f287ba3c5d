# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs: all there, and partitioned as declared."""

from __future__ import annotations

import typing as t

from ..._base.gpu import Gpu
from ..._node.gpu_record import NOT_RECORDED, Gpus
from ..._node.quarantine import EMPTY, Quarantine
from .check import FAILED as FAILED_CHECK
from .check import MOST, WARNING, Check, because, few, judged, skipped

GPUS, QUARANTINE, MIG, MIG_BOOT = "GPUs", "quarantine", "MIG", "MIG at boot"
FAILED = "failed"
AGAIN = "fix the cause, then run the playbook gpu.node.mig"


class Layout(t.NamedTuple):
    """The MIG layout that was declared: its name, how the GPUs differ from it, or why that is not known."""

    name: str
    differences: t.Tuple[str, ...] = ()
    problem: str = ""


def count(
    on_bus: int,
    answering: int,
    wanted: int = -1,
    lost: t.Sequence[str] = (),
    recorded: Gpus = NOT_RECORDED,
) -> Check:
    """Check that all GPUs of the bus answer, or where the user says how many there must be, that those do.

    ``wanted`` is -1 where nobody says; ``lost`` says why others do not answer.
    """
    asked = wanted >= 0
    complete, missing = answering == on_bus, str(recorded)
    if answering == wanted or (complete and not asked and not missing):
        return Check(GPUS)
    words = f"{answering} of {on_bus} GPUs on the PCI bus answer{because(lost)}"
    if not asked and missing:
        told = missing if complete else f"{words}; {missing}"
        return judged(GPUS, told, recorded.next_step)
    if not asked:
        step = "see the kernel's log for the missing ones (journalctl -k -g NVRM)"
        return judged(GPUS, words, step)
    step = "correct validate_gpu_count, or look for the missing GPUs with lspci -d 10de:"
    words = "; ".join(filter(None, (words, missing)))
    return judged(GPUS, f"validate_gpu_count asks for {wanted}, and {words}", step)


class SetAside(t.NamedTuple):
    """What is in quarantine, which of it is elsewhere by now, and why it is not known."""

    found: Quarantine = EMPTY
    elsewhere: t.Tuple[str, ...] = ()
    problem: str = ""


NOTHING_ASIDE = SetAside()


def without(
    found: Check, aside: Quarantine, there: t.Sequence[Gpu], recorded: Gpus, wanted: int
) -> Check:
    """Return the check of the count, as a warning where it holds without what is set aside and does not answer.

    ``there`` are the GPUs that answer.
    """
    answering = {one.pci_bus_id for one in there}
    gone = {one.pci for one in aside.gpus.values()} - answering
    gone &= {*recorded.there, *recorded.known}
    if found.holds or not gone:
        return found
    known, on_bus = (
        tuple(one for one in each if one not in gone) for each in (recorded.known, recorded.there)
    )
    rest = Gpus(known, on_bus, recorded.meant)
    others = max(0, wanted - len(gone)) if wanted >= 0 else -1
    holds = count(len(on_bus), len(there), others, (), rest).holds
    return found._replace(state=WARNING) if holds else found


def quarantine(aside: SetAside) -> t.List[Check]:
    """Return what there is to say of what is set aside, which is meant to be and so no more than a warning."""
    if aside.problem:
        return [Check(QUARANTINE, FAILED_CHECK, *_split(aside.problem))]
    named = {"the node": aside.found.node} if aside.found.node else {}
    entries = [f"{name} is {one}" for name, one in {**named, **aside.found.gpus}.items()]
    if not entries:
        return []
    words = "; ".join(
        [*entries[:MOST], *([f"and {len(entries) - MOST} more"] if entries[MOST:] else [])]
    )
    return [
        judged(QUARANTINE, words, "run gpu.node.release for what is repaired", fails=False),
        *(judged(QUARANTINE, *_split(one), fails=False) for one in aside.elsewhere),
    ]


def _split(text: str) -> t.Tuple[str, str]:
    """Return a text that has a next step, and that."""
    cause, _words, step = text.partition(". Next step: ")
    return cause, step


def layout(found: t.Optional[Layout], unread: str) -> Check:
    """Check that the GPUs are as the declared layout says; ``unread`` is why they could not be read."""
    if found is None:
        return skipped(MIG, "no MIG layout is declared")
    if found.problem:
        words = f"the layout {found.name or 'that was declared'} can't be compared: {found.problem}"
        return judged(MIG, words, AGAIN)
    if unread:
        return skipped(MIG, unread)
    if not found.differences:
        return Check(MIG)
    words = f"the GPUs are not in the layout {found.name}{few(found.differences)}"
    return judged(MIG, words, "run the playbook gpu.node.mig")


def at_boot(state: str, problems: t.Sequence[str]) -> Check:
    """Check that the layout was made at boot."""
    if not state:
        return skipped(MIG_BOOT, "no layout was made at the last boot")
    words = f"gpu-mig.service failed at boot{because(problems)}" if state == FAILED else ""
    return judged(MIG_BOOT, words, AGAIN)
