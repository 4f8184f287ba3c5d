# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The layouts that GPUs had before they were first changed, and the way back to them."""

from __future__ import annotations

import json
import typing as t

from .._base.errors import readable
from .._base.gpu import Gpu, NvmlError
from .._base.steps import Step
from .._base.text import json_data
from .plan import GpuPlan, GpuState, Place, Places

PATH = "/var/lib/gpu-node/mig.json"
Target = t.Tuple[bool, Places]


class Before(t.NamedTuple):
    """A GPU as it was before its first change, and the places of all instances that changes since then may leave."""

    enabled: bool
    places: Places
    made: t.FrozenSet[t.Tuple[str, int]] = frozenset()


Record = t.Mapping[str, Before]


def places(state: GpuState) -> Places:
    """Return the instances of a GPU."""
    return Places(
        Place(*state.shape_of(one), one.start)
        for one in sorted(state.instances, key=lambda one: one.start)
    )


def remembered(record: Record, state: GpuState, plan: GpuPlan) -> t.Dict[str, Before]:
    """Return the record as it has to be before a plan is carried out.

    A change that is killed leaves instances that were there and some of those that were to be made.
    """
    now = places(state)
    made = {(one.profile, one.start) for one in now}
    made |= {
        (one.params["profile"], one.params["start"])
        for one in plan.steps
        if one.action == "create_gi"
    }
    first = record.get(state.gpu.uuid) or Before(state.gpu.mig_current, now)
    return {**record, state.gpu.uuid: first._replace(made=frozenset(made))}


def dump(record: Record) -> str:
    """Return the record's text."""
    data = {
        uuid: {
            "enabled": one.enabled,
            "instances": [list(place) for place in one.places],
            "made": sorted(map(list, one.made)),
        }
        for uuid, one in record.items()
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def load(text: t.Optional[str], path: str) -> t.Dict[str, Before]:
    """Return the record from its text; a node without one has had no change."""
    if text is None:
        return {}
    with readable(path, "remove the file; the layouts that the GPUs have then count as your own"):
        found = {}
        for uuid, one in json_data.loads(text).items():
            there = Places(
                Place(str(profile), tuple(map(int, cis)), int(start))
                for profile, cis, start in one["instances"]
            )
            made = frozenset((str(profile), int(start)) for profile, start in one["made"])
            found[str(uuid)] = Before(one["enabled"] is True, there, made)
        return found


def unknown(config: t.Optional[str], record: Record) -> t.List[str]:
    """Say that a layout is left which an earlier version has made, which wrote no record."""
    if config is None or record:
        return []
    text = (
        "mig: the GPUs are left as they are, since nothing tells of a layout that was there before"
    )
    return [f"{text}: none was changed, or a version did it that kept no record"]


class Back(t.NamedTuple):
    """The way back, in the place of a selected layout."""

    record: Record
    label: str = "as before the first change"

    def targets(self, states: t.Sequence[GpuState]) -> t.Dict[str, Target]:
        """Return what each GPU becomes that was changed, and that nobody else has changed since."""
        ours = [one for one in states if one.gpu.uuid in self.record and not self._others(one)]
        return {one.gpu.uuid: self.target(one, ()) for one in ours}

    def target(self, state: GpuState, _gpus: t.Sequence[Gpu]) -> Target:
        """Return what one GPU becomes."""
        before = self.record[state.gpu.uuid]
        return before.enabled, before.places

    def _others(self, state: GpuState) -> t.List[str]:
        before = self.record[state.gpu.uuid]
        known = {(one.profile, one.start) for one in before.places} | before.made
        return [
            str(state.placed(one))
            for one in state.instances
            if (state.name_of(one), one.start) not in known
        ]

    def warnings(self, states: t.Sequence[GpuState]) -> t.List[str]:
        """Say which GPUs are left as they are though their layout was changed."""
        found = []
        there = {one.gpu.uuid: one for one in states}
        for uuid in self.record:
            if uuid not in there:
                found.append(f"mig: {uuid}, whose layout was changed, is not on this node any more")
            elif self._others(there[uuid]):
                found.append(
                    f"mig: GPU {there[uuid].gpu.index} ({uuid}) is left as it is:"
                    f" {', '.join(self._others(there[uuid]))} is not of a layout that gpu.node.mig has made"
                )
        return found

    def forget(self, plans: t.Sequence[GpuPlan], blocked: t.Sequence[Exception]) -> t.List[Step]:
        """Return what ends the way back, once no GPU waits for a reset or for those who use it."""
        if not self.record or blocked or any(one.pending for one in plans):
            return []
        return [Step("forget", "forget the layouts that were there before")]

    def idle_entries(self, _states: t.Sequence[GpuState]) -> t.List[str]:
        """Return nothing: there are no entries."""
        return []

    def check_broken(self, broken: t.Sequence[NvmlError]) -> None:
        """Raise the error of a GPU that does not answer, since it may be one that was changed."""
        for error in broken if self.record else ():
            error.hint = f"reset the GPU or reboot the node, or remove {PATH} to leave all layouts"
            raise error
