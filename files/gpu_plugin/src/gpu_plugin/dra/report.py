# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the driver's process does at the moment, for its status file and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .._shared._base.dra.checkpoint import STATES, Device, PreparedClaim
from .._shared._base.dra.names import CORES, GPU, MEMORY
from ..model.inventory import GpuView, Inventory
from ..observer import MOST_SERIES, PREFIX, Observer
from ..report.endpoint import Page
from ..report.pages import served
from ..report.probes import health
from ..slices.taints import UNENFORCED
from ..tools.process import Last
from .prepare.plan import is_share

State = Mapping[str, Any]


def claims(held: Iterable[PreparedClaim]) -> list[dict[str, Any]]:
    """Return the claims as JSON can hold them."""
    return [
        {
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "state": claim.state,
            "enforcement": claim.enforcement,
            "devices": [_device(device) for device in claim.devices],
        }
        for claim in sorted(held, key=lambda each: (each.namespace, each.name, each.uid))
    ]


def _device(device: Device) -> dict[str, Any]:
    return {
        "device": device.device,
        "request": device.request,
        "gpu": device.gpu,
        "mig": device.instance.uuid if device.instance else "",
        "share_id": device.share_id,
        "consumed": dict(device.consumed),
    }


def gpus(indices: Mapping[str, int], held: Iterable[PreparedClaim]) -> dict[str, dict[str, int]]:
    """Return by UUID what of each GPU claims have: how many of them, shares, and their memory and cores."""
    result = {
        uuid: {"index": index, "claims": 0, "shares": 0, MEMORY: 0, CORES: 0}
        for uuid, index in indices.items()
    }
    for claim in held:
        for uuid in {device.gpu for device in claim.devices} & result.keys():
            result[uuid]["claims"] += 1
        for device in claim.devices:
            if device.gpu in result and is_share(device):
                gpu = result[device.gpu]
                gpu["shares"] += 1
                gpu[MEMORY] += device.consumed.get(MEMORY, 0)
                gpu[CORES] += device.consumed.get(CORES, 0)
    return result


def unhealthy(
    judged: Inventory, uuids: Iterable[str], unenforced: Mapping[str, str], publish: str
) -> dict[str, str]:
    """Return by UUID why devices of a GPU have a taint, of the GPUs of which some have one.

    Args:
        judged: The inventory with what makes GPUs unhealthy.
        uuids: The GPUs of the DRA driver.
        unenforced: Why shares of a GPU can't be enforced, by UUID.
        publish: What a GPU outside of MIG mode is published as.
    """
    views = {view.gpu.uuid: view for view in judged.gpus}
    reasons = {uuid: _reason(views[uuid]) for uuid in uuids if uuid in views}
    for uuid, reason in reasons.items():
        has_shares = publish != GPU and not views[uuid].gpu.mig_current
        if not reason and has_shares and unenforced.get(uuid):
            reasons[uuid] = UNENFORCED
    return {uuid: reason for uuid, reason in reasons.items() if reason}


def _reason(view: GpuView) -> str:
    problem = view.problem or next(iter(view.mig_problems.values()), None)
    return str(problem.kind.value) if problem else ""


class Families(Collector):
    """``state`` returns that of the driver's process."""

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Return all families, with those that have no samples yet."""
        state = self._state()
        by_state = _gauge("claims", "Claims that hold devices of this node.", "state")
        registered = _gauge("registered", "Whether the kubelet knows of the driver.")
        gauges = [
            (key, _gauge(f"gpu_{name}", text, "uuid", "index"))
            for key, name, text in (
                ("claims", "claims", "Claims that have a device of a GPU."),
                ("shares", "shares", "Shares of a GPU that are given."),
                (MEMORY, "memory_bytes", "Memory of a GPU that is given as shares."),
                (CORES, "cores_percent", "Cores of a GPU that are given as shares."),
            )
        ]
        labels = ("namespace", "claim", "device", "uuid", "index")
        devices = _gauge("claim_info", "1 for each device that a claim has.", *labels)
        text = "1 for a GPU all of whose devices can be given, else 0."
        healthy = _gauge("gpu_health", text, "uuid", "index", "reason")
        text = "1 for a GPU that somebody has set aside, else 0."
        quarantined = _gauge("gpu_quarantined", text, "uuid", "index")
        failed = _gauge("chore_failed", "Whether background work failed the last time.", "chore")
        if state:
            for name in STATES:
                count = sum(claim["state"] == name for claim in state["claims"])
                by_state.add_metric([name], count)
            registered.add_metric([], state["registered"])
            for names in _devices(state):
                devices.add_metric(names, 1)
            for uuid, gpu in state["gpus"].items():
                for key, family in gauges:
                    family.add_metric([uuid, str(gpu["index"])], gpu[key])
                reason = state["unhealthy"].get(uuid, "")
                healthy.add_metric([uuid, str(gpu["index"]), reason], not reason)
                aside = state["quarantine"]["node"] or uuid in state["quarantine"]["gpus"]
                quarantined.add_metric([uuid, str(gpu["index"])], bool(aside))
            for name, error in state["chores"].items():
                failed.add_metric([name], error is not None)
        families = (family for _key, family in gauges)
        yield from (by_state, registered, devices, *families, healthy, quarantined, failed)


def _devices(state: State) -> list[list[str]]:
    """Return namespace and name of each claim, with each of its devices and the device's GPU."""
    indices = {uuid: str(gpu["index"]) for uuid, gpu in state["gpus"].items()}
    devices = [(claim, device) for claim in state["claims"] for device in claim["devices"]]
    return [
        [claim["namespace"], claim["name"], device["device"], gpu, indices.get(gpu, "")]
        for claim, device in devices[:MOST_SERIES]
        for gpu in [device["gpu"]]
    ]


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}dra_{name}", text, labels=labels)


def pages(observer: Observer, last: Last) -> dict[str, Page]:
    """Return the pages by their path: metrics, and whether the process goes round."""
    return served(observer, last, Families(lambda: last()[0]), _unready)


def _unready(state: State, age: float) -> str:
    if problem := health(state, age):
        return problem
    if not state:
        return "starting"
    unregistered = "" if state["registered"] else "the kubelet does not know of the driver"
    return str(state["problem"] or unregistered)
