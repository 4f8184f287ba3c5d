# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The repairs of GPUs for a report: each with its GPU's model, and how often each model is repaired. Pure."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import (
    MISREAD,
    is_whole,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.report.cases import ATTEMPT, ROW

Json = t.Dict[str, t.Any]
Answer = t.Mapping[str, t.Any]
Models = t.Mapping[int, str]
REBOOT = "reboot"


def models(answers: t.Iterable[Answer]) -> Models:
    """Return the names of GPUs by their PCI device ids, as those of ``gpu_info`` that answer have them."""
    result: t.Dict[int, str] = {}
    for info in answers:
        try:
            pairs = [(gpu["pci_device_id"], gpu["name"]) for gpu in info.get("gpus", ())]
        except MISREAD:
            continue  # what is wrong with it, its own row says
        result.update((key, name) for key, name in pairs if is_whole(key) and isinstance(name, str))
    return result


def cases(status: Answer, info: Answer, known: Models) -> t.List[Json]:
    """Return the cases of a node's GPUs. ``known`` has the models of GPUs that do not answer any more."""
    gpus = {gpu["uuid"]: gpu for gpu in info.get("gpus", ())}
    listed = status.get("cases", ())
    devices = (
        {pci_gpu["address"]: pci_gpu["device_id"] for pci_gpu in info["pci_gpus"]} if listed else {}
    )
    return [_case(case, gpus, devices, known) for case in listed]


def _case(case: Answer, gpus: Answer, devices: Answer, known: Models) -> Json:
    gpu = gpus.get(case["gpu"])
    return {
        **{key: case[key] for key in ROW},
        "attempts": [{key: each[key] for key in ATTEMPT} for each in case["attempts"]],
        "index": gpu["index"] if gpu else None,
        "model": gpu["name"] if gpu else known.get(devices.get(case["pci"], 0), ""),
    }


def repairs(nodes: t.Iterable[Json]) -> t.List[Json]:
    """Return how many GPUs there are of each model with each driver, and how often they were repaired."""
    counters: t.Dict[t.Tuple[str, str], t.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for node in nodes:
        driver = node["driver"]["version"]
        for gpu in node["gpus"]:
            counters[gpu["name"], driver]["gpus"] += 1
        for case in node["cases"]:
            tried = [attempt["action"] for attempt in case["attempts"]]
            reboots = tried.count(REBOOT)
            counters[case["model"], driver].update(
                cases=1, open=int(case["open"]), reboots=reboots, resets=len(tried) - reboots
            )
    keys = ("gpus", "cases", "open", "resets", "reboots")
    return [
        {"model": model, "driver": driver, **{key: counts[key] for key in keys}}
        for (model, driver), counts in sorted(counters.items())
        if counts["cases"]
    ]
