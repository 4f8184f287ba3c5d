# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A fault of each class on a node's GPUs, how a run of gpu.node.repair leaves each, and how long it takes.

GPUs are simulated: a reset takes no time here, and a boot is one of a container.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from gpunode_tool.testing import Node, Play

from tests.node.repair import times

ROUNDS = int(os.environ.get("REPAIR_ROUNDS", "20"))
GPUS = 16
REPAIR = "gpu.node.repair"
CTL = "/opt/nvsim/bin/nvsimctl"
CASES, QUARANTINE = "/var/lib/gpu-node/repair.json", "/var/lib/gpu-node/quarantine.json"
MARKER, LOG = "/var/lib/gpu-node/in-service", "/run/kernel.log"
# The simulated driver writes no kernel's log: these are the driver's own words, as dmesg prints them.
SAYS = """\
printf '#!/bin/sh\\ntest ! -e {log} || cat {log}\\n' >/usr/local/bin/dmesg
chmod 755 /usr/local/bin/dmesg
"""
FENCES, RELEASES = "Set the GPU aside", "Give the GPU back"


@dataclass(frozen=True)
class Fault:
    """A fault of a GPU, the verdict on it, and whether the run that finds it gives the GPU back.

    ``does`` and ``mends`` are commands of nvsimctl, with the index. ``xids`` are what is logged. ``tried`` is how often
    the GPU was reset before.
    """

    name: str
    verdict: str
    back: bool
    does: str = ""
    mends: str = ""
    xids: tuple[int, ...] = ()
    tried: int = 0

    @property
    def fences(self) -> bool:
        """Return whether the GPU is set aside."""
        return self.verdict not in ("restart_application", "recover_fabric")

    def commands(self, index: int, pci: str) -> Iterator[str]:
        """Yield the commands that bring the fault about."""
        for number in self.xids:
            text = f"NVRM: Xid (PCI:{pci.rpartition('.')[0]}): {number}, pid=4711, name=python3"
            yield f"""echo "[$(cut -d' ' -f1 /proc/uptime)] {text}" >>{LOG}"""
            yield f"{CTL} xid {index} {number}"
        if self.does:
            yield f"{CTL} {self.does.format(index)}"


RECOVERY = Fault("the driver asks for a reset", "reset", True, "recovery {} 1")
REQUIRED = Fault(
    "XID 95, and NVML says that a reset is required",
    "reset",
    True,
    "lose {} --how reset_required",
    xids=(95,),
)
AGAIN = Fault(
    "a fault that is back after a reset",
    "reboot",
    False,
    "recovery {} 1",
    "recovery {} 0",
    tried=1,
)
DRAIN = Fault("the driver asks for a drain and a reset", "drain_then_reset", True, "recovery {} 4")
USED = Fault(
    "the driver asks for a drain and a reset, and a pod has the GPU",
    "drain_then_reset",
    False,
    "recovery {} 4",
    "recovery {} 0",
)
LOST = Fault("XID 79, the GPU is lost", "reboot", False, "lose {}", "restore {}", (79,))
FABRIC = Fault(
    "the NVLink fabric is not healthy",
    "recover_fabric",
    False,
    "fabric-state {} 3 --health 1",
    "fabric-state {} 3",
)
MEMORY = Fault("a row remap failed", "replace", False, "wear {} on", "wear {} off")
UNKNOWN = Fault("an XID that the table lacks", "ask", False, xids=(999,))
APPLICATION = Fault(
    "XIDs 13, 45 and 63, of applications", "restart_application", False, xids=(13, 45, 63)
)


BESIDE = replace(
    RECOVERY,
    name="the driver asks for a reset, and another GPU is lost",
    back=False,
    mends="recovery {} 0",
)


TOGETHER = Fault(
    "the driver asks for a reset, and NVLink connects the GPU with another one",
    "reset_all",
    True,
    "recovery {} 1",
)
ANSWERS = Fault("XID 79, and the GPU still answers", "reboot", False, xids=(79,))
THIRD = replace(
    AGAIN, name="a fault that is back after a reset and a reboot", verdict="replace", tried=2
)


def rebooted(fault: Fault) -> Fault:
    """Return a fault that waits for a reboot, where that is allowed."""
    return replace(fault, name=f"{fault.name}; a reboot is allowed", back=True)


@dataclass(frozen=True)
class Gpu:
    """A GPU of the node."""

    index: int
    uuid: str
    pci: str


def gpus(node: Node) -> list[Gpu]:
    """Return the node's GPUs, and let its kernel's log be one that faults can be written to."""
    node.run("sh", "-c", SAYS.format(log=LOG))
    told = node.run("sh", "-c", "grep -H UUID /proc/driver/nvidia/gpus/*/information").splitlines()
    places = {line.split()[-1]: line.split("/")[5] for line in told}
    asked = ("--query-gpu=index,uuid", "--format=csv,noheader")
    rows = [one.split(", ") for one in node.run("nvidia-smi", *asked).splitlines() if one]
    return [Gpu(int(at), uuid, places[uuid]) for at, uuid in rows]


def bring_about(node: Node, faults: Mapping[Gpu, Fault]) -> float:
    """Bring faults about; returns when, in seconds since 1970."""
    at = datetime.now(UTC).timestamp()
    lines = [line for gpu, one in faults.items() for line in one.commands(gpu.index, gpu.pci)]
    node.run("sh", "-ec", "\n".join(lines))
    return at


def put_back(node: Node, faults: Mapping[Gpu, Fault], keep: Fault | None = None) -> None:
    """Make the node as it was before, with no history but that of the GPU with a fault, for the next one of it."""
    mends = [f"{CTL} {one.mends.format(gpu.index)}" for gpu, one in faults.items() if one.mends]
    told, kept = read(node, CASES), [gpu.uuid for gpu, fault in faults.items() if fault == keep]
    told["gpus"] = {uuid: told["gpus"][uuid] for uuid in kept}
    write = f'umask 077; printf %s "$1" >{CASES}.new; mv {CASES}.new {CASES}'
    script = [*mends, f"rm -f {LOG} {QUARANTINE}", write if kept else f"rm -f {CASES}"]
    node.run("sh", "-ec", "\n".join(script), "sh", json.dumps(told))


def variables(folder: Path) -> dict[str, Any]:
    """Return what the runs are given."""
    return {"repair_evidence_folder": str(folder / "evidence"), "repair_bug_report": "never"}


def read(node: Node, path: str) -> dict[str, Any]:
    """Return a file of the node, with no GPUs where it is not there."""
    text = node.run("sh", "-c", f"cat {path} 2>/dev/null || echo '{{\"gpus\": {{}}}}'")
    found: dict[str, Any] = json.loads(text)
    return found


def ended(node: Node, faults: Mapping[Gpu, Fault], folder: Path) -> None:
    """See that a run has left each GPU as the table of repair.md says, and nothing of itself."""
    told, aside = read(node, CASES), read(node, QUARANTINE)["gpus"]
    assert told.get("lease") is None
    assert node.run("sh", "-c", f"test ! -e {MARKER} && echo gone").strip() == "gone"
    for gpu, fault in faults.items():
        if not fault.fences:
            assert gpu.uuid not in told["gpus"], fault
            assert gpu.uuid not in aside, fault
            continue
        case = told["gpus"][gpu.uuid]
        results = [one["result"] for one in case["attempts"]]
        assert results == ["done"] * (fault.tried + fault.back), (fault, case)
        assert list((folder / "evidence").rglob(f"*{gpu.uuid}*.tar.gz")), fault
        if fault.back:
            assert (case["stage"], gpu.uuid in aside) == ("released", False), (fault, case)
        else:
            assert (case["stage"], case["verdict"]) == ("fenced", fault.verdict), (fault, case)
            assert aside[gpu.uuid]["by"] == "repair", fault
    waiting = {gpu.uuid for gpu, fault in faults.items() if fault.fences and not fault.back}
    assert set(aside) == waiting


def after(play: Play, uuid: str, since: float) -> dict[str, float]:
    """Return after how many seconds a GPU was set aside, and given back."""
    found = {}
    for event in play.runner.events:
        data = event.get("event_data", {})
        if event["event"] == "runner_on_ok" and data.get("task") in (FENCES, RELEASES):
            named = data["res"].get("invocation", {}).get("module_args", {}).get("gpus")
            if named == [uuid]:
                at = datetime.fromisoformat(event["created"])
                at = at if at.tzinfo else at.replace(tzinfo=UTC)
                found[data["task"]] = round(at.timestamp() - since, 2)
    return found


def repaired(
    node: Node,
    every: Mapping[Gpu, Fault],
    known: Mapping[str, Any],
    folder: Path,
    ends: Mapping[Gpu, Fault] | None = None,
) -> list[times.Repaired]:
    """Bring faults about, repair the node, and see what became of them, or of all in ``ends``.

    Returns how long it took of each.
    """
    since, ends = bring_about(node, every), ends or every
    play = node.play(REPAIR, **known)
    assert play.ok, play.message()
    ended(node, ends, folder)
    return list(_took(play, ends, since))


def _took(play: Play, faults: Mapping[Gpu, Fault], since: float) -> Iterator[times.Repaired]:
    for gpu, fault in faults.items():
        told = after(play, gpu.uuid, since)
        assert (RELEASES in told) == fault.back, (fault, told)
        yield times.Repaired(fault.name, fault.verdict, told.get(FENCES), told.get(RELEASES))


def turns(number: int, some: list[Gpu], others: list[Gpu]) -> dict[Gpu, Fault]:
    """Return the faults of GPUs in a round: first ones, and those of the GPUs that were reset in the round before."""
    fresh, before = (others, some) if number % 2 else (some, others)
    return {**dict.fromkeys(fresh, REQUIRED), **dict.fromkeys(before if number else (), AGAIN)}


def lost(found: list[Gpu]) -> dict[Gpu, Fault]:
    """Return the faults where half of some GPUs are lost."""
    return {**dict.fromkeys(found[::2], BESIDE), **dict.fromkeys(found[1::2], LOST)}


CABLES = ((0, 1), (2, 3), (4, 5), (6, 7))


class Chain(NamedTuple):
    """Faults that come back, from a reset over a reboot to a replacement: what three runs in a row find.

    The first run may reset, the second one finds that only a reboot helps, and the third one may reboot.
    """

    resets: dict[Gpu, Fault]
    waits: dict[Gpu, Fault]
    more: dict[Gpu, Fault]  # beside those that wait, when the third run begins

    @property
    def reboots(self) -> dict[Gpu, Fault]:
        """Return what ends with the reboot."""
        return {gpu: rebooted(one) for gpu, one in {**self.waits, **self.more}.items()}


def chains(found: list[Gpu]) -> Iterator[Chain]:
    """Yield the faults of each round on a node with sixteen GPUs; those that nothing connects take turns."""
    connected, others = found[:8], (found[8:12], found[12:])
    for number in range(ROUNDS // 4 + 1):  # as nothing can be back the third time in the first one
        first, third = others[number % 2], others[1 - number % 2]
        yield Chain(
            {
                **dict.fromkeys(connected[::2], TOGETHER),
                **dict.fromkeys(first, RECOVERY),
                **dict.fromkeys(third if number else (), THIRD),
            },
            {
                **dict.fromkeys(connected[::2], LOST),
                **dict.fromkeys(first, AGAIN),
            },
            dict.fromkeys(connected[1::2], ANSWERS),
        )


def connect(node: Node) -> None:
    """Connect GPUs by NVLinks, which is how it is until the next boot."""
    for one, other in CABLES:
        node.run(CTL, "cable", str(one), str(other))
