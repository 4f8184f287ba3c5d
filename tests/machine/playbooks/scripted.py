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

PARTS = ("environment", "driver", "toolkit", "runtime", "mig", "cdi", "device_plugin", "dcgm")
RETURNED = {}  # of the module
IN_ENVIRONMENT = {"mig", "cdi", "device_plugin"}


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


def answer(name, args, check, node, folder):
    """Return what a module says, and leave its mark on the node."""
    if name in ("gpu_info", "preflight", "plan"):
        gpus = ["a GPU"] * node.get("gpus", 1)
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
    if name == "quarantine":
        said = {"reason": args.get("reason", ""), "ticket": args.get("ticket", "")}
        return {"quarantine": {"node": said if args["state"] == "present" else None}}
    if name == "drain" and not check:
        node[name] = [args["state"], args.get("failure", "")]
        node["reason"] = args.get("reason", "")
        node["drains"] = args.get("pods") or node.get("drains")
    return {}


def main():
    """Answer as the module whose name Ansible gave."""
    with open(sys.argv[1]) as stream:
        given = json.load(stream)
    args = {key: value for key, value in given.items() if not key.startswith("_ansible")}
    name = given["_ansible_module_name"].rpartition(".")[2]
    check = given["_ansible_check_mode"]
    # What is delegated to the controller names the node.
    path = os.environ.get("SCENE") or os.path.join(os.environ["SCENES"], args["node"], "node.json")
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
    print(json.dumps({"changed": False, **RETURNED, **said}))


main()
