# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Inventories to copy: Ansible reads them, and nodes with their variables would refuse none of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.examples import rendered
from tests.docs.tables import examples, pages
from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "files/inventories"
EVERY = sorted(one for one in FOLDER.iterdir())
PAGE = REPOSITORY / "docs/reference/inventories.md"
# Variables of other tools, and of Ansible, which has ansible_local whatever INJECT_FACTS_AS_VARS says.
FOREIGN = {"nvidia_accelerator_enabled", "enable_cdi", "ansible_local"}


def read(folder: Path) -> dict[str, Any]:
    """Return what Ansible makes of an inventory: hosts by group, and the variables of each host."""
    words = ["ansible-inventory", "--inventory", str(folder), "--list"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def hosts(found: dict[str, Any], group: str) -> set[str]:
    """Return the hosts of a group, and of the groups below it."""
    of = found.get(group, {})
    below = (hosts(found, one) for one in of.get("children", []))
    return set(of.get("hosts", [])).union(*below)


def wrong(variables: dict[str, Any]) -> list[str]:
    """Return what is wrong with the variables of a host."""
    ours = {name: value for name, value in variables.items() if name not in FOREIGN}
    if unknown := [f"{name} is unknown" for name in ours if name not in examples.SPECS]:
        return unknown
    said = [text for name, value in ours.items() for text in examples.refused(name, value)]
    return said or rendered.refused(ours)


@pytest.mark.parametrize("folder", EVERY, ids=lambda folder: folder.name)
def test_a_node_of_an_inventory_would_refuse_nothing(folder: Path) -> None:
    found = read(folder)
    nodes = hosts(found, "gpu_nodes")
    assert nodes
    of = found["_meta"]["hostvars"]
    assert {node: said for node in nodes if (said := wrong(of[node]))} == {}


def test_what_is_wrong_in_an_inventory_is_seen() -> None:
    assert wrong({"mig_selectd": "half"}) == ["mig_selectd is unknown"]
    assert (
        "3g.40gb"
        in wrong(
            {"mig_config": [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 9}}]}
        )[0]
    )


def test_the_groups_are_those_of_the_page() -> None:
    models = read(FOLDER / "two-models")
    assert hosts(models, "a100") | hosts(models, "h100") == hosts(models, "gpu_nodes")
    variables = models["_meta"]["hostvars"]
    assert "mig_config" in variables["node-1"]
    assert "mig_config" not in variables["node-3"]
    kubespray = read(FOLDER / "kubespray")
    assert hosts(kubespray, "gpu_nodes") < hosts(kubespray, "kube_node")
    first = read(FOLDER / "first-one")
    assert len(hosts(first, "first")) == 1
    assert len(hosts(first, "gpu_nodes")) == 50
    text = PAGE.read_text()
    assert [one.name for one in EVERY if f"](../../files/inventories/{one.name})" not in text] == []


def test_the_graph_on_the_page_is_the_one_that_ansible_draws() -> None:
    words = ["ansible-inventory", "--inventory", str(FOLDER / "two-models"), "--graph"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    (shown,) = (one for one in pages.blocks(PAGE.read_text(), "console") if "--graph" in one)
    assert shown.partition("--graph\n")[2] == done.stdout
