# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What NVML says of a node, beside what was declared for it: the MIG layout and the CDI specification."""

from __future__ import annotations

import dataclasses
import typing as t

from ...._base.dra.checkpoint import made
from ...._base.dra.names import CHECKPOINT as CLAIMS
from ...._base.errors import NodeError
from ...._base.gpu import Gpu, NvmlError
from ...._base.text import json_data
from ...._cdi import boot as cdi_boot
from ...._cdi.generated import NVML, differences
from ...._cdi.machine.driver_files import DriverFiles
from ...._cdi.machine.specify import lost_files, lost_nodes, specify
from ...._machine.host import Host
from ...._machine.nvml.real import Nvml, inventory
from ...._mig import boot as mig_boot
from ...._mig import label
from ...._mig.config import Declared, Selection
from ...._mig.machine.nvml import read, set_aside
from ...._mig.plan import plan_gpu
from ..cdi import SpecificationState
from ..gpus import Layout


def layout(
    host: Host, nvml: t.Optional[Nvml], gpus: t.Sequence[Gpu], broken: t.Sequence[NvmlError] = ()
) -> t.Optional[Layout]:
    """Return how the GPUs differ from the layout that is made at boot, None where none is declared."""
    name = ""
    try:
        text = host.read(mig_boot.CONFIG)
        if text is None:
            return None
        chosen = (host.read(label.CHOSEN) or "").strip()
        selection = Declared.load(text, mig_boot.CONFIG).selection(chosen)
        selection = selection.without(set_aside(host, gpus, broken))
        name = selection.label
        claimed = made(host.read(CLAIMS))
        differing = _differing(selection, nvml, gpus, claimed) if nvml else ()
        return Layout(name, tuple(differing))
    except NodeError as error:
        return Layout(name, problem=str(error))


def _differing(
    selection: Selection, nvml: Nvml, gpus: t.Sequence[Gpu], claimed: t.FrozenSet[str]
) -> t.Iterator[str]:
    read_now = (read(nvml, gpu) for gpu in gpus)
    states = [dataclasses.replace(state, processes=(), claimed=claimed) for state in read_now]
    targets = selection.targets(states)
    for state in states:
        if state.gpu.uuid in targets:
            plan = plan_gpu(state, *targets[state.gpu.uuid])
            yield from (step.summary for step in plan.steps)
            yield from filter(None, [plan.pending])


def current(host: Host, nvml: Nvml) -> SpecificationState:
    """Return how the specification differs from the one that would be written now."""
    text = host.read(cdi_boot.CONFIG)
    if text is None:
        return SpecificationState()
    try:
        options = cdi_boot.load(text, cdi_boot.CONFIG)
        files = DriverFiles(host, options.driver_root)
        desired = specify(inventory(nvml), files, options)[0].text
        there = host.read(options.path)
        lost = lost_nodes(host, there, desired, files.root) or lost_files(host, there, desired)
        if lost:
            return SpecificationState(lost=f"{lost.message}: {lost.cause}", next_step=lost.hint)
        return SpecificationState(tuple(_changes(desired, there, options.path)))
    except NodeError as error:
        return SpecificationState(unknown=str(error))


def _changes(desired: str, there: t.Optional[str], path: str) -> t.Iterator[str]:
    """Yield what containers lack, or get and should not; which devices there are is told elsewhere."""
    if not desired or there is None:
        yield from [f"{path} is not there"] if desired else []
        return
    try:
        rows = differences(json_data.loads(desired), json_data.loads(there))
    except json_data.MISREAD:
        yield "it is no specification of gpu.node"
        return
    for difference in rows:
        # Sockets come and go with their services.
        if difference["what"] != "device" and not difference["name"].startswith(
            ("/run/", "/var/run/")
        ):
            yield f"{'lacks' if difference['only'] == NVML else 'has'} the {difference['what']} {difference['name']}"
