# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A scontrol that replays what that of Slurm 24.11.5 said; a file has the states and reasons of its nodes.

A node's ``refusals`` are what it says in place of an answer, one after the other, by the command. tests/node/slurm
runs the hooks and gpu-plugin against the genuine one.
"""

from __future__ import annotations

import fcntl
import json
import signal
import sys
from pathlib import Path
from typing import Any

SHOWN = """\
NodeName={name} Arch=x86_64 CoresPerSocket=1{blank}
   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=4.63
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=(null)
   NodeAddr={name} NodeHostName={name} Version=24.11.5
   OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0{blank}
   RealMemory=1 AllocMem=0 FreeMem=14973 Sockets=2 Boards=1
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=main{blank}
   BootTime=2026-11-21T20:55:53 SlurmdStartTime=2026-11-22T10:35:01
   LastBusyTime=2026-11-22T10:35:01 ResumeAfterTime=None
   CfgTRES=cpu=2,mem=1M,billing=2
   AllocTRES=
   CurrentWatts=0 AveWatts=0
   {blank}"""
HANGS = "hangs"
SILENT = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
NOT_ROOT = "slurm_update error: Invalid user id"
Node = dict[str, Any]


def show(name: str, node: Node) -> str:
    """Show the node; where several states are left, the next one holds afterwards."""
    state = node["states"].pop(0) if len(node["states"]) > 1 else node["states"][0]
    reason = f"\n   Reason={node['reason']} [root@2026-11-22T10:35:25]" if node["reason"] else ""
    more = f"\n   Comment={node['comment']}" if node.get("comment") else ""
    return SHOWN.format(name=name, state=state, blank=" ") + reason + more + "\n"


def update(given: dict[str, str], node: Node) -> None:
    """Drain the node or give it back."""
    if given["State"] == "DRAIN":
        node["reason"] = given["Reason"]
        node["states"] = [one if "+DRAIN" in one else f"{one}+DRAIN" for one in node["states"]]
    elif given["State"] == "UNDRAIN":  # also of a node that is not drained
        node["states"] = [node["states"][0].replace("+DRAIN", "")]
    elif "DRAIN" not in node["states"][0]:
        sys.exit("slurm_update error: Invalid node state specified")
    else:
        node["states"] = [node["states"][0].split("+")[0]]  # the reason stays
    node["updates"].append(given)


def main(words: list[str], path: Path) -> None:
    """Answer a command."""
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        nodes = json.load(file)
        given = dict(one.split("=", 1) for one in words if "=" in one)
        name = given.get("NodeName", words[-1])
        if name not in nodes:
            print(f"Node {name} not found")
            sys.exit(1)
        refusals = nodes[name].get("refusals", {}).get(words[0])
        refusal = refusals.pop(0) if refusals else ""
        if not refusal and words[0] == "show":
            sys.stdout.write(show(name, nodes[name]))
        elif not refusal:
            update(given, nodes[name])
        file.seek(0)
        file.truncate()
        json.dump(nodes, file)
    if refusal == HANGS:
        signal.pause()
    if refusal:
        sys.exit(refusal)


if __name__ == "__main__":
    main(sys.argv[1:], Path(__file__).with_name("nodes.json"))
