# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Memory limits of cgroups, from 615 on, as "MPS v3 Memory Partitioning" and the structs' pages describe them.

The kernel keeps them in files where it has the controller dmem, and the driver for itself where not.
"""

from __future__ import annotations

import struct
from pathlib import Path

from ..call import Call, api
from ..codes import INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, NvError
from ..state import Gpu

MAX = 0xFFFFFFFFFFFFFFFF


@api("nvmlDeviceSetMemoryLimits_v1")
def set_limits(call: Call) -> None:
    gpu, group = _asked(call)
    call.root_only()
    _name, soft, hard = struct.unpack("<QQQ", call.inputs[1])
    if _has_dmem(group):
        if not (group / "dmem.max").exists():
            raise NvError(NOT_FOUND)
        for name, value in (("dmem.max", hard), ("dmem.min", soft)):
            _write(group / name, _region(gpu), value)
    else:
        call.engine.limits[gpu.board.uuid, group.stat().st_ino] = (soft, hard)


@api("nvmlDeviceGetMemoryLimits_v1")
def get_limits(call: Call) -> None:
    gpu, group = _asked(call)
    soft, hard = _read(call, gpu, group)
    call.put(1, call.inputs[1][:8] + struct.pack("<QQQ", soft, hard, 0))


def _asked(call: Call) -> tuple[Gpu, Path]:
    call.need(1)
    if call.is_mig():
        raise NvError(NOT_SUPPORTED)
    gpu, path = call.gpu(mig_too=False), call.text_behind(1)
    if not path.startswith("/"):
        raise NvError(INVALID_ARGUMENT)
    if not Path(path).is_dir():
        raise NvError(NOT_FOUND)
    return gpu, Path(path)


def _has_dmem(group: Path) -> bool:
    """The controller shows what there is at the root of the hierarchy."""
    return any((one / "dmem.capacity").exists() for one in (group, *group.parents))


def _read(call: Call, gpu: Gpu, group: Path) -> tuple[int, int]:
    """A group without files reads as its nearest ancestor that has them."""
    if not _has_dmem(group):
        try:
            return call.engine.limits[gpu.board.uuid, group.stat().st_ino]
        except KeyError:
            raise NvError(NOT_FOUND) from None
    for one in (group, *group.parents):
        if (one / "dmem.max").exists():
            hard, soft = (_lines(one / name).get(_region(gpu)) for name in ("dmem.max", "dmem.min"))
            return 0 if soft is None else soft, MAX if hard is None else hard
    return 0, MAX


def _region(gpu: Gpu) -> str:
    return f"nvidia/0000{gpu.board.pci}/vidmem"


def _lines(path: Path) -> dict[str, int]:
    found = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return {name: MAX if value == "max" else int(value) for name, value in found}


def _write(path: Path, region: str, value: int) -> None:
    lines = {**_lines(path), region: value}
    words = {name: "max" if one == MAX else str(one) for name, one in lines.items()}
    path.write_text("".join(f"{name} {one}\n" for name, one in words.items()))
