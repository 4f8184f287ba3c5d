# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs evidence is about: those that answer, and those that only the PCI bus or a case has."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import InputError
from ..case import RepairCase, RepairCases
from .state import Gpu, Observed

UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,80}")
ADDRESS = re.compile(r"(?:[0-9a-f]{4,8}:)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
ANY = "a UUID, PCI address, serial number or index of a GPU of this node"


def together(told: t.Sequence[Gpu], bus: t.Iterable[str], cases: RepairCases) -> t.Tuple[Gpu, ...]:
    """Return the GPUs of the node in the order of their PCI addresses, and behind them those that only cases have.

    ``told`` are those that nvidia-smi tells of, ``bus`` the addresses on the PCI bus.
    """
    found = {one.pci: one for one in told}
    case_at = {case.pci: uuid for uuid, case in cases.gpus.items() if case.pci and case.is_open}
    for address in bus:
        uuid = case_at.get(address, "")
        found.setdefault(address, _of_case(uuid, cases.gpus.get(uuid), address))
    known = {one.uuid for one in found.values()}
    rest = [
        _of_case(uuid, case, case.pci) for uuid, case in cases.gpus.items() if uuid not in known
    ]
    return (*(found[address] for address in sorted(found)), *rest)


def _of_case(uuid: str, case: t.Optional[RepairCase], address: str) -> Gpu:
    return Gpu(uuid, address, {"serial": case.serial} if case and case.serial else {})


def select(names: t.Sequence[str], observed: Observed) -> t.Tuple[Gpu, ...]:
    """Return the GPUs that are named, without names all that the node has. InputError: it can't have one of them."""
    here = tuple(one for one in observed.gpus if not _gone(one, observed))
    if not names:
        return here
    found = (_named(name.strip(), observed, here) for name in names)
    return tuple({one[:2]: one for one in found}.values())


def _gone(gpu: Gpu, observed: Observed) -> bool:
    """Tell whether only a closed case has a GPU."""
    case = observed.cases.gpus.get(gpu.uuid)
    return len(gpu.facts) <= 1 and gpu.pci not in observed.silent and not (case and case.is_open)


def _named(name: str, observed: Observed, here: t.Sequence[Gpu]) -> Gpu:
    address = ADDRESS.fullmatch(name.lower())
    for gpu in observed.gpus:
        at = ADDRESS.fullmatch(gpu.pci)
        same = address and at and at[1] == address[1] and _domain(gpu.pci) == _domain(name)
        if name and (name in (gpu.uuid, gpu.serial) or same):
            return gpu
    if name.isdecimal() and len(name) < 4 and int(name) < len(here):
        return here[int(name)]
    if UUID.fullmatch(name) and (observed.silent or not observed.gpus):
        return Gpu(name)  # it may be one that does not answer
    known = ", ".join(str(one) for one in observed.gpus[:16]) or "none is found"
    raise InputError.of("gpus", name, f"{ANY}: {known}")


def _domain(address: str) -> int:
    return int(address.rpartition(":")[0].rpartition(":")[0] or "0", 16)
