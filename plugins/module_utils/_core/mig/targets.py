# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is wanted of each GPU of a node, from a configuration or from a generated name."""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import NodeError
from ..gpu import Gpu, NvmlError
from ..pci import NVIDIA
from .config import GpuIdentity, Spec, select, wanted
from .generated import check_name, generated
from .plan import GpuState, about

Targets = t.Dict[str, t.Tuple[bool, t.Dict[str, int]]]


@dataclasses.dataclass(frozen=True)
class Selection:
    """A layout by its name; ``specs`` is None for one that the GPUs themselves generate."""

    label: str
    specs: t.Optional[t.Tuple[Spec, ...]]

    @classmethod
    def of(cls, config: t.Any, selected: str) -> Selection:
        """Check a configuration and choose from it; InputError names what is wrong."""
        if config:
            label, specs = select(config, selected)
            return cls(label, None if specs is None else tuple(specs))
        check_name(selected)
        return cls(selected, None)

    def targets(self, states: t.Sequence[GpuState]) -> Targets:
        """Return for each GPU that the layout is about, by UUID: MIG on or off, and the counts."""
        if self.specs is not None:
            specs = wanted(self.specs, [_identity(one.gpu) for one in states])
            return {uuid: (spec.enabled, dict(spec.layout)) for uuid, spec in specs.items()}
        targets = {one.gpu.uuid: self._generated(one) for one in states if one.gpu.mig_capable}
        if not targets and self.label != "all-disabled":
            raise NodeError(
                "no GPU of this node can be partitioned",
                hint="leave mig_selected empty for this node",
            )
        return targets

    def target(self, state: GpuState, gpus: t.Sequence[Gpu]) -> t.Tuple[bool, t.Dict[str, int]]:
        """Return what is wanted of one GPU that the layout is about; ``gpus`` are all of the node."""
        if self.specs is None:
            return self._generated(state)
        spec = wanted(self.specs, [_identity(one) for one in gpus])[state.gpu.uuid]
        return spec.enabled, dict(spec.layout)

    def _generated(self, state: GpuState) -> t.Tuple[bool, t.Dict[str, int]]:
        if self.label != "all-disabled" and not state.profiles and not state.gpu.mig_current:
            return True, {}  # the profiles are told once MIG mode is on, and then planned for
        with about(state.gpu):
            layout = generated(self.label, state.profiles)
        return layout is not None, layout or {}

    def idle_entries(self, states: t.Sequence[GpuState]) -> t.List[str]:
        """Return the entries that no GPU of the node matches."""
        gpus = [_identity(one.gpu) for one in states]
        return [spec.key for spec in self.specs or () if not any(spec.matches(gpu) for gpu in gpus)]

    def check_broken(self, broken: t.Sequence[NvmlError]) -> None:
        """Raise the error of a GPU that does not answer and that the layout may be about."""
        for error in broken:
            index = error.gpu_index
            if self.specs is None or index is None or any(s.may_mean(index) for s in self.specs):
                error.hint = (
                    "reset the GPU or reboot the node, or leave the GPU out of the layout's devices"
                )
                raise error


def _identity(gpu: Gpu) -> GpuIdentity:
    pci_id = gpu.pci_device_id << 16 | NVIDIA
    return GpuIdentity(gpu.index, gpu.uuid, gpu.pci_bus_id, pci_id, gpu.pci_subsystem_id, gpu.name)
