# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The bench of fleets: its light hosts answer as the node did or not at all, and what is drawn is what was measured."""

from __future__ import annotations

import importlib
import json
import subprocess
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from ansible.errors import AnsibleError

from tests.bench.fleet import draw, measure
from tests.support.paths import TESTS

FLEET = TESTS / "bench/fleet"
NAME = "{http://www.w3.org/2000/svg}"
MODULE = b"ansible_module='gpu.node.plan', and the rest of it"


@pytest.fixture
def light(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the connection with a folder of its own."""
    monkeypatch.syspath_prepend(str(FLEET / "connection"))
    monkeypatch.setenv("FLEET", str(tmp_path))
    return importlib.import_module("light")


def test_a_light_host_answers_as_the_node_did(light: ModuleType, tmp_path: Path) -> None:
    path, asked = tmp_path / "1.json", light._asked("/bin/sh -c python3", MODULE)
    light._keep(path, asked, 0.01, (3, b"out", b"err"))
    done = subprocess.run(
        light._played(path, asked, "n1"), input=MODULE, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out", b"err")
    assert json.loads(path.read_text())["asked"] == "gpu.node.plan"


def test_what_the_node_was_not_asked_for_is_an_error(light: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    with pytest.raises(AnsibleError, match="was asked for nothing then"):
        light._played(path, "gpu.node.mig", "n1")
    light._keep(path, "gpu.node.plan", 0.01, (0, b"", b""))
    with pytest.raises(
        AnsibleError, match=r"asks for gpu\.node\.mig, .* asked for gpu\.node\.plan"
    ):
        light._played(path, "gpu.node.mig", "n1")


def test_the_picture_has_each_measurement(tmp_path: Path) -> None:
    sizes = {1: 2.0, 10: 0.64, 200: 0.55}
    costs = [
        measure.Cost(
            nodes=nodes,
            processor=each * nodes,
            first=0.1 * nodes,
            modules=0.0,
            memory=100.0 + nodes,
            wall=nodes,
            sent=770 * 1024 * nodes,
            received=51 * 1024 * nodes,
            calls=nodes,
        )
        for nodes, each in sizes.items()
    ]
    draw.write(tmp_path / "images/scale.svg", {"plan": costs, "<no change>": costs})
    root = ElementTree.parse(tmp_path / "images/scale.svg").getroot()
    assert len(root.findall(f".//{NAME}circle")) == 2 * 4 * len(sizes)
    said = [one.text for one in root.iter(f"{NAME}text")]
    assert {"2.00", "0.64", "0.55", "770", "300", "<no change>"} <= set(said)
    assert [float(line.split("|")[1]) for line in draw.table(costs)[1:]] == list(sizes.values())
