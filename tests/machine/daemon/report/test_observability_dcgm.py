# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The dashboard's queries of DCGM's metrics, carried out by the genuine promtool on series as the exporter writes them.

The device plugin serves on one port and the exporter on another, and for MIG devices the two have other UUIDs.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import yaml
from nvsim import genuine

from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "files/observability"
PANELS = {
    one["title"]: one["targets"][0]["expr"].replace("$instance", "10.0.0.5:9402")
    for one in json.loads((FOLDER / "dashboard.json").read_text())["panels"]
}
SICK, WELL, SPLIT, OTHER = "GPU-1", "GPU-2", "GPU-3", "GPU-9"
HERE, THERE = "10.0.0.5", "10.0.0.6"
POD = 'namespace="research",pod="training",container="main"'


def dcgm(
    metric: str, value: float, uuid: str, gpu: str, more: str = "", host: str = HERE
) -> dict[str, str]:
    labels = f'instance="{host}:9400",job="dcgm",gpu="{gpu}",UUID="{uuid}",hostname="n"'
    return {"series": f"{metric}{{{labels}{more and f',{more}'}}}", "values": f"{value}x5"}


def plugin(metric: str, value: float, labels: str = "", host: str = HERE) -> dict[str, str]:
    base = f'instance="{host}:9402",job="gpu-node"'
    return {"series": f"{metric}{{{base}{labels and f',{labels}'}}}", "values": f"{value}x5"}


SERIES = [
    plugin("gpu_plugin_build_info", 1, 'version="1"'),
    plugin("gpu_plugin_build_info", 1, 'version="1"', THERE),
    plugin("gpu_plugin_device_health", 0, f'uuid="{SICK}",index="0",reason="fault"'),
    plugin("gpu_plugin_device_health", 1, f'uuid="{WELL}",index="1",reason=""'),
    plugin("gpu_plugin_device_health", 1, 'uuid="MIG-5",index="2:0",reason=""'),
    plugin("gpu_plugin_xids_total", 2, f'gpu="{SICK}",xid="79",action="fatal"'),
    dcgm("DCGM_FI_DEV_GPU_UTIL", 40, SICK, "0", POD),
    # Two pods share it: the same of each.
    dcgm("DCGM_FI_DEV_GPU_UTIL", 70, WELL, "1", 'namespace="a",pod="one",vgpu="0"'),
    dcgm("DCGM_FI_DEV_GPU_UTIL", 70, WELL, "1", 'namespace="a",pod="two",vgpu="1"'),
    dcgm("DCGM_FI_DEV_GPU_UTIL", 99, OTHER, "0", host=THERE),
    dcgm("DCGM_FI_DEV_POWER_USAGE", 300, WELL, "1", 'namespace="a",pod="one",vgpu="0"'),
    dcgm("DCGM_FI_DEV_POWER_USAGE", 300, WELL, "1", 'namespace="a",pod="two",vgpu="1"'),
    dcgm("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, SPLIT, "2", 'GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"'),
    dcgm("DCGM_FI_DEV_XID_ERRORS", 79, SICK, "0", POD),
    dcgm("DCGM_FI_DEV_XID_ERRORS", 0, WELL, "1"),
]
NODE = f'node="{HERE}"'
EXPECTED = {
    "GPU utilization by pod": [
        (f'{{{NODE},gpu="0",namespace="research",pod="training"}}', 40),
        (f'{{{NODE},gpu="1",namespace="a",pod="one"}}', 70),
        (f'{{{NODE},gpu="1",namespace="a",pod="two"}}', 70),
    ],
    "Power by GPU": [(f'{{{NODE},gpu="1"}}', 300)],
    "Engine, tensor and memory activity": [(f'{{{NODE},gpu="2",GPU_I_ID="3"}}', 0.5)],
    "Last XID of GPUs that reported one": [
        (f'{{UUID="{SICK}",gpu="0",namespace="research",pod="training"}}', 79)
    ],
    "Utilization of unhealthy GPUs": [
        (f'{{UUID="{SICK}",gpu="0",namespace="research",pod="training"}}', 40)
    ],
    "GPU memory used by pod": [],
}


def test_dashboard_joins_dcgm_and_the_device_plugin(tmp_path: Path) -> None:
    asked = [
        {
            "expr": PANELS[title],
            "eval_time": "1m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in found],
        }
        for title, found in EXPECTED.items()
    ]
    test = {"interval": "1m", "input_series": SERIES, "promql_expr_test": asked}
    file = tmp_path / "test.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]})
    )
    words = [genuine.promtool(), "test", "rules", file]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_query_of_dcgms_metrics_is_about_the_chosen_nodes() -> None:
    queries = [one for one in PANELS.values() if "DCGM_" in one]
    assert len(queries) == 8
    assert all('{instance=~"10.0.0.5:9402"}' in one for one in queries)
