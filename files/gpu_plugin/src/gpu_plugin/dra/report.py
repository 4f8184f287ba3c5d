# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The parts of the DRA driver's state that its status file has, and the metrics made of that state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .._shared._base.dra.checkpoint import STATES, PreparedClaim
from .._shared._base.dra.names import CORES, GPU, MEMORY
from ..model.inventory import Inventory
from ..observer import MOST_SERIES, Observer
from ..report.endpoint import Page
from ..report.pages import gauge, is_aside, served
from ..report.probes import health
from ..slices.taints import UNENFORCED
from ..tools.process import Last
from .prepare.plan import is_share

State = Mapping[str, Any]  # what the service reports at the end of a round, and the status file has


def describe_claims(prepared: Iterable[PreparedClaim]) -> list[dict[str, Any]]:
    """Return the prepared claims as JSON can hold them, by namespace and name."""
    return [
        {
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "state": claim.state,
            "enforcement": claim.enforcement,
            "devices": [
                {
                    "device": device.device,
                    "request": device.request,
                    "gpu": device.gpu,
                    "mig": device.instance.uuid if device.instance else "",
                    "share_id": device.share_id,
                    "consumed": dict(device.consumed),
                }
                for device in claim.devices
            ],
        }
        for claim in sorted(prepared, key=lambda claim: (claim.namespace, claim.name, claim.uid))
    ]


def usage_by_gpu(
    indices: Mapping[str, int], prepared: Iterable[PreparedClaim]
) -> dict[str, dict[str, int]]:
    """Return by UUID how many claims and shares each GPU has, with the memory and cores of the shares.

    Args:
        indices: The GPUs to count for: their indices by UUID.
        prepared: The claims that hold devices of the node.
    """
    usage = {
        uuid: {"index": index, "claims": 0, "shares": 0, MEMORY: 0, CORES: 0}
        for uuid, index in indices.items()
    }
    for claim in prepared:
        for uuid in {device.gpu for device in claim.devices} & usage.keys():
            usage[uuid]["claims"] += 1
        for device in claim.devices:
            if device.gpu in usage and is_share(device):
                gpu = usage[device.gpu]
                gpu["shares"] += 1
                gpu[MEMORY] += device.consumed.get(MEMORY, 0)
                gpu[CORES] += device.consumed.get(CORES, 0)
    return usage


def unhealthy_gpus(
    judged: Inventory, uuids: Iterable[str], unenforced: Mapping[str, str], publish: str
) -> dict[str, str]:
    """Return by UUID why a GPU has tainted devices. GPUs without any are left out.

    Args:
        judged: The inventory with the problems of its GPUs.
        uuids: The GPUs of the DRA driver.
        unenforced: Why shares of a GPU can't be enforced, by UUID.
        publish: What a GPU outside of MIG mode is published as: all, gpu or share.
    """
    views = {view.gpu.uuid: view for view in judged.gpus}
    reasons = {}
    for uuid in uuids:
        if (view := views.get(uuid)) is None:
            continue
        if problem := view.problem or next(iter(view.mig_problems.values()), None):
            reasons[uuid] = str(problem.kind.value)
        elif publish != GPU and not view.gpu.mig_current and unenforced.get(uuid):
            reasons[uuid] = UNENFORCED
    return reasons


class Families(Collector):
    """The metric families of the DRA driver, made of the state that ``state`` returns."""

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Yield all families; before the first round they have no samples."""
        state = self._state()
        claims = gauge("dra_claims", "Claims that hold devices of this node.", "state")
        registered = gauge("dra_registered", "Whether the kubelet knows of the driver.")
        usage = [
            (key, gauge(f"dra_gpu_{name}", text, "uuid", "index"))
            for key, name, text in (
                ("claims", "claims", "Claims that have a device of a GPU."),
                ("shares", "shares", "Shares of a GPU that are given."),
                (MEMORY, "memory_bytes", "Memory of a GPU that is given as shares."),
                (CORES, "cores_percent", "Cores of a GPU that are given as shares."),
            )
        ]
        labels = ("namespace", "claim", "device", "uuid", "index")
        devices = gauge("dra_claim_info", "1 for each device that a claim has.", *labels)
        text = "1 for a GPU all of whose devices can be given, else 0."
        healthy = gauge("dra_gpu_health", text, "uuid", "index", "reason")
        text = "1 for a GPU that somebody has set aside, else 0."
        quarantined = gauge("dra_gpu_quarantined", text, "uuid", "index")
        text = "1 for a GPU that the node's gate lets in, 0 for one that it holds."
        accepted = gauge("dra_gpu_accepted", text, "uuid", "index")
        failed = gauge("dra_chore_failed", "Whether background work failed the last time.", "chore")
        if state:
            for name in STATES:
                count = sum(claim["state"] == name for claim in state["claims"])
                claims.add_metric([name], count)
            registered.add_metric([], state["registered"])
            held = [(claim, device) for claim in state["claims"] for device in claim["devices"]]
            for claim, device in held[:MOST_SERIES]:
                uuid = device["gpu"]
                index = str(state["gpus"][uuid]["index"]) if uuid in state["gpus"] else ""
                values = [claim["namespace"], claim["name"], device["device"], uuid, index]
                devices.add_metric(values, 1)
            quarantine = state["quarantine"]
            for uuid, gpu in state["gpus"].items():
                index = str(gpu["index"])
                for key, family in usage:
                    family.add_metric([uuid, index], gpu[key])
                reason = state["unhealthy"].get(uuid, "")
                healthy.add_metric([uuid, index, reason], not reason)
                is_quarantined = is_aside(quarantine, uuid, by_gate=False)
                quarantined.add_metric([uuid, index], is_quarantined)
                if state["gated"]:
                    is_held = is_aside(quarantine, uuid, by_gate=True)
                    accepted.add_metric([uuid, index], not is_held)
            for name, error in state["chores"].items():
                failed.add_metric([name], error is not None)
        usage_families = (family for _key, family in usage)
        yield from (claims, registered, devices, *usage_families, healthy)
        yield from (quarantined, accepted, failed)


def build_pages(observer: Observer, last: Last) -> dict[str, Page]:
    """Return the pages of the driver's endpoint by path: its metrics, liveness and readiness."""
    return served(observer, last, Families(lambda: last()[0]), _readiness_problem)


def _readiness_problem(state: State, age: float) -> str:
    """Return why the driver isn't ready, empty if it is. ``age`` is that of the state, in seconds."""
    if problem := health(state, age):
        return problem
    if not state:
        return "starting"
    unregistered = "" if state["registered"] else "the kubelet does not know of the driver"
    return str(state["problem"] or unregistered)
