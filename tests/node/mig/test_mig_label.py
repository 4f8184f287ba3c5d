# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A label of the node names its MIG layout, through the playbooks and the units, beside a stand-in for the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.fakes.kubernetes.standin_api import NODE, Api
from tests.node.cluster_api import join
from tests.support.waiting import eventually

pytestmark = [pytest.mark.node, pytest.mark.long]

LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
REASON = "gpu.node/mig.config-reason"
UNITS = ("gpu-mig-label.path", "gpu-mig-label.service")
CUT = {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "3g.40gb": 1}}
HALVES = {**CUT, "mig-devices": {"3g.40gb": 2}}
LAYOUTS = {"version": "v1", "mig-configs": {"cut": [CUT], "halves": [HALVES]}}
VARIABLES = {"mig_config": LAYOUTS, "mig_selected": "cut", "mig_by_label": True}
AS_CUT = {"gpu": 1, "mig-1g.10gb": 2, "mig-3g.40gb": 1}
AS_HALVES = {"gpu": 1, "mig-3g.40gb": 2}


def described(node: Node) -> set[str]:
    """Return the MIG devices of the CDI specification."""
    found = json.loads(node.run("cat", "/etc/cdi/nvidia.yaml"))["devices"]
    return {one["name"] for one in found if one["name"].startswith("MIG-")}


def label(api: Api, name: str | None, state: str | None) -> None:
    """Label the node, and wait for the answer."""
    api.merge({"metadata": {"labels": {LABEL: name}}})
    try:
        eventually(lambda: api.own().get(STATE), state)
    except AssertionError as error:
        raise AssertionError(f"{api.own()} {api.own('annotations')}") from error


def warned(play: Any) -> str:
    return " ".join(
        text for _one, _task, found in play.results() for text in found.get("warnings", ())
    )


def test_a_label_of_the_node_names_its_mig_layout(
    brought_up: Callable[..., Node], tmp_path: Path
) -> None:
    node = brought_up("mig-label", "h100-80", 2)
    node.variables.update(VARIABLES, node_labels_node_name=NODE)
    api = join(node, tmp_path)
    try:
        up = node.play()
        assert up.ok, up.message()
        eventually(node.allocatable, AS_CUT)
        again = node.play()
        assert again.ok, again.message()
        assert again.changed() == []
        assert STATE not in api.own()

        label(api, "halves", "success")
        eventually(node.allocatable, AS_HALVES)
        eventually(lambda: described(node) == set(node.status()["mig_uuids"]), True)
        eventually(lambda: api.own().get("nvidia.com/mig-3g.40gb.count"), "2")
        agreed = node.play()
        assert agreed.ok, agreed.message()
        assert agreed.changed() == []
        assert "chose halves, which counts and not cut" in warned(agreed)

        label(api, "all-disabled", "failed")
        assert node.allocatable() == AS_HALVES

        words = ("--request=nvidia.com/mig-3g.40gb=2", "--json")
        node.run("standin-kubelet", "admit", "idle", *words)
        label(api, "cut", "pending")
        eventually(lambda: "pod default/idle" in api.own("annotations").get(REASON, ""), True)
        assert node.allocatable() == AS_HALVES
        node.run("standin-kubelet", "release", "idle")
        eventually(lambda: api.own().get(STATE), "success")
        eventually(node.allocatable, AS_CUT)

        api.merge({"metadata": {"labels": {LABEL: "halves"}}})
        eventually(node.allocatable, AS_HALVES)
        eventually(lambda: api.own().get(STATE), "success")
        node.reboot()
        eventually(node.allocatable, AS_HALVES)
        assert "MIG layout halves: converged" in node.run("journalctl", "--unit=gpu-mig.service")
        eventually(lambda: api.own().get(STATE), "success")
        assert node.run("systemctl", "is-failed", "gpu-mig", check=False).strip() == "active"

        label(api, None, None)
        eventually(lambda: node.run("ls", "/var/lib/gpu-mig-label"), "")
        assert node.allocatable() == AS_HALVES
        back = node.play()
        assert back.ok, back.message()
        eventually(node.allocatable, AS_CUT)

        for (
            name
        ) in VARIABLES:  # which are extra variables here, and would win over the playbook's own
            del node.variables[name]
        gone = node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False)
        assert gone.ok, gone.message()
        for unit in UNITS:
            assert node.run("systemctl", "cat", unit, check=False) == ""
        for path in ("/var/lib/gpu-mig-label", "/run/gpu-node/mig-label", "/etc/gpu-node/mig.json"):
            assert node.run("ls", "-d", path, check=False) == ""
        assert api.own() == {}
    finally:
        api.stop()
