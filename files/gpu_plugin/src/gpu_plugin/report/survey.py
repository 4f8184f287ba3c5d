# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ask all who know something of the node's devices: driver, daemon, kubelet, MPS and labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from .._shared._base.gpu import Inventory, NvmlError
from .._shared._device_plugin.resources import HEALTHY, count
from .._shared._machine.nvml.real import inventory, open_nvml
from .._shared._machine.nvml.within import LATE, within
from .._shared._node.users.allocated import VERSION
from ..advertise import overview
from ..advertise.overview import Hardware, Holder
from ..cdi import files as cdi_state
from ..kubelet.client import KubeletSilent, PodResources, allocations
from ..kubelet.holders import read_allocations
from ..mps import state as mps_state
from ..tools import status
from . import claims
from .free_shares import free_shares


def show(
    daemon: Path,
    mig_boot: Path,
    cdi: Path,
    labels: Path,
    pods: Path,
    mps: Path | None,
    dra: Path,
    *,
    as_json: bool,
) -> int:
    """Print what is known. Returns the exit status: 3 when the daemon does not run.

    Each is asked where it is found: in files, at the kubelet's socket, and in the folders of MPS daemons, or in ``mps``
    alone.
    """
    beside = {
        "mig_boot": status.mig_boot(mig_boot),
        "cdi": cdi_state.read(cdi),
        "labels": status.load(labels),
        "dra": status.load(dra),
    }
    state = status.load(daemon)
    problem = status.staleness(daemon) if state else status.silence(daemon)
    ended = problem == status.ENDED
    hardware, driver_problem = _hardware()
    claimed = claims.uuids(beside["dra"])
    holders, allocatable, kubelet_problem = _kubelet(PodResources(pods), claimed)
    resources = state["resources"] if state else {}
    daemons = mps_state.everywhere(mps)
    rows = overview.rows(hardware, resources, holders, daemons)
    if as_json:
        unknown = {"state": "stale" if state else "unknown", "problem": problem}
        report = {
            **(state or {"state": "not_running", "resources": {}}),
            **(unknown if problem and not ended else {}),
            **beside,
            "hardware": [asdict(row) for row in rows],
            "mps_shares": free_shares(rows, daemons, holders_known=not kubelet_problem),
            "allocatable": allocatable,
            "driver_problem": driver_problem,
            "kubelet_problem": kubelet_problem,
        }
        print(json.dumps(report, indent=2))
        return 0 if state else 3
    if problem:
        print(problem, file=sys.stderr)
    if state is not None:
        print(status.describe({**state, **beside}))
    for name, known in allocatable.items():
        if name in resources and known != count(resources[name], HEALTHY):
            print(f"{name}: the kubelet can allocate {known}")
    for problem in filter(None, (driver_problem, kubelet_problem)):
        print(f"not known: {problem}")
    if rows:
        print()
        print(overview.table(rows))
    if daemons:
        print(f"\nMPS\n{mps_state.describe(mps_state.named(daemons))}")
    if beside["dra"]:
        print(f"\nDRA\n{claims.describe(beside['dra'])}")
    if beside["labels"]:
        print(f"\nLABELS\n{status.describe_labels(beside['labels'])}")
    return 0 if state else 3


def _hardware() -> tuple[list[Hardware], str | None]:
    """Return the GPUs, or their MIG devices, and what of them can't be read."""
    rows: list[Hardware] = []
    try:
        looked = within(LATE, "looking at the GPUs", _look)
    except NvmlError as error:
        return rows, str(error)
    for gpu, migs, _error in looked.gpus:
        rows.append(Hardware(str(gpu.index), gpu.name, gpu.uuid))
        rows += [Hardware(f"{gpu.index}:{mig.mig_index}", mig.profile, mig.uuid) for mig in migs]
    problems = (*looked.broken, *(view.error for view in looked.gpus if view.error))
    return rows, str(problems[0]) if problems else None


def _look() -> Inventory:
    with open_nvml() as nvml:
        return inventory(nvml)


def _kubelet(
    pods: PodResources, claimed: Mapping[str, str]
) -> tuple[dict[str, list[Holder]], dict[str, int], str | None]:
    """Return who has what, how much can be allocated, of which older kubelets do not tell, and what is not known."""
    try:
        holders = pods.holders(claimed)
    except KubeletSilent as error:
        return {}, {}, str(error)
    try:
        return holders, pods.allocatable(), None
    except KubeletSilent as error:
        return holders, {}, str(error)


def show_pods(socket: Path, *, as_json: bool) -> int:
    """Print which pods have which devices; where there is no kubelet, none. Returns the exit status. KubeletSilent."""
    allocations_found = allocations([socket]) if as_json else read_allocations([socket])
    if as_json:
        print(
            json.dumps(
                {
                    "version": VERSION,
                    "allocations": [asdict(allocation) for allocation in allocations_found],
                }
            )
        )
    else:
        print("\n".join(map(str, allocations_found)) or "no pod has a device")
    return 0
