# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What NVML tells of GPUs' faults, each asked by its PCI address and none for longer than a GPU may be slow."""

from __future__ import annotations

import contextlib
import functools
import typing as t
from concurrent.futures import Future

from ..._base.gpu import (
    GPU_IS_LOST,
    NOTHING_TOLD,
    RESET_REQUIRED,
    TIMEOUT,
    FaultSigns,
    Links,
    NvmlError,
)
from ..._machine.nvml import faults
from ..._machine.nvml.readings import links
from ..._machine.nvml.real import Nvml, open_nvml
from ..._machine.nvml.within import LATE, all_within, within
from ..._node.users.allocated import Devices
from ..signs import ANSWERS_BY_ERROR, Answer, Virtual

HUNG = 60.0  # seconds without an answer after which a GPU counts as hung, as for the device plugin
MODES: t.Mapping[int, Virtual] = {
    0: Virtual.NONE,
    1: Virtual.PASSTHROUGH,
    2: Virtual.VGPU,
    3: Virtual.NONE,  # hosts of vGPUs
    4: Virtual.NONE,
}


class NvmlAnswer(t.NamedTuple):
    """What a GPU has told of itself before the error, where there was one; None is what it did not tell."""

    number: t.Optional[int] = None
    serial: str = ""
    signs: FaultSigns = NOTHING_TOLD
    virtual: t.Optional[Virtual] = None
    nvlink: t.Optional[int] = None
    devices: t.Optional[Devices] = None
    links: t.Optional[Links] = None
    error: t.Optional[NvmlError] = None

    @property
    def answer(self) -> Answer:
        """Return how NVML answers for the GPU."""
        return ANSWERS_BY_ERROR.get(self.error.code, Answer.YES) if self.error else Answer.YES


def ask(addresses: t.Iterable[str]) -> t.Dict[str, NvmlAnswer]:
    """Return what each GPU tells.

    Raises:
        NvmlError: if NVML itself can't be asked.
    """
    asked = tuple(addresses)
    opening = open_nvml()
    try:
        nvml = within(HUNG, "starting NVML", opening.__enter__)
    except NvmlError as error:
        if error.code != TIMEOUT:
            raise
        return dict.fromkeys(asked, NvmlAnswer(error=error))
    asks = {address: functools.partial(_asked, nvml, address) for address in asked}
    outcomes = all_within(HUNG, "reading the signs of a GPU's faults", asks)
    answers = {name: _answered(outcome) for name, outcome in outcomes.items()}
    if all(gpu.answer is not Answer.NEVER for gpu in answers.values()):
        with contextlib.suppress(NvmlError):
            within(LATE, "ending NVML", lambda: opening.__exit__(None, None, None))
    return answers


def _answered(outcome: Future[NvmlAnswer]) -> NvmlAnswer:
    try:
        return outcome.result()
    except NvmlError as error:
        return NvmlAnswer(error=error)


def _asked(nvml: Nvml, address: str) -> NvmlAnswer:
    fields: t.Dict[str, t.Any] = {}
    try:
        handle = faults.at(address)
        fields["number"], fields["serial"] = faults.named(handle)
        fields["signs"] = faults.fault_signs(handle)
    except NvmlError as error:
        return NvmlAnswer(**fields, error=error)
    try:
        mode = faults.virtualization(handle)
        fields["virtual"] = None if mode is None else MODES.get(mode)
        fields["nvlink"] = faults.nvlink(handle)
        gpu = nvml.gpu(fields["number"])
        fields["links"] = links(gpu)
        fields["devices"] = Devices(
            gpu, tuple(nvml.gpu_instances(gpu)), tuple(nvml.mig_devices(gpu))
        )
    except NvmlError as error:
        # Of these questions an error says little about the GPU, unless it is one of these two.
        fields["error"] = error if error.code in (GPU_IS_LOST, RESET_REQUIRED) else None
    except LookupError:  # instances went while they were read
        pass
    return NvmlAnswer(**fields)
