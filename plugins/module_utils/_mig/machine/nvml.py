# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG through NVML: the state for a plan, and its steps, which are rolled back if one of them fails.

Also the record of the layouts that GPUs had before their first change, and how they are restored.
"""

from __future__ import annotations

import contextlib
import json
import time
import typing as t

from ..._base.errors import NodeError, readable
from ..._base.gpu import IN_USE, RESET_REQUIRED, Gpu, NvmlError
from ..._base.mig_profile import spread
from ..._base.steps import Step
from ..._base.text import json_data
from ..._machine.host import Host
from ..._machine.nvml.real import Nvml
from ..._node.machine.quarantine import QuarantineFile
from ..config import Selection
from ..plan import GpuPlan, GpuState, Place, Places, plan_gpu

BEFORE = "/var/lib/gpu-node/mig.json"
Target = t.Tuple[bool, Places]

HOLDERS = (
    "end what holds the GPU (see nvidia-smi and 'lsof /dev/nvidia*'; monitoring such as dcgm, and"
    " nvidia-persistenced count too), or have services stopped for it by gpu_nodes_stop_services, then run again"
)
POLL_SECONDS = 0.5
Reset = t.Callable[[Gpu], None]


def read(nvml: Nvml, gpu: Gpu) -> GpuState:
    """Return a GPU's state.

    Raises:
        NvmlError: if it does not answer.
    """
    instances = tuple(nvml.gpu_instances(gpu))
    return GpuState(
        gpu,
        tuple(nvml.gi_profiles(gpu)),
        instances,
        tuple(nvml.processes(gpu)),
        tuple(nvml.mig_devices(gpu)),
        {instance.id: nvml.ci_placements(gpu, instance.id) for instance in instances},
    )


def set_aside(host: Host, gpus: t.Sequence[Gpu], broken: t.Sequence[NvmlError]) -> t.FrozenSet[str]:
    """Return the names of the GPUs that don't answer if all of them are in quarantine, otherwise none.

    NVML reports only the index of such a GPU, so their number is compared.

    Raises:
        NodeError: if the record of the quarantine can't be read.
    """
    quarantined = QuarantineFile(host).read().gpus if broken else {}
    there = {gpu.uuid for gpu in gpus}
    silent = {uuid: device.pci for uuid, device in quarantined.items() if uuid not in there}
    if not broken or len(broken) > len(silent):
        return frozenset()
    indices = (str(device.gpu_index) for device in broken)
    return frozenset((*indices, *map(str.lower, (*silent, *silent.values()))))


def planned(
    nvml: Nvml, selection: t.Union[Selection, Back], uuid: str
) -> t.Tuple[GpuState, GpuPlan]:
    """Read one GPU and plan for it alone.

    Raises:
        NodeError: if it does not answer.
    """
    gpus = nvml.gpus()[0]
    gpu = next((candidate for candidate in gpus if candidate.uuid == uuid), None)
    if gpu is None:
        raise NodeError(f"GPU {uuid} does not answer any more")
    state = read(nvml, gpu)
    enabled, layout = selection.target(state, gpus)
    return state, plan_gpu(state, enabled, layout)


class Changes:
    """Changes GPUs; ``reset`` resets one.

    A step that fails because something is in use is tried again until ``deadline`` (of time.monotonic). ``skipped``
    has the steps that have to wait until a GPU was reset.
    """

    def __init__(self, nvml: Nvml, reset: t.Optional[Reset] = None, deadline: float = 0.0) -> None:
        self._nvml, self._reset, self._deadline = nvml, reset, deadline
        self._saved: t.Dict[str, GpuState] = {}
        self._waiting: t.Set[str] = set()
        self.skipped: t.List[Step] = []

    def carry_out(self, step: Step, state: GpuState) -> None:
        """Carry out a step on a GPU; if it fails, the GPU's first layout is restored."""
        uuid = state.gpu.uuid
        if step.action == "reset_gpu":
            self._waiting.discard(uuid)
        if uuid in self._waiting:
            self.skipped.append(step)
            return
        before = self._saved.setdefault(uuid, state)
        try:
            self._do_when_idle(state.gpu, step)
        except NodeError as error:
            restored = self._roll_back(before)
            code = error.code if isinstance(error, NvmlError) else 0
            hint = error.hint or "see the kernel's log for NVRM messages"
            cause = f"{error.cause or error.message}; {restored}"
            hint = HOLDERS if code == IN_USE else hint
            problem = f"{step.summary}: failed"
            raise NodeError(problem, cause=cause, hint=hint, nvml_code=code) from error

    def _do_when_idle(self, gpu: Gpu, step: Step) -> None:
        while True:
            try:
                self._do(self._fresh(gpu), step)
                return
            except NvmlError as error:
                if error.code != IN_USE or time.monotonic() >= self._deadline:
                    raise
            time.sleep(POLL_SECONDS)

    def _do(self, gpu: Gpu, step: Step) -> None:
        nvml, params = self._nvml, step.params
        if step.action == "set_mig_mode":
            self._set_mode(gpu, params["on"])
        elif step.action == "reset_gpu":
            if self._reset is None:
                raise NodeError("no way to reset a GPU")
            self._reset(gpu)
            current = self._fresh(gpu)
            if current.mig_current != current.mig_pending:
                raise NodeError("the reset did not bring the MIG mode")
        elif step.action == "destroy_gi":
            nvml.destroy_instance(gpu, params["gi"])
        elif step.action == "destroy_ci":
            nvml.destroy_compute_instance(gpu, params["gi"], params["ci"])
        elif step.action == "create_ci":
            nvml.create_compute_instance(gpu, params["gi"], params["slices"], params["start"])
        else:
            self._create(gpu, params["profile"], params["start"], params["cis"])

    def _create(self, gpu: Gpu, name: str, start: int, cis: t.Sequence[int]) -> None:
        nvml = self._nvml
        profile = next(profile for profile in nvml.gi_profiles(gpu) if profile.name == name)
        gi = nvml.create_instance(gpu, profile, start)
        placements = spread(cis, nvml.ci_placements(gpu, gi))
        if placements is None:
            raise NodeError(f"{name} has no room for compute instances of {cis} slices")
        for slices, at in placements:
            nvml.create_compute_instance(gpu, gi, slices, at)

    def _set_mode(self, gpu: Gpu, on: bool) -> None:
        """Set MIG mode; the driver also succeeds if it only notes the mode as pending."""
        status = self._nvml.set_mig_mode(gpu, on)
        if status not in (0, RESET_REQUIRED):
            with contextlib.suppress(NvmlError):  # the first error is the one to report
                self._nvml.set_mig_mode(gpu, gpu.mig_current)
            raise NvmlError(status, "setting MIG mode")
        current = self._fresh(gpu)
        if on not in (current.mig_current, current.mig_pending):
            raise NodeError("the driver did not take note of the MIG mode")
        if current.mig_current != on:
            self._waiting.add(gpu.uuid)

    def _fresh(self, gpu: Gpu) -> Gpu:
        """Return a GPU as it is now: a mode change makes older readings stale."""
        by_uuid = {current.uuid: current for current in self._nvml.gpus()[0]}
        return by_uuid.get(gpu.uuid, gpu)

    def _roll_back(self, before: GpuState) -> str:
        """Restore an earlier layout of a GPU, and return whether that succeeded, as a sentence."""
        try:
            if before.gpu.mig_current:
                self._restore(before)
            else:
                nvml, current = self._nvml, self._fresh(before.gpu)
                for instance in nvml.gpu_instances(current):
                    nvml.destroy_instance(current, instance.id)
                if current.mig_current or current.mig_pending:
                    nvml.set_mig_mode(current, False)
        except NodeError as error:
            return f"its previous layout could not be restored: {error.message}: {error.cause}"
        return "its previous layout was restored"

    def _restore(self, before: GpuState) -> None:
        nvml, gpu = self._nvml, self._fresh(before.gpu)
        if not gpu.mig_current:
            self._set_mode(gpu, True)
            gpu = self._fresh(gpu)
        have = {(gi.profile_id, gi.start): gi for gi in nvml.gpu_instances(gpu)}
        desired = {(gi.profile_id, gi.start): gi for gi in before.instances}
        profiles = {profile.id: profile for profile in before.profiles}
        for place in have.keys() - desired.keys():
            nvml.destroy_instance(gpu, have[place].id)
        for (profile_id, start), instance in desired.items():
            there = have.get((profile_id, start))
            gi = there.id if there else nvml.create_instance(gpu, profiles[profile_id], start)
            current = {(ci.start, ci.slices): ci.id for ci in (there.cis if there else ())}
            goals = {(ci.start, ci.slices) for ci in instance.cis}
            for span in current.keys() - goals:
                nvml.destroy_compute_instance(gpu, gi, current[span])
            for at, slices in sorted(goals - current.keys()):
                nvml.create_compute_instance(gpu, gi, slices, at)


class Before(t.NamedTuple):
    """A GPU as it was before its first change, and the places of all instances that later changes may have left."""

    enabled: bool
    places: Places
    made: t.FrozenSet[t.Tuple[str, int]] = frozenset()


Record = t.Mapping[str, Before]


def places(state: GpuState) -> Places:
    """Return the instances of a GPU."""
    instances = sorted(state.instances, key=lambda instance: instance.start)
    return Places(Place(*state.shape_of(instance), instance.start) for instance in instances)


def remembered(record: Record, state: GpuState, plan: GpuPlan) -> t.Dict[str, Before]:
    """Return the record that has to be written before a plan is carried out.

    A change that is killed leaves instances that were there and some of the new ones.
    """
    current = places(state)
    made = {(place.profile, place.start) for place in current}
    new = (step.params for step in plan.steps if step.action == "create_gi")
    made |= {(place["profile"], place["start"]) for place in new}
    first = record.get(state.gpu.uuid) or Before(state.gpu.mig_current, current)
    return {**record, state.gpu.uuid: first._replace(made=frozenset(made))}


def dump_before(record: Record) -> str:
    """Return the record's text."""
    data = {
        uuid: {
            "enabled": before.enabled,
            "instances": [list(place) for place in before.places],
            "made": sorted(map(list, before.made)),
        }
        for uuid, before in record.items()
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def load_before(text: t.Optional[str], path: str) -> t.Dict[str, Before]:
    """Return the record from its text; a node without one has had no change."""
    if text is None:
        return {}
    with readable(path, "remove the file; the layouts that the GPUs have then count as your own"):
        result = {}
        for uuid, load in json_data.loads(text).items():
            there = Places(
                Place(str(profile), tuple(map(int, cis)), int(start))
                for profile, cis, start in load["instances"]
            )
            made = frozenset((str(profile), int(start)) for profile, start in load["made"])
            result[str(uuid)] = Before(load["enabled"] is True, there, made)
        return result


class Back(t.NamedTuple):
    """The layouts before the first change, in the place of a selected layout."""

    record: Record
    label: str = "as before the first change"

    def without(self, _names: t.Collection[str]) -> Back:
        """Return the same, since GPUs that don't answer are not changed."""
        return self

    def targets(self, states: t.Sequence[GpuState]) -> t.Dict[str, Target]:
        """Return the targets of the GPUs that we changed and that no other program has changed since."""
        return {
            state.gpu.uuid: self.target(state, ())
            for state in states
            if state.gpu.uuid in self.record and not self._foreign_instances(state)
        }

    def target(self, state: GpuState, _gpus: t.Sequence[Gpu]) -> Target:
        """Return the target of one GPU."""
        before = self.record[state.gpu.uuid]
        return before.enabled, before.places

    def _foreign_instances(self, state: GpuState) -> t.List[str]:
        before = self.record[state.gpu.uuid]
        known = {(place.profile, place.start) for place in before.places} | before.made
        return [
            str(state.placed(instance))
            for instance in state.instances
            if (state.name_of(instance), instance.start) not in known
        ]

    def warnings(self, states: t.Sequence[GpuState], config: t.Optional[str]) -> t.List[str]:
        """Return warnings about GPUs whose changed layout stays; ``config`` is the file for the next boot."""
        if config is not None and not self.record:
            text = (
                "mig: the GPUs are left as they are, since there is no record of an earlier layout"
            )
            return [f"{text}: none was changed, or a version did it that kept no record"]
        result = []
        there = {state.gpu.uuid: state for state in states}
        for uuid in self.record:
            foreign = self._foreign_instances(there[uuid]) if uuid in there else []
            if uuid not in there:
                result.append(
                    f"mig: {uuid}, whose layout was changed, is not on this node any more"
                )
            elif foreign:
                result.append(
                    f"mig: GPU {there[uuid].gpu.index} ({uuid}) is left as it is: {', '.join(foreign)} is not of a"
                    " layout that gpu.node.mig has made"
                )
        return result

    def forget(self, plans: t.Sequence[GpuPlan], blocked: t.Sequence[Exception]) -> t.List[Step]:
        """Return the step that removes the record, once no GPU waits for a reset or until it is idle."""
        if not self.record or blocked or any(plan.pending for plan in plans):
            return []
        return [Step("forget", "forget the layouts that were there before")]

    def idle_entries(self, _states: t.Sequence[GpuState]) -> t.List[str]:
        """Return an empty list: there are no entries."""
        return []

    def check_broken(self, broken: t.Sequence[NvmlError]) -> None:
        """Raise the error of a GPU that does not answer, since its layout may have been changed."""
        for error in broken if self.record else ():
            error.hint = (
                f"reset the GPU or reboot the node, or remove {BEFORE} to leave all layouts"
            )
            raise error
