# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The repair cases of GPUs for the fleet report, and how often GPUs of each model were repaired. Pure."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import (
    MISREAD,
    is_whole,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.report.cases import ATTEMPT, ROW

Json = t.Dict[str, t.Any]
Answer = t.Mapping[str, t.Any]  # what a module returned
Models = t.Mapping[int, str]  # the names of GPUs by their PCI device ids
REBOOT = "reboot"


def models_by_device_id(answers: t.Iterable[Answer]) -> Models:
    """Return the models of all GPUs that answer on some node, from what ``gpu_info`` returned of each."""
    models: t.Dict[int, str] = {}
    for info in answers:
        try:
            pairs = [(gpu["pci_device_id"], gpu["name"]) for gpu in info.get("gpus", ())]
        except MISREAD:
            continue  # the node's own row in the report has the error
        models.update(
            (device_id, name)
            for device_id, name in pairs
            if is_whole(device_id) and isinstance(name, str)
        )
    return models


def describe_cases(status: Answer, info: Answer, models: Models) -> t.List[Json]:
    """Return the repair cases of a node's GPUs, each with its GPU's index and model.

    Args:
        status: The node's own account of itself, with the cases.
        info: What ``gpu_info`` returned of the node.
        models: The models of the fleet, for GPUs of the node that no longer answer.
    """
    gpus = {gpu["uuid"]: gpu for gpu in info.get("gpus", ())}
    cases = status.get("cases", ())
    pci_gpus = info["pci_gpus"] if cases else ()
    device_ids = {pci_gpu["address"]: pci_gpu["device_id"] for pci_gpu in pci_gpus}
    return [_describe_case(case, gpus, device_ids, models) for case in cases]


def _describe_case(case: Answer, gpus: Answer, device_ids: Answer, models: Models) -> Json:
    gpu = gpus.get(case["gpu"])
    return {
        **{key: case[key] for key in ROW},
        "attempts": [{key: attempt[key] for key in ATTEMPT} for attempt in case["attempts"]],
        "index": gpu["index"] if gpu else None,
        "model": gpu["name"] if gpu else models.get(device_ids.get(case["pci"], 0), ""),
    }


def count_repairs(nodes: t.Iterable[Json]) -> t.List[Json]:
    """Return the numbers of GPUs, cases and repairs by model and driver version, of models with cases."""
    counters: t.Dict[t.Tuple[str, str], t.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for node in nodes:
        driver = node["driver"]["version"]
        for gpu in node["gpus"]:
            counters[gpu["name"], driver]["gpus"] += 1
        for case in node["cases"]:
            actions = [attempt["action"] for attempt in case["attempts"]]
            reboots = actions.count(REBOOT)
            counters[case["model"], driver].update(
                cases=1, open=int(case["open"]), reboots=reboots, resets=len(actions) - reboots
            )
    keys = ("gpus", "cases", "open", "resets", "reboots")
    return [
        {"model": model, "driver": driver, **{key: counts[key] for key in keys}}
        for (model, driver), counts in sorted(counters.items())
        if counts["cases"]
    ]
