# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The genuine nvidia-smi as a second, independent client."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from nvsim.testing import Sim, start

Smi = Callable[..., str]


def test_list_and_query(smi: Smi, h100: Sim) -> None:
    assert smi(h100, "-L").count("NVIDIA H100 80GB HBM3") == 8
    table = smi(
        h100,
        "--query-gpu=index,name,driver_version,mig.mode.current,memory.total",
        "--format=csv,noheader",
    )
    assert table.splitlines()[7] == "7, NVIDIA H100 80GB HBM3, 550.163.01, Disabled, 81559 MiB"
    assert "Product Architecture                  : Hopper" in smi(h100, "-q", "-i", "0")
    assert "550.163.01" in smi(h100)


def test_xml(smi: Smi, a100: Sim) -> None:
    root = ET.fromstring(smi(a100, "-q", "-x"))
    assert [gpu.findtext("product_name") for gpu in root.iter("gpu")] == [
        "NVIDIA A100-SXM4-40GB"
    ] * 2
    uuids = [gpu.findtext("uuid") for gpu in root.iter("gpu")]
    assert uuids == [gpu["uuid"] for gpu in a100.ctl("status")["gpus"]]


def test_mig_from_mode_to_instances(smi: Smi, a100: Sim) -> None:
    assert "Enabled MIG Mode for GPU" in smi(a100, "-i", "0", "-mig", "1")
    profiles = " ".join(smi(a100, "mig", "-lgip", "-i", "0").split())
    for row in ("MIG 1g.5gb 19 7/7 4.75", "MIG 3g.20gb 9 2/2 19.50"):
        assert row in profiles
    assert "using profile MIG 3g.20gb (ID  9)" in smi(a100, "mig", "-cgi", "9", "-C", "-i", "0")
    listed = smi(a100, "mig", "-lgi")
    assert "MIG 3g.20gb" in listed
    assert "4:4" in listed
    assert "MIG 3g.20gb     Device  0" in smi(a100, "-L")
    assert "Successfully destroyed compute instance" in smi(a100, "mig", "-dci", "-i", "0")
    assert "Successfully destroyed GPU instance" in smi(a100, "mig", "-dgi", "-i", "0")
    assert "No GPU instances found" in smi(a100, "mig", "-lgi", status=6)


def test_processes(smi: Smi, h100: Sim) -> None:
    asked = ("--query-compute-apps=pid,name,used_memory,gpu_uuid", "--format=csv,noheader")
    assert smi(h100, *asked) == ""
    assert "No running processes found" in smi(h100)
    holders = [h100.hold(gpu) for gpu in (0, 0, 3)]
    try:
        uuids = [gpu["uuid"] for gpu in h100.ctl("status")["gpus"]]
        told = [tuple(line.split(", ")) for line in smi(h100, *asked).splitlines()]
        assert [(int(pid), uuid) for pid, _name, _memory, uuid in told] == [
            (holder.pid, uuids[gpu]) for holder, gpu in zip(holders, (0, 0, 3), strict=True)
        ]
        assert {(name, memory) for _pid, name, memory, _uuid in told} == {
            (sys.executable, "256 MiB")
        }
        ids = [f"Process ID                        : {one.pid}" for one in holders]
        assert all(one in smi(h100, "-q", "-d", "PIDS") for one in ids)
    finally:
        for one in holders:
            h100.let_go(one)
    assert smi(h100, *asked) == ""


def test_driver_not_loaded_and_mismatch(smi: Smi) -> None:
    with start("h100-80", 1, driver=None) as sim:
        assert "couldn't communicate with the NVIDIA driver" in smi(sim, status=9)
        sim.ctl("load", version="535.1", flavour="open")
        assert "Driver/library version mismatch" in smi(sim, status=18)


def matrix(text: str) -> list[list[str]]:
    """Return the rows of a topology matrix, each without its name."""
    return [line.split("\t")[1:] for line in text.splitlines() if line.startswith("GPU")]


@pytest.mark.parametrize(("product", "links"), [("h100-80", "NV18"), ("a100-80", "NV12")])
def test_topology_of_gpus_behind_switches(smi: Smi, product: str, links: str) -> None:
    """The same as on a DGX with eight GPUs: bonded links between all, half of the processors for each four."""
    with start(product, 8) as sim:
        shown = smi(sim, "topo", "-m")
    assert shown.splitlines()[0].strip("\t\x1b[40m").split("\t")[-3:] == [
        "CPU Affinity",
        "NUMA Affinity",
        "GPU NUMA ID",
    ]
    for index, row in enumerate(matrix(shown)):
        assert [one.strip() for one in row[:8]] == [
            "X" if at == index else links for at in range(8)
        ]
        half = ["0-31", "0"] if index < 4 else ["32-63", "1"]
        assert [one for one in row[8:] if one] == [*half, "N/A"]


def test_topology_without_nvlink(smi: Smi) -> None:
    with start("t4", 6) as sim:
        rows = matrix(smi(sim, "topo", "-m"))
    assert [one.strip() for one in rows[0][:6]] == ["X", "PIX", "NODE", "SYS", "SYS", "SYS"]
    assert [one.strip() for one in rows[5][:6]] == ["SYS", "SYS", "SYS", "NODE", "PIX", "X"]


def test_topology_of_cabled_gpus(smi: Smi) -> None:
    with start("v100", 4) as sim:
        sim.ctl("cable", gpu="0", other="2", links=2)
        sim.ctl("cable", gpu="1", other="3", links=1)
        rows = [[one.strip() for one in row[:4]] for row in matrix(smi(sim, "topo", "-m"))]
        paths = [[one.strip() for one in row[:4]] for row in matrix(smi(sim, "topo", "-mp"))]
    assert rows[0] == ["X", "PIX", "NV2", "SYS"]
    assert rows[3] == ["SYS", "NV1", "PIX", "X"]
    assert paths[0] == ["X", "PIX", "SYS", "SYS"]
