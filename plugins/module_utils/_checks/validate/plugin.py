# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Kubernetes' side: the device plugin serves, and the kubelet has what it offers."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError
from .check import Check, because, few, judged, skipped
from .containers import Answer
from .daemon import SERVING, MigReport, PluginReport

PLUGIN, REGISTRATION, ALLOCATABLE = "device plugin", "registration", "allocatable"
DEVICES, MPS, HEALTH = "devices", "MPS", "health"
NAMES = (PLUGIN, REGISTRATION, ALLOCATABLE, DEVICES, MPS, HEALTH)
LOG = "see the log of gpu-device-plugin.service"


class Kubelet(t.NamedTuple):
    """Whether there is or was a kubelet that knows device plugins, and whether one must have the GPUs."""

    there: bool = False
    required: bool = False


def checks(
    report: PluginReport,
    migs: t.Optional[t.Sequence[str]],
    kubelet: Kubelet,
    unreached: t.Optional[NodeError] = None,
    client: t.Optional[Answer] = None,
) -> t.List[Check]:
    """Return the checks of the device plugin; ``migs`` are the MIG devices, None where they are not known.

    ``unreached`` is why nothing that it gives out reaches a container, ``client`` what one with a share of MPS says.
    """
    serves = report.state == SERVING
    silent = f"the device plugin is not serving ({report.problem or 'it does not run'})"
    plugin = judged(PLUGIN, "" if serves else silent, LOG)
    if serves and unreached:
        plugin = judged(PLUGIN, f"{unreached.message}: {unreached.cause}", unreached.hint)
    if not report.state or report.state == "not_running":
        return [plugin, *(skipped(name, "the device plugin does not run") for name in NAMES[1:])]
    return [
        plugin,
        _registration(report, kubelet),
        _allocatable(report),
        _devices(report.mig, migs),
        _mps(report, client),
        _health(report),
    ]


def _registration(report: PluginReport, kubelet: Kubelet) -> Check:
    missing = ", ".join(report.unregistered) or "all resources"
    if report.kubelet.registration_problem:
        cause = f"the kubelet does not know of {missing}{because([report.kubelet.registration_problem])}"
        return judged(REGISTRATION, cause, LOG)
    if not report.resources:
        return skipped(REGISTRATION, "the device plugin has nothing to advertise")
    if not report.unregistered:
        return Check(REGISTRATION)
    if kubelet.there:
        cause = f"the kubelet has not registered {missing}"
        step = f"see whether the kubelet runs: systemctl status kubelet; {LOG}"
        return judged(REGISTRATION, cause, step)
    step = "join the node to its cluster"
    cause = "no kubelet has registered the GPUs yet"
    if kubelet.required:
        cause += ", and gpu_nodes_require_kubelet is set"
        return judged(REGISTRATION, cause, f"{step}, or start its kubelet")
    step += "; gpu_nodes_require_kubelet makes this an error"
    return judged(REGISTRATION, cause, step, fails=False)


def _allocatable(report: PluginReport) -> Check:
    """Compare what the kubelet can allocate with the healthy devices; what no kubelet has yet is told above."""
    known = {
        name: resource.healthy for name, resource in report.resources.items() if resource.registered
    }
    if not known:
        return skipped(ALLOCATABLE, "no kubelet has registered anything")
    if report.kubelet.problem:
        cause = f"what the kubelet can allocate is not known: {report.kubelet.problem}"
        return judged(ALLOCATABLE, cause, "see whether the kubelet runs: systemctl status kubelet")
    have = report.kubelet.allocatable
    pairs = [(name, have.get(name, 0), count) for name, count in sorted(known.items())]
    differing = [f"{name}: {has} of {count}" for name, has, count in pairs if has != count]
    cause = f"the kubelet can't allocate what the device plugin advertises{because(differing)}"
    return judged(ALLOCATABLE, cause if differing else "", f"restart the kubelet; {LOG}")


def _devices(mig: MigReport, migs: t.Optional[t.Sequence[str]]) -> Check:
    if migs is None:
        return skipped(DEVICES, "the driver does not answer")
    matches = sorted(mig.uuids) == sorted(migs)
    cause = "the device plugin does not know the MIG devices that the GPUs have"
    return judged(DEVICES, "" if matches else cause, "restart gpu-device-plugin")


def _mps(report: PluginReport, client: t.Optional[Answer]) -> Check:
    late = [device for device in report.mps if device.problem]
    if not report.mps:
        return skipped(MPS, "no device is shared by MPS")
    if not late:
        problem = (client.cuda or client.problem) if client else ""
        cause = f"a client with a free share fails: {problem}" if problem else ""
        return judged(
            MPS, cause, "see the log of gpu-mps.service, and docs/runbooks/mps-pods-hang.md"
        )
    message = (
        f"MPS is not ready{because([f'{device.device}: {device.problem}' for device in late])}"
    )
    waits = all(device.waits_for_clients for device in late)
    step = "wait for the clients to end" if waits else "see the log of gpu-mps.service"
    return judged(MPS, message, step, fails=not waits)


def _health(report: PluginReport) -> Check:
    bad, waiting = report.unhealthy, report.waiting
    if bad or not waiting:
        cause = f"the device plugin reports unhealthy devices{few(bad)}"
        step = "see '/opt/gpu-node/bin/gpu-plugin status' on the node"
        return judged(HEALTH, cause if bad else "", step)
    cause = f"devices are given to nobody until who has them has ended{few(waiting)}"
    return judged(HEALTH, cause, "drain the node, or wait for these pods to end", fails=False)
