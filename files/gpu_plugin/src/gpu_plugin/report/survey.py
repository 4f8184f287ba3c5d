# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin status``: the node's devices by the driver, the daemon, the kubelet, MPS and labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

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
    """Print what is known of the node's devices. Return the exit status: 3 if the daemon does not run.

    MPS daemons are looked for in ``mps`` alone if that is given.
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
    for unknown_part in filter(None, (driver_problem, kubelet_problem)):
        print(f"not known: {unknown_part}")
    _print_tables(rows, daemons, beside)
    return 0 if state else 3


def _print_tables(
    rows: list[overview.Row], daemons: list[dict[str, Any]], beside: Mapping[str, Any]
) -> None:
    if rows:
        print(f"\n{overview.table(rows)}")
    if daemons:
        print(f"\nMPS\n{mps_state.describe(mps_state.named(daemons))}")
    if beside["dra"]:
        print(f"\nDRA\n{claims.describe(beside['dra'])}")
    if beside["labels"]:
        print(f"\nLABELS\n{status.describe_labels(beside['labels'])}")


def _hardware() -> tuple[list[Hardware], str | None]:
    """Return the GPUs with their MIG devices, and why some can't be read, None if all can."""
    rows: list[Hardware] = []
    try:
        scanned = within(LATE, "looking at the GPUs", _look)
    except NvmlError as error:
        return rows, str(error)
    for gpu, migs, _error in scanned.gpus:
        rows.append(Hardware(str(gpu.index), gpu.name, gpu.uuid))
        rows += [Hardware(f"{gpu.index}:{mig.mig_index}", mig.profile, mig.uuid) for mig in migs]
    problems = (*scanned.broken, *(view.error for view in scanned.gpus if view.error))
    return rows, str(problems[0]) if problems else None


def _look() -> Inventory:
    with open_nvml() as nvml:
        return inventory(nvml)


def _kubelet(
    pods: PodResources, claimed: Mapping[str, str]
) -> tuple[dict[str, list[Holder]], dict[str, int], str | None]:
    """Return the holders of devices, what can be allocated, which older kubelets don't report, and any problem."""
    try:
        holders = pods.holders(claimed)
    except KubeletSilent as error:
        return {}, {}, str(error)
    try:
        return holders, pods.allocatable(), None
    except KubeletSilent as error:
        return holders, {}, str(error)


def show_pods(socket: Path, *, as_json: bool) -> int:
    """Print which pods have which devices, none if there is no kubelet. Return the exit status.

    Raises:
        KubeletSilent: if the kubelet does not answer.
    """
    if as_json:
        held = [asdict(allocation) for allocation in allocations([socket])]
        print(json.dumps({"version": VERSION, "allocations": held}))
    else:
        print("\n".join(map(str, read_allocations([socket]))) or "no pod has a device")
    return 0
