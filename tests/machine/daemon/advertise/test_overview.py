# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin status``: who has which device, also when one of those who know is away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_plugin.model.mps.paths import Names
from gpu_plugin.mps.state import READY, Report

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node


GPU = "nvidia.com/gpu"


# --- on a node ---


def shown(node: Node, *words: str) -> Any:
    return node.cli(
        *("status", "--status-file", node.status_file, "--pod-resources", node.pods),
        *("--mps-root", node.folder / "mps"),
        *("--labels-status-file", node.folder / "labels.json", *words),
    )


def test_who_has_what_on_a_node(make_node: MakeNode) -> None:
    node = make_node(2)
    node.layout(1, "3g.40gb", "1g.10gb")
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: mixed}")
    whole = next(iter(node.wait(GPU, 1)["devices"]))
    for profile in ("3g.40gb", "1g.10gb"):
        node.wait(f"nvidia.com/mig-{profile}", 1)
    node.admit("train", **{"gpu": 1, "mig-1g.10gb": 1})
    (node.folder / "mps").mkdir()
    assert node.daemon is not None
    Report(Names(whole, str(node.folder / "mps")), node.daemon.pid).state(READY)

    lines = shown(node).stdout.splitlines()
    assert "nvidia.com/gpu: 1 of 1 healthy, registered" in lines
    start = next(at for at, line in enumerate(lines) if line.startswith("DEVICE"))
    end = lines.index("", start)
    assert lines[end + 1] == "MPS"
    cells = [line.split("  ") for line in lines[start + 1 : end]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in cells]
    user = "default/train (main)"
    assert cells[0][0] == "0"
    assert cells[0][2:] == [whole, GPU, "-", "Healthy", "ready, 0 clients", user]
    assert cells[1][:2] == ["1", "NVIDIA H100 80GB HBM3"]
    assert cells[1][3:] == ["-"] * 5
    users = {line[1]: line[-1] for line in cells[2:]}
    assert users == {"3g.40gb": "-", "1g.10gb": user}

    node.sim.ctl("xid", gpu="0", number=48)
    node.wait(GPU, 0)
    told = json.loads(shown(node, "--json").stdout)
    assert told["state"] == "serving"
    assert told["allocatable"] == {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 1}
    assert told["driver_problem"] is None
    assert told["kubelet_problem"] is None
    row = told["hardware"][0]
    assert (row["uuid"], row["health"], row["shares"]) == (whole, "Unhealthy", 1)
    assert "XID 48" in row["problem"]
    assert row["used_by"] == [
        {"namespace": "default", "pod": "train", "container": "main", "shares": 1}
    ]


def test_nobody_is_there(make_node: MakeNode) -> None:
    node = make_node(1, driver=None)
    nothing = shown(node)
    assert nothing.returncode == 3
    assert nothing.stderr == "gpu-plugin is not running\n"
    assert "not known: NVML failed while" in nothing.stdout
    assert (
        f"not known: the kubelet does not report which pods have which devices ({node.pods})"
        in (nothing.stdout)
    )
    told = json.loads(shown(node, "--json").stdout)
    assert (told["state"], told["hardware"], told["resources"]) == ("not_running", [], {})
    assert told["driver_problem"].startswith("NVML failed")

    node.start_daemon()
    eventually(lambda: node.status()["state"] == "waiting_for_driver")
    assert shown(node).returncode == 0
