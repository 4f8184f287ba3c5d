# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The role fractions refuses HAMi's configuration before it asks a cluster; what the pages show is none of that."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runner.tiers import long_but_first
from tests.support.paths import REPOSITORY

NAME = "fractions_device_config"
UNREACHED = "kubeconfig (gpu_nodes_kubeconfig): 'none.conf' can't be read"
IMAGE = {"fractions_image": "registry.example.com/gpu-node-webhook@sha256:" + "1" * 64}
BLOCK = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples() -> list[Any]:
    """Return the variables of each example on a page that has HAMi's configuration."""
    return [
        pytest.param(found, id=path.stem)
        for path in sorted((REPOSITORY / "docs").rglob("*.md"))
        for block in BLOCK.findall(path.read_text())
        if NAME in block
        for found in variables(yaml.safe_load(block))
    ]


def variables(data: Any) -> list[Any]:
    """Return the mappings in which the variable is."""
    if not isinstance(data, dict):
        return []
    inner = [found for one in data.values() for found in variables(one)]
    return [data, *inner] if NAME in data else inner


def play(folder: Path, **given: Any) -> str:
    """Run the role in check mode without a cluster, beside a file of HAMi's, and return what it says.

    The inventory is a file, as the pages look for HAMi's configuration in its folder.
    """
    (folder / "hosts").write_text("node\n")
    (folder / "device-config.yaml").write_text("nvidia:\n  defaultMem: 2000\n")
    role = {"ansible.builtin.import_role": {"name": "gpu.node.fractions"}}
    one = {"hosts": "all", "gather_facts": False, "vars": given, "tasks": [role]}
    (folder / "play.yml").write_text(yaml.safe_dump([one]))
    kubeconfig = json.dumps({"gpu_nodes_kubeconfig": "none.conf"})
    words = ["ansible-playbook", "--inventory", "hosts", "--check", "-e", kubeconfig, "play.yml"]
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
    return done.stdout.replace(str(folder) + "/", "") + done.stderr


@pytest.mark.long
def test_a_files_name_is_refused_before_a_cluster_is_asked(tmp_path: Path) -> None:
    said = play(tmp_path, **IMAGE, **{NAME: "device-config.yaml"})
    assert "fractions_device_config: 'device-config.yaml' is not valid: expected a mapping" in said
    assert "{{ lookup('ansible.builtin.file', 'device-config.yaml') }}" in said
    assert "none.conf" not in said


@pytest.mark.long
def test_what_no_webhook_reads_is_not_looked_at(tmp_path: Path) -> None:
    """A configuration that is wrong does not keep anything from being removed."""
    said = play(tmp_path, fractions_state="absent", **{NAME: "device-config.yaml"})
    assert UNREACHED in said


@pytest.mark.parametrize("found", long_but_first(examples()))
def test_the_pages_examples_are_read(tmp_path: Path, found: Any) -> None:
    said = play(tmp_path, **{**found, **IMAGE})
    assert UNREACHED in said
    assert NAME not in said
