# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The nodes of a report, from what gpu.node.plan has answered there, and its first line. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import (
    MISREAD,
    NOT_UNDERSTOOD,
)
from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import counted
from ansible_collections.gpu.node.plugins.module_utils._base.text.strict import seconds
from ansible_collections.gpu.node.plugins.module_utils._checks.report.acceptance import ACCEPTED
from ansible_collections.gpu.node.plugins.module_utils._checks.report.acceptance import (
    FAILED as NOT_ACCEPTED,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.report.status import FAULT
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import Change
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import Quarantined as Entry

from .acceptance import NEVER_TESTED, compare_fleet, describe_acceptance
from .cases import Models, count_repairs, describe_cases
from .gpus import NOWHERE, gpus, users
from .shape import CHANGE, QUARANTINED, is_node

Json = t.Dict[str, t.Any]
Answer = t.Mapping[str, t.Any]
LOOKED, FAILED, UNREACHABLE = "looked", "failed", "unreachable"
SILENT = ("", "serving", "not_running")  # states of the device plugin that are no complaint
VERSION = 1  # of the report's JSON


def node(
    name: str,
    answer: t.Optional[Answer],
    info: t.Optional[Answer],
    known: t.Optional[Models] = None,
) -> Json:
    """Return a node; ``info`` is what gpu.node.gpu_info has answered where gpu.node.plan could not.

    ``known`` has the models of the fleet's GPUs by their PCI device ids.
    ``state`` is looked, failed or unreachable, with the ``problem``: an answer of another shape is one that failed.
    """
    models = known or {}
    try:
        result = _node(name, answer or {}, info or {}, models)
    except MISREAD:
        result = {}
    return result if is_node(result) else _node(name, {"msg": NOT_UNDERSTOOD}, {}, models)


def of_gpus(answer: t.Optional[Answer], info: t.Optional[Answer]) -> Answer:
    """Return what is known of a node's GPUs."""
    return (answer or {}).get("gpu_info") or (info or {}).get("gpu_info") or {}


def _node(name: str, answer: Answer, info: Answer, models: Models) -> Json:
    state = _state(answer)
    status = answer.get("status") or {}
    known = of_gpus(answer, info)
    using, aside = users(status), _quarantine(known)
    # What is set aside is told by the node itself, whether or not a device plugin runs there.
    faults = [fault for fault in status.get("faults", ()) if fault["kind"] != "quarantined"]
    complete = bool(status) and not status.get("allocations_unknown")
    acceptance = describe_acceptance(status)
    return {
        "name": name,
        "state": state,
        "problem": "" if state == LOOKED else _problem(answer),
        "system": status.get("host", {}).get("system", ""),
        "kernel": status.get("host", {}).get("kernel", ""),
        "pci_gpus": len(known.get("pci_gpus", ())),
        "driver": _driver(status.get("driver") or {}, known),
        "gpus": [
            {**gpu, "acceptance": acceptance.get(gpu["uuid"], NEVER_TESTED)}
            for gpu in gpus(known, using, faults, aside, known=complete)
        ],
        "other_users": using.get(NOWHERE, []),
        "users_unknown": status.get("allocations_unknown", ""),
        "drift": [
            *(_missing(gpu) for gpu in known.get("missing_gpus", ())),
            *(_part(part) for part in answer.get("parts", ()) if part["steps"] or part["error"]),
        ],
        "warnings": _warnings(answer),
        "faults": [{key: fault[key] for key in FAULT} for fault in faults],
        "quarantine": aside,
        "cases": describe_cases(status, known, models),
        "cases_unknown": status.get("cases_unknown", ""),
        "unhealthy": [
            *_unhealthy(known, status, faults),
            *map(_describe_quarantine, aside),
            *(
                f"load test of {text}"
                for text in (status.get("acceptance") or {}).get("faulty", ())
            ),
        ],
        "reboot": _reboot(answer, status),
        "change": _change(known.get("change") or {}),
        "labels": status.get("labels", {}).get("labels", {}),
    }


def _state(answer: Answer) -> str:
    if "parts" in answer:
        return LOOKED
    return UNREACHABLE if answer.get("unreachable") else FAILED


def _problem(answer: Answer) -> str:
    return str(answer.get("msg") or "the node was not read")


def _driver(driver: Answer, known: Answer) -> Json:
    """Return the loaded driver. ``outdated``: its branch is past its support; ``vulnerable``: it is below a fix.

    ``unfixed`` are the bulletins for which a branch that is past its support will have none.
    """
    loaded = known.get("driver") or {}
    support, security = driver.get("support") or {}, driver.get("security") or {}
    unfixed = list(security.get("unlisted") or ()) if support.get("past") else []
    return {
        "version": driver.get("version") or loaded.get("version") or "",
        "type": driver.get("type") or loaded.get("kind") or "",
        "branch": support.get("branch") or "",
        "kind": support.get("kind") or "",
        "end_of_support": support.get("end_of_support") or "",
        "days": support.get("days"),
        "outdated": bool(support.get("past")),
        "vulnerable": bool(security.get("below") or unfixed),
        "floor": security.get("floor") or "",
        "bulletin": security.get("bulletin") or "",
        "bulletin_date": security.get("date") or "",
        "unfixed": unfixed,
        "table": (driver.get("releases") or {}).get("as_of", ""),
    }


def _missing(address: str) -> Json:
    """Return a GPU that the node had as what has drifted, though no run brings it back."""
    step = f"look for {address}, which was there at the last bring-up, and is not on the PCI bus any more"
    return {"part": "GPUs", "steps": [step], "error": "", "later": "", "blocked_by": []}


def _part(part: Answer) -> Json:
    return {
        "part": part["name"],
        "steps": [step["summary"] for step in part["steps"]],
        "error": part["error"].get("msg", ""),
        "later": part["later"],
        "blocked_by": part["blocked_by"],
    }


def _warnings(answer: Answer) -> t.List[str]:
    """Return what the parts warn of, such as what somebody has done by hand, and which faults can't be judged."""
    of_parts = (text for part in answer.get("parts", ()) for text in part["warnings"])
    status = answer.get("status") or {}
    acceptance = status.get("acceptance") or {}
    untested = [f"not accepted: {text}" for text in acceptance.get("untested", ())]
    untested += [text for text in (acceptance.get("unknown"),) if text]
    untested += [f"held by the gate: {text}" for text in acceptance.get("held", ())]
    if acceptance.get("override"):
        untested.append(f"let in by an operator, though not accepted: {acceptance['override']}")
    return list(dict.fromkeys([*of_parts, *status.get("kernel_log", ()), *untested]))


def _quarantine(known: Answer) -> t.List[Json]:
    """Return what is set aside, the node first."""
    quarantine = known.get("quarantine") or {}
    indices = {gpu["uuid"]: gpu["index"] for gpu in known.get("gpus", ())}
    whole = {"": quarantine["node"]} if quarantine.get("node") else {}
    return [
        {
            **{key: entry[key] for key in QUARANTINED if key in entry},
            "gpu": uuid,
            "index": indices.get(uuid),
        }
        for uuid, entry in {**whole, **quarantine.get("gpus", {})}.items()
    ]


def _describe_quarantine(quarantined: Json) -> str:
    """Return a quarantine in words."""
    entry = Entry(
        quarantined["by"],
        quarantined["reason"],
        quarantined["ticket"],
        seconds(quarantined["since"]),
    )
    index = quarantined["gpu"] if quarantined["index"] is None else f"GPU {quarantined['index']}"
    return f"{index if quarantined['gpu'] else 'the node'}: {entry}"


def _unhealthy(known: Answer, status: Answer, faults_told: t.Iterable[Answer]) -> t.List[str]:
    """Return what is wrong with the GPUs, by the faults that are ``faults_told``, and with what advertises them."""
    faults = [
        f"GPU {fault_row['index'] or fault_row['gpu']}"
        + ("" if fault_row["gi"] is None else f", instance {fault_row['gi']}")
        + f": {fault_row['reason']}"
        for fault_row in faults_told
    ]
    silent = known.get("pci_gpus") and not known.get("nvml_available", True)
    driver = [known.get("nvml_error", "")] if silent else []
    daemon, mig = status.get("daemon", {}), status.get("mig_boot", {})
    serving = daemon.get("state", "") in SILENT
    messages = [] if serving else [f"device plugin: {daemon['problem'] or daemon['state']}"]
    boot = [f"MIG at boot: {problem}" for problem in mig.get("problems", ())]
    lost = [*known.get("lost_gpus", ()), *status.get("unreadable", ())]
    return list(dict.fromkeys([*driver, *lost, *faults, *boot, *messages]))


def _change(marker: Answer) -> Json:
    """Return the change in service in whose middle the node stands, and what is to be done, empty where in none."""
    change = Change.of(marker)
    shown = {**change._asdict(), "problem": change.cause, "way": change.next_step}
    return {key: shown[key] for key in CHANGE} if marker else {}


def _reboot(answer: Answer, status: Answer) -> t.List[str]:
    parts = [
        reboot_reason
        for part in answer.get("parts", ())
        for reboot_reason in part["reboot_reasons"]
    ]
    return list(dict.fromkeys([*parts, *status.get("reboot", ())]))


def fleet(title: str, made: str, nodes: t.Sequence[Json]) -> Json:
    """Return the whole report; ``made`` is its time in ISO 8601."""
    return {
        "version": VERSION,
        "title": title,
        "made": made,
        "totals": totals(nodes),
        "repairs": count_repairs(nodes),
        "acceptance": compare_fleet(nodes),
        "nodes": list(nodes),
    }


def line(report: t.Mapping[str, t.Any]) -> str:
    """Return a report in a line."""
    total_counts = report["totals"]
    absent = total_counts["unreachable"] + total_counts["failed"]
    text = f"{counted(total_counts['nodes'], 'node')}, {total_counts['drifted']} drifted"
    return f"{text}, {absent} without data" if absent else text


def totals(nodes: t.Sequence[Json]) -> t.Dict[str, int]:
    """Return how many nodes, GPUs and MIG instances there are, and in how many nodes something is to be done."""
    gpus = [gpu for node in nodes for gpu in node["gpus"]]
    instances = [instance for gpu in gpus for instance in gpu["instances"]]
    drivers = [node["driver"] for node in nodes]
    return {
        "nodes": len(nodes),
        "gpus": sum(max(len(node["gpus"]), node["pci_gpus"]) for node in nodes),
        "gpus_in_use": sum(gpu["in_use"] for gpu in gpus),
        "gpus_accepted": sum(gpu["acceptance"]["state"] == ACCEPTED for gpu in gpus),
        "gpus_failed": sum(gpu["acceptance"]["state"] == NOT_ACCEPTED for gpu in gpus),
        "mig_instances": len(instances),
        "mig_instances_in_use": sum(bool(instance["users"]) for instance in instances),
        "drifted": sum(bool(node["drift"]) for node in nodes),
        "unhealthy": sum(bool(node["unhealthy"]) for node in nodes),
        "outdated_drivers": sum(driver["outdated"] for driver in drivers),
        "vulnerable_drivers": sum(driver["vulnerable"] for driver in drivers),
        "drivers_to_update": sum(driver["outdated"] or driver["vulnerable"] for driver in drivers),
        "in_repair": sum(any(case["open"] for case in node["cases"]) for node in nodes),
        "open_cases": sum(case["open"] for node in nodes for case in node["cases"]),
        "in_a_change": sum(bool(node["change"]) for node in nodes),
        "pending_reboots": sum(bool(node["reboot"]) for node in nodes),
        "unreachable": sum(node["state"] == UNREACHABLE for node in nodes),
        "failed": sum(node["state"] == FAILED for node in nodes),
    }
