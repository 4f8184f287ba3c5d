# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long a simulation of 1,000 nodes and 10,000 pods takes, on one core and with the reading of its files.

Once the nodes are those of an inventory, where many are equal, once they are ResourceSlices of nodes that all differ,
as a cluster has them.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_cluster import cli
from gpu_cluster.simulate import inventory

NODES, PODS, KINDS = 1000, 10_000, 50
Json = dict[str, Any]
ROWS = (
    {
        "name": "h100",
        "count": 600,
        "cpu": 128,
        "memory": "1Ti",
        "gpus": [{"product": "H100 80GB", "count": 2}],
    },
    {
        "name": "v100",
        "count": 300,
        "cpu": 64,
        "memory": "512Gi",
        "gpus": [{"product": "V100 32GB", "count": 2}],
    },
    {"name": "mig", "count": 100, "gpus": [{"product": "A100 80GB", "count": 2, "mig": True}]},
)


def pods(kinds: int = KINDS, number: int = PODS) -> list[Json]:
    """Return Deployments of several kinds of pods with HAMi's resources, more than the nodes have room for."""
    chance = random.Random(1)
    made = []
    for kind in range(kinds):
        limits: Json = {
            "nvidia.com/gpu": 1,
            "nvidia.com/gpumem": chance.randint(1, 40) * 1000 + kind,
        }
        if chance.random() < 0.5:
            limits["nvidia.com/gpucores"] = chance.choice((10, 30, 50))
        if chance.random() < 0.2:
            limits = {"nvidia.com/gpu": chance.choice((1, 2))}
        container = {
            "name": "c",
            "resources": {"limits": limits, "requests": {"cpu": "1", "memory": "4Gi"}},
        }
        mode = (
            {"nvidia.com/vgpu-mode": "mig"}
            if "nvidia.com/gpumem" in limits and kind % 10 == 0
            else {}
        )
        template = {"metadata": {"annotations": mode}, "spec": {"containers": [container]}}
        meta = {"name": f"kind-{kind}"}
        spec = {"replicas": number // kinds, "template": template}
        made.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    return made


def unequal(nodes: int = NODES) -> list[Json]:
    """Return the slices of nodes each of which has GPUs with UUIDs of its own."""
    made = []
    for number in range(nodes):
        row = {**ROWS[number % len(ROWS)], "name": f"n{number}"}
        row.pop("count")
        _nodes, slices = inventory.nodes(json.dumps({"nodes": [row]}), "nodes")
        for one in slices:
            one["metadata"]["name"] = f"n{number}-{one['metadata']['name']}"
        made += slices
    return made


def simulated(*words: str) -> tuple[float, Json]:
    """Return the seconds that the command takes of one core, and what it found."""
    shown = io.StringIO()
    begun = time.process_time()
    with contextlib.redirect_stdout(shown):
        status = cli.main(["simulate", "--json", *words])
    seconds = time.process_time() - begun
    if status not in (0, 3):
        raise SystemExit(status)
    return seconds, json.loads(shown.getvalue())


def measured(folder: Path, kinds: int = KINDS) -> dict[str, tuple[float, Json]]:
    """Return seconds and answers by what the nodes are."""
    files = {name: folder / name for name in ("nodes.json", "slices.json", "pods.json")}
    files["nodes.json"].write_text(json.dumps({"nodes": ROWS}))
    files["slices.json"].write_text(json.dumps({"kind": "List", "items": unequal()}))
    files["pods.json"].write_text(json.dumps({"kind": "List", "items": pods(kinds)}))
    where = {"equal nodes": "nodes", "unequal nodes": "slices"}
    return {
        name: simulated(
            f"--{'inventory' if of == 'nodes' else of}",
            str(files[f"{of}.json"]),
            str(files["pods.json"]),
        )
        for name, of in where.items()
    }


def main() -> None:
    """Print how long it takes."""
    with tempfile.TemporaryDirectory() as folder:
        for kinds in (1, KINDS, 1000):
            for name, (seconds, found) in measured(Path(folder), kinds).items():
                print(
                    f"simulate, {NODES} {name}, {PODS} pods of {kinds} kinds: {seconds:.1f} s, "
                    f"{found['running']} run and {found['pending']} wait"
                )


if __name__ == "__main__":
    main()
