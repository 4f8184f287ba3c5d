# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin status``: who has which device, also when one of those who know is away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from gpu_plugin.mps.paths import Names
from gpu_plugin.mps.state import READY, Report
from gpu_plugin.offer.devices import WAY_BACK
from gpu_plugin.offer.overview import Hardware, Holder, Row, Use, rows, table

if TYPE_CHECKING:
    from conftest import MakeNode
    from running import Node

running = pytest.importorskip("running", exc_type=ImportError)
eventually = running.eventually

GPU = "nvidia.com/gpu"
CARD = [Hardware("0", "H100", "GPU-a"), Hardware("1", "H100", "GPU-b")]
HOLDER = Holder("default", "one", "main")


def resource(*ids: str, **problems: str) -> dict[str, Any]:
    health = {one: "Unhealthy" if one in problems else "Healthy" for one in ids}
    return {"devices": health, "problems": problems, "registered": True}


def test_whole_devices() -> None:
    offered = {GPU: {**resource("GPU-a", "GPU-b"), "problems": {"GPU-b": "XID 48"}}}
    assert rows(CARD, offered, {"GPU-a": [HOLDER]}, []) == [
        Row("0", "H100", "GPU-a", GPU, 1, "Healthy", used_by=[Use("default", "one", "main", 1)]),
        Row("1", "H100", "GPU-b", GPU, 1, "Unhealthy", "XID 48"),
    ]


def test_shares_are_counted_by_device_and_container() -> None:
    offered = {"nvidia.com/gpu.shared": resource(*(f"GPU-a::{n}" for n in range(4)))}
    other = Holder("team", "two", "main")
    holders = {"GPU-a::0": [HOLDER], "GPU-a::3": [HOLDER], "GPU-a::1": [other]}
    mps = {"device": "GPU-a", "state": "ready", "clients": 3}
    first, second = rows(CARD, offered, holders, [mps])
    assert (first.shares, first.mps, first.mps_clients) == (4, "ready", 3)
    assert first.used_by == [
        Use("default", "one", "main", 2),
        Use("team", "two", "main", 1),
    ]
    assert (second.resource, second.shares, second.health) == ("", 0, "")
    assert table([first, second]).splitlines() == [
        "DEVICE  NAME  UUID   RESOURCE               SHARES  HEALTH   MPS               USED BY",
        "0       H100  GPU-a  nvidia.com/gpu.shared  3/4     Healthy  ready, 3 clients  "
        "default/one (main) x2, team/two (main)",
        "1       H100  GPU-b  -                      -       -        -                 -",
    ]


def test_what_mends_a_fault_does_not_widen_the_table() -> None:
    why = f"XID 48{WAY_BACK}a reset of the GPU"
    (row,) = rows(CARD[:1], {GPU: {**resource("GPU-a"), "problems": {"GPU-a": why}}}, {}, [])
    assert row.problem == why
    assert "Unhealthy: XID 48  " in table([row])
    assert "a reset" not in table([row])


def test_what_the_driver_does_not_know_is_there_too() -> None:
    (row,) = rows([], {GPU: resource("GPU-a")}, {}, [])
    assert (row.index, row.uuid, row.health) == ("", "GPU-a", "Healthy")


def test_a_device_that_is_held_though_nobody_offers_it() -> None:
    first, _second = rows(CARD, {}, {"GPU-a": [HOLDER]}, [])
    assert first.used_by == [Use("default", "one", "main", 1)]


# --- on a node ---


def shown(node: Node, *words: str) -> Any:
    return node.cli(
        *("status", "--status-file", node.status_file, "--pod-resources", node.pods),
        *("--mps-root", node.folder / "mps"),
        *("--labels-status-file", node.folder / "labels.json", *words),
    )


@pytest.mark.slow
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
    eventually(lambda: node.resources()[GPU] == 0)
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


@pytest.mark.slow
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
