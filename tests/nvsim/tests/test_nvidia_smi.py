# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The genuine nvidia-smi as a second, independent client."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

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


def test_driver_not_loaded_and_mismatch(smi: Smi) -> None:
    with start("h100-80", 1, driver=None) as sim:
        assert "couldn't communicate with the NVIDIA driver" in smi(sim, status=9)
        sim.ctl("load", version="535.1", flavour="open")
        assert "Driver/library version mismatch" in smi(sim, status=18)
