# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Stands for each of the collection's modules where only the order of a roll-out is under test. WANT_JSON.

What a node is like is in the file that SCENE names; each call is added to its log. Whatever else a module documents to
return is there and empty.
"""

import hashlib
import json
import os
import sys
import time

PARTS = (
    "environment",
    "host",
    "driver",
    "toolkit",
    "runtime",
    "mig",
    "settings",
    "cdi",
    "device_plugin",
    "dcgm",
)
RETURNED = {}  # of the module
IN_ENVIRONMENT = {"mig", "settings", "cdi", "device_plugin"}


def planned(args, node):
    """Return the parts that have something to do: of those that the run chooses, what the node's file names."""
    components = args.get("components") or PARTS
    chosen = PARTS if args.get("parts") is None else args["parts"]
    wanted = {*components, *(["environment"] if IN_ENVIRONMENT.intersection(components) else [])}
    named = node.get("plan", PARTS)
    return [one for one in PARTS if one in wanted and one in chosen and one in named]


def standing(folder):
    """Return what gpu_info says of a change that has begun on the node."""
    names = ("in-service", "driver-upgrade", "mig-change")
    there = [one for one in names if os.path.exists(os.path.join(folder, one))]
    if not there:
        return {}
    with open(os.path.join(folder, there[0]), "rb") as stream:
        data = stream.read()
    told = json.loads(data) if data.startswith(b"{") else {}
    return {**told, "digest": hashlib.sha256(data).hexdigest() if there[0] == names[0] else ""}


NEXTS = ("nothing", "wait", "prove", "reset", "reboot")
FENCES = ("reset", "reboot", "replace")


SINCE = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
LEASE = {"since": SINCE, "boot_id": ""}
CASE = {
    **dict.fromkeys(("serial", "pci", "boot_id", "driver_load"), ""),
    "verdict": "reset",
    "reasons": [],
    "stopped": [],
    "since": SINCE,
}


def tried(case):
    """Return what a case says of what was tried for its GPU."""
    return [{"action": action, "at": SINCE, "result": "done"} for action in case["attempts"]]


def merged(empty, answer):
    """Return an answer with all that its module documents, where it has none of its own."""
    both = {**empty, **answer}
    return {
        key: merged(empty[key], value)
        if isinstance(value, dict) and isinstance(empty.get(key), dict)
        else value
        for key, value in both.items()
    }


def judged(node, uuid, verdict, args):
    """Return a GPU as repair does, from the verdict that the node's file has of it."""
    case = node.get("cases", {}).get(uuid, {})
    ours = uuid in node.get("fenced", []) or case.get("stage", "released") != "released"
    step = {"": "prove" if ours else "nothing", "reset": "reset", "replace": "wait"}.get(
        verdict, "wait"
    )
    if verdict == "reboot" and args.get("reboot") == "when_needed":
        step = "reboot"
    pods = node.get("pods", {}).get(uuid, [])
    return {"uuid": uuid, "verdict": verdict or "none", "reasons": [], "next": step, "pods": pods}


def repair(args, check, node, folder):
    """Return what repair says; ``sick`` has the verdicts of GPUs, and ``cases`` how far each repair is."""
    state, cases, lease = args["state"], node.setdefault("cases", {}), node.get("lease", "")
    gpus = [judged(node, uuid, one, args) for uuid, one in node.get("sick", {}).items()]
    if state not in ("observed",) and not check:
        if lease not in ("", args["holder"], args["instead_of"]):
            return {"failed": True, "msg": f"{lease} repairs the node"}
        node["lease"] = "" if args["give_back"] else args["holder"]
        named = (
            [one["uuid"] for one in gpus if one["next"] != "nothing"]
            if state == "planned"
            else args["gpus"]
        )
        for uuid in named:
            if state == "proved" and node["sick"][uuid]:
                return {"failed": True, "msg": f"GPU {uuid} still has a fault"}
            if state == "released" and cases[uuid]["stage"] != "proved":
                return {"failed": True, "msg": f"GPU {uuid} was not proved"}
            one = cases.setdefault(uuid, {"stage": "", "evidence": "", "attempts": []})
            one["stage"] = state
            one["evidence"] = args["evidence"] or one["evidence"]
            one["attempts"] += [args["action"]] if args["action"] else []
            if args["refused"]:
                one["attempts"].pop()
    fenced = node.get("fenced", [])
    by = {step: [one["uuid"] for one in gpus if one["next"] == step] for step in NEXTS}
    last = max((one["next"] for one in gpus), key=NEXTS.index, default="nothing")
    work = {
        "next": last,
        "works": last in NEXTS[2:],
        "cases": [one["uuid"] for one in gpus if one["next"] != "nothing"],
        "fence": [
            one["uuid"] for one in gpus if one["verdict"] in FENCES and one["uuid"] not in fenced
        ],
        "new": [],
        "reset": by["reset"],
        "reboot": by["reboot"],
        "close": [],
        "together": bool(node.get("with_them")),
        "with_them": node.get("with_them", []),
        "evict": sorted({pod for one in gpus if one["next"] == "reset" for pod in one["pods"]}),
        "cordon": not args.get("fences", True) or last == "reboot",
    }
    lines = [f"GPU {one['uuid']}: {one['verdict']}" for one in gpus if one["next"] != "nothing"]
    return {
        "work": work,
        "gpus": gpus,
        "lines": lines,
        "cases": {uuid: {**CASE, **one, "attempts": tried(one)} for uuid, one in cases.items()},
        "in_repair": [uuid for uuid, one in cases.items() if one["stage"] != "released"],
        "held": node.get("lease", ""),
        "lease": {**LEASE, "holder": node["lease"]} if node.get("lease") else {},
        "change": standing(folder),
    }


def reset(args, check, node):
    """Reset GPUs as the node's file lets it."""
    users = [one for uuid in args["gpus"] for one in node.get("held_by", {}).get(uuid, [])]
    if check:
        return {"steps": [{"summary": f"reset {one}"} for one in args["gpus"]], "blocked_by": users}
    if users:
        return {"failed": True, "msg": "the GPU is in use", "refused": True, "blocked_by": users}
    stubborn = [one for one in args["gpus"] if one in node.get("stubborn", [])]
    done = [one for one in args["gpus"] if one not in stubborn]
    node["sick"].update({**dict.fromkeys(done, ""), **dict.fromkeys(stubborn, "reboot")})
    if stubborn:
        return {"failed": True, "msg": "it did not come back from the reset", "reset": done}
    return {"changed": True, "reset": done}


def answer(name, args, check, node, folder):
    """Return what a module says, and leave its mark on the node."""
    if name in ("gpu_info", "preflight", "plan"):
        gpus = [{"kind": "gpu"}] * node.get("gpus", 1)
        calls = planned(args, node) if name == "plan" and gpus else []
        info = {
            "pci_gpus": gpus,
            "missing_gpus": [],
            "nvml_available": True,
            "change": standing(folder),
        }
        return {"gpu_info": info, "calls": calls, "refused": node.get("refused", [])}
    if name in ("nvidia_driver", "mig"):
        key = "version" if name == "nvidia_driver" else "selected"
        changed = bool(args.get(key)) and node.get(name) != args[key]
        if changed and not check and node.get("users"):
            return {"failed": True, "msg": "GPUs are in use, and the driver was not touched"}
        if changed and not check:
            node[name] = args[key]
        nvml = {"nvml_available": not node.get("nvml"), "nvml_error": node.get("nvml", "")}
        return {"changed": changed, "blocked_by": node.get("users", []), **nvml}
    if name == "device_plugin":
        kept = [args["state"], (args.get("labels") or {}).get("output"), args.get("configs")]
        if args["state"] == "stopped":
            kept[1:] = node.get(name, kept)[1:]
        changed = node.get(name) != kept
        node[name] = kept
        return {"changed": changed}
    if name == "bundle":
        return {"bundle": {"path": args["path"], "files": 0, "size": 0, "sha256": ""}}
    if name == "repair":
        return repair(args, check, node, folder)
    if name == "gpu_reset":
        return reset(args, check, node)
    if name == "accept":
        usual = {"verdict": "passed", "faults": [], "not_measured": {}, "figures": {}}
        found = node.get("rows") or [{"uuid": args["gpus"][0], **node.get("tested", {})}]
        named = args["gpus"]
        rows = [{**usual, **row} for row in found if named == ["all"] or row["uuid"] in named]
        for row in rows:
            for figure, floor in (args.get("floors") or {}).items():
                row["verdict"] = "passed" if row["figures"][figure] >= floor else "failed"
        bad = [row["uuid"] for row in rows if row["verdict"] != "passed"]
        failed = {"failed": True, "msg": f"not accepted: {bad}"} if bad and args["fail"] else {}
        node.setdefault("tests", []).append(args["test"])
        gated = args.get("gate") or os.path.exists(os.path.join(folder, "gate"))
        held = [f"GPU {uuid}: not accepted" for uuid in bad] if gated else []
        node["held"] = held
        gate = {
            "on": gated,
            "open": not held,
            "holds_node": bool(held) and (args.get("scope") == "node" or len(bad) == len(rows)),
            "held": held,
        }
        return {"changed": True, "gpus": rows, "gate": gate, **failed}
    if name == "validate" and node.get("held"):
        text = f"acceptance: the gate holds GPUs back: {node['held'][0]}"
        return {"failed_checks": ["acceptance", *node.get("failed_checks", [])], "failure": text}
    if name == "gpu_evidence":
        path, data = os.path.join(folder, f"{args['gpus'][0]}.tar.gz"), b"evidence"
        with open(path, "wb") as stream:
            stream.write(data)
        return {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    if name == "quarantine":
        before = node.get("fenced", [])
        named, kept = args.get("gpus") or [], [one for one in before if one not in args["gpus"]]
        if not check:
            node["fenced"] = kept + (named if args["state"] == "present" else [])
        said = {"reason": args.get("reason", ""), "ticket": args.get("ticket", "")}
        told = {"node": said if args["state"] == "present" else None}
        return {"changed": node.get("fenced", []) != before, "quarantine": told, "gpus": named}
    if name == "settings":
        node["released_when_set"] = args.get("releasing", [])
        reasons = node.get("left_alone", {})
        return {"gpus": [{"uuid": uuid, "left_alone": text} for uuid, text in reasons.items()]}
    if name == "drain" and not check:
        node[name] = [args["state"], args.get("failure", "")]
        node["reason"] = args.get("reason", "")
        node["drains"] = args.get("names") or args.get("pods") or node.get("drains")
    return {}


def main():
    """Answer as the module whose name Ansible gave."""
    with open(sys.argv[1]) as stream:
        given = json.load(stream)
    args = {key: value for key, value in given.items() if not key.startswith("_ansible")}
    name = given["_ansible_module_name"].rpartition(".")[2]
    check = given["_ansible_check_mode"]
    # What is delegated to the controller names the node, or is about the whole cluster.
    path = os.environ.get("SCENE") or os.path.join(
        os.environ["SCENES"], args.get("node", "cluster"), "node.json"
    )
    with open(path) as stream:
        node = json.load(stream)
    mine = "quarantine" if args.get("quarantine") else ""
    words = " ".join(filter(None, [name, args.get("state", ""), mine, "check" if check else ""]))
    node.setdefault("log", []).append(words)
    folder = os.path.dirname(path)
    failure = node.get("fails", {}).get(words)
    said = {"failed": True, "msg": failure} if failure else answer(name, args, check, node, folder)
    for one, text in node.get("puts", {}).get(words, {}).items():  # what somebody else leaves then
        with open(os.path.join(folder, one), "w") as stream:
            stream.write(text)
    with open(path + ".new", "w") as stream:
        json.dump(node, stream)
    os.rename(path + ".new", path)
    print(json.dumps(merged({"changed": False, **RETURNED}, said)))


main()
