# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""All nodes of a report, and its first line. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import counted

from .nodes import FAILED, UNREACHABLE

Json = t.Dict[str, t.Any]
VERSION = 1  # of the report's JSON


def fleet(title: str, made: str, nodes: t.Sequence[Json]) -> Json:
    """Return the whole report; ``made`` is its time in ISO 8601."""
    return {
        "version": VERSION,
        "title": title,
        "made": made,
        "totals": totals(nodes),
        "nodes": list(nodes),
    }


def line(report: t.Mapping[str, t.Any]) -> str:
    """Return a report in a line."""
    found = report["totals"]
    absent = found["unreachable"] + found["failed"]
    words = f"{counted(found['nodes'], 'node')}, {found['drifted']} drifted"
    return f"{words}, {absent} without data" if absent else words


def totals(nodes: t.Sequence[Json]) -> t.Dict[str, int]:
    """Return how many nodes, GPUs and MIG instances there are, and in how many nodes something is to be done."""
    gpus = [gpu for node in nodes for gpu in node["gpus"]]
    instances = [one for gpu in gpus for one in gpu["instances"]]
    drivers = [node["driver"] for node in nodes]
    return {
        "nodes": len(nodes),
        "gpus": sum(max(len(node["gpus"]), node["pci_gpus"]) for node in nodes),
        "gpus_in_use": sum(gpu["in_use"] for gpu in gpus),
        "mig_instances": len(instances),
        "mig_instances_in_use": sum(bool(one["users"]) for one in instances),
        "drifted": sum(bool(node["drift"]) for node in nodes),
        "unhealthy": sum(bool(node["unhealthy"]) for node in nodes),
        "outdated_drivers": sum(one["outdated"] for one in drivers),
        "vulnerable_drivers": sum(one["vulnerable"] for one in drivers),
        "drivers_to_update": sum(one["outdated"] or one["vulnerable"] for one in drivers),
        "in_a_change": sum(bool(node["change"]) for node in nodes),
        "pending_reboots": sum(bool(node["reboot"]) for node in nodes),
        "unreachable": sum(node["state"] == UNREACHABLE for node in nodes),
        "failed": sum(node["state"] == FAILED for node in nodes),
    }
