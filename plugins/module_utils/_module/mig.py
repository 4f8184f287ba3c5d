# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.mig."""

from __future__ import annotations

import contextlib
import typing as t

from .._core.errors import InputError, NodeError
from .._core.mig_config import GpuIdentity, Spec, generated, select, wanted
from .._core.mig_plan import GpuPlan, GpuState, plan_gpu
from .._core.steps import Plan, Step
from .._host.api import Host
from .._nvml.api import IN_USE, Gpu, Nvml, NvmlError
from .._nvml.real import open_nvml

LOCK = "/run/gpu-node/mig.lock"
LOCK_SECONDS = 60
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "config": {"type": "dict"},
        "selected": {"type": "str", "default": ""},
    },
    "supports_check_mode": True,
}
State = t.Optional[t.List[GpuState]]


class MigCapability:
    """Keeps the GPUs in a MIG layout. The state is None where NVML is not there yet."""

    name = "mig"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._check_mode = host, check_mode
        self._specs: t.Optional[t.List[Spec]] = None
        self._label: str = params["selected"]
        if params["config"]:
            self._label, self._specs = select(params["config"], params["selected"])
        elif not self._label.startswith("all-"):
            raise InputError.of(
                "selected",
                self._label,
                "all-disabled, all-balanced or all-<profile> without config",
            )
        self._stack = contextlib.ExitStack()
        self._nvml: t.Optional[Nvml] = None
        self._last: t.Dict[str, GpuState] = {}
        self._saved: t.Dict[str, GpuState] = {}
        self._plans: t.List[GpuPlan] = []

    def observe(self) -> State:
        """Read every GPU; the lock is held from the first observation on."""
        if self._nvml is None:
            if not self._check_mode:
                self._stack.enter_context(self._host.lock(LOCK, timeout=LOCK_SECONDS))
            try:
                self._nvml = self._stack.enter_context(open_nvml())
            except NvmlError as error:
                if self._check_mode:
                    return None
                error.hint = "bring up the driver first (gpu.node.nvidia_driver)"
                raise
        gpus, broken = self._nvml.gpus()
        if broken:
            raise broken[0]
        states = [self._state(self._nvml, gpu) for gpu in gpus]
        self._last = {one.gpu.uuid: one for one in states}
        return states

    @staticmethod
    def _state(nvml: Nvml, gpu: Gpu) -> GpuState:
        return GpuState(
            gpu,
            tuple(nvml.gi_profiles(gpu)),
            tuple(nvml.gpu_instances(gpu)),
            tuple(nvml.processes(gpu)),
        )

    def plan(self, state: State) -> Plan:
        """Plan for every GPU that the layout is about; refuse before anything is changed."""
        if state is None:
            summary = f"partition the GPUs as {self._label} once the driver is loaded"
            warning = "NVML is not there yet: whether the layout fits is known only after the driver is installed"
            return Plan((Step("partition", summary),), "", f"{self._label}\n", warnings=(warning,))
        targets = self._targets(state)
        plans = [plan_gpu(one, *targets[one.gpu.uuid]) for one in state if one.gpu.uuid in targets]
        self._plans = plans
        return Plan(
            tuple(step for one in plans for step in one.steps),
            "".join(f"{one.before}\n" for one in plans),
            "".join(f"{one.after}\n" for one in plans),
            reboot_required=tuple(one.pending for one in plans if one.pending),
            more=any(one.more for one in plans),
        )

    def _targets(self, state: t.Sequence[GpuState]) -> t.Dict[str, t.Tuple[bool, t.Dict[str, int]]]:
        if self._specs is not None:
            identities = [
                GpuIdentity(one.gpu.index, one.gpu.uuid, one.gpu.pci_bus_id, one.gpu.pci_device_id)
                for one in state
            ]
            return {
                uuid: (spec.enabled, dict(spec.layout))
                for uuid, spec in wanted(self._specs, identities).items()
            }
        targets = {}
        for one in state:
            if one.gpu.mig_capable:
                offers = {profile.name: profile.max_count for profile in one.profiles}
                most = max((profile.slices for profile in one.profiles), default=0)
                layout = generated(self._label, offers, most)
                targets[one.gpu.uuid] = (layout is not None, layout or {})
        if not targets and self._label != "all-disabled":
            raise NodeError(
                "no GPU of this node can be partitioned",
                hint="leave mig_selected empty for this node",
            )
        return targets

    def apply(self, step: Step) -> None:
        """Carry out a step; when it fails, the GPU gets its previous layout back."""
        nvml, uuid = t.cast(Nvml, self._nvml), step.params["gpu"]
        before = self._saved.setdefault(uuid, self._last[uuid])
        try:
            self._do(nvml, before, step)
        except NvmlError as error:
            undone = self._roll_back(nvml, before)
            raise NodeError(
                f"{step.summary}: failed",
                cause=f"{error.cause}; {undone}",
                hint="find what holds the GPU (nvidia-smi), then run again",
                nvml_code=error.code,
            ) from error

    @staticmethod
    def _do(nvml: Nvml, state: GpuState, step: Step) -> None:
        params, gpu = step.params, state.gpu
        if step.action == "set_mig_mode":
            status = nvml.set_mig_mode(gpu, params["on"])
            if status == IN_USE:
                nvml.set_mig_mode(gpu, not params["on"])
                raise NvmlError(status, "setting MIG mode")
        elif step.action == "destroy_gi":
            nvml.destroy_instance(_fresh(nvml, gpu), params["gi"])
        elif step.action == "create_ci":
            nvml.create_compute_instance(_fresh(nvml, gpu), params["gi"])
        else:
            profile = next(one for one in nvml.gi_profiles(gpu) if one.name == params["profile"])
            nvml.create_instance(_fresh(nvml, gpu), profile, params["start"])

    @staticmethod
    def _roll_back(nvml: Nvml, before: GpuState) -> str:
        """Bring a GPU back to an earlier layout as far as it lets itself; say how far."""
        try:
            gpu = _fresh(nvml, before.gpu)
            kept = {(one.profile_id, one.start): one for one in nvml.gpu_instances(gpu)}
            wanted_places = {(one.profile_id, one.start) for one in before.instances}
            for place, instance in kept.items():
                if place not in wanted_places:
                    nvml.destroy_instance(gpu, instance.id)
            for instance in before.instances:
                there = kept.get((instance.profile_id, instance.start))
                if there is not None and instance.cis and not there.cis:
                    nvml.create_compute_instance(gpu, there.id)
                if there is None:
                    profile = next(one for one in before.profiles if one.id == instance.profile_id)
                    nvml.create_instance(gpu, profile, instance.start)
            if gpu.mig_current != before.gpu.mig_current:
                nvml.set_mig_mode(gpu, before.gpu.mig_current)
        except NvmlError as error:
            return f"its previous layout could not be restored: {error.cause}"
        return "its previous layout was restored"

    def result(self, state: State, plan: Plan) -> t.Dict[str, t.Any]:
        """Report the layout of every GPU."""
        return {
            "selected": self._label,
            "gpus": [
                {
                    "index": one.gpu.index,
                    "uuid": one.gpu.uuid,
                    "mig_enabled": one.gpu.mig_current,
                    "instances": [
                        {
                            "id": gi.id,
                            "profile": one.name_of(gi),
                            "start": gi.start,
                            "size": gi.size,
                        }
                        for gi in one.instances
                    ],
                }
                for one in state or []
            ],
            "kept": sum(one.kept for one in self._plans),
        }


def _fresh(nvml: Nvml, gpu: Gpu) -> Gpu:
    """Return a GPU as it is now: a mode change makes older readings stale."""
    return next((one for one in nvml.gpus()[0] if one.uuid == gpu.uuid), gpu)
