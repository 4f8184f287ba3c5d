# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration on the page about GPUs of Slurm, read by genuine Slurm on a node in service."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.docs.tables import pages
from tests.support.paths import DOCS
from tests.support.waiting import eventually

pytestmark = [pytest.mark.node, pytest.mark.long]

PAGE = (DOCS / "slurm/gres.md").read_text()
PREPARE = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client slurm-wlm-nvml-plugin munge
"""
# What a cluster of one node needs beside the page's lines, which are about a node.
CLUSTER = """
ClusterName=here
SlurmctldHost={name}
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ReturnToService=2
"""


def written(name: str) -> list[tuple[str, str]]:
    """Return the files that the page has, each by its path, as they are for a node of that name."""
    blocks = [*pages.blocks(PAGE, "ini"), *pages.blocks(PAGE, "sh")]
    lines = [next(one for one in text.splitlines() if "/etc/slurm/" in one) for text in blocks]
    paths = [line.removeprefix("# ").split(",")[0] for line in lines]
    texts = [text.replace("node-1", name) for text in blocks]
    return list(zip(paths, texts, strict=True))


def put(node: Node, path: str, text: str) -> None:
    """Write a file of Slurm on the node."""
    node.run("sh", "-c", 'printf %s "$2" >"$1"', "sh", path, text)


def gres(node: Node) -> list[str]:
    """Return what slurmd makes of gres.conf, device by device."""
    said = node.run("sh", "-c", "slurmd -G 2>&1")
    return [line for line in said.splitlines() if "Gres Name=gpu" in line]


def test_slurm_takes_what_the_page_has_and_keeps_a_job_to_its_gpu(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("gres", "h100-80", 4)
    node.run("sh", "-c", PREPARE)
    host = node.run(
        "hostname"
    ).strip()  # slurmd knows itself by it, and a snapshot has that of its first node
    files = written(host)
    detected, explicit = (text for path, text in files if path.endswith("gres.conf"))
    for path, text in files:
        more = CLUSTER.format(name=host) if path.endswith("slurm.conf") else ""
        put(node, path, more + text)
    node.run("chmod", "0755", "/etc/slurm/prolog")

    put(node, "/etc/slurm/gres.conf", explicit)
    (one,) = gres(node)
    assert "Type=h100 Count=4" in one
    assert "File=/dev/nvidia[0-3]" in one
    put(node, "/etc/slurm/gres.conf", detected)
    assert [line.partition("File=")[2].split()[0] for line in gres(node)] == [
        f"/dev/nvidia{n}" for n in range(4)
    ]

    node.run("systemctl", "restart", "munge", "slurmctld", "slurmd")
    eventually(lambda: node.run("sinfo", "--noheader", "--format=%T").strip(), "idle")
    opens = "for n in 0 1; do (exec 3</dev/nvidia$n) 2>&1; done; echo $CUDA_VISIBLE_DEVICES"
    said = node.run("sh", "-c", f"srun --gres=gpu:1 sh -c '{opens}' 2>&1")
    assert said.splitlines()[-1] == "0"
    assert "/dev/nvidia1: Operation not permitted" in said
    assert "/dev/nvidia0: Operation not permitted" not in said

    # A GPU is set aside: no job starts.
    aside = node.play("gpu.node.quarantine", quarantine_gpus=[3], quarantine_reason="fan")
    assert aside.ok, aside.message()
    node.run("sbatch", "--gres=gpu:1", "--output=/dev/null", "--wrap=true")
    eventually(lambda: "Prolog" in node.run("scontrol", "show", "node", host), True)
