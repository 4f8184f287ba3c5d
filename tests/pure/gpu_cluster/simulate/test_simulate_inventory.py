# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Inventories, what is wrong with them, and how answers are shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_cluster import cli
from gpu_cluster.simulate import inventory, objects
from gpu_plugin._shared._base.errors import NodeError
from nvsim.catalog import FOLDER, product

from tests.fakes.cluster.simulating import (
    TWO_OF_32,
    Json,
    claiming,
    deployment,
    pod,
    simulate,
    template,
    whole,
)


def read(*rows: Any) -> Any:
    """Return the nodes of an inventory."""
    return inventory.nodes(json.dumps({"nodes": list(rows)}), "nodes.yaml")[0]


def test_nodes_of_one_row_have_the_same_devices() -> None:
    one, two = read(
        {"name": "n", "count": 2, "cpu": "64", "memory": "1Ti", "gpus": [{"product": "T4"}]}
    )
    assert (one.name, two.name) == ("n-0", "n-1")
    assert one.devices is two.devices
    assert one.labels == {"kubernetes.io/hostname": "n-0"}
    assert [device.name for device in one.devices.row] == ["gpu-0", "gpu-0-share"]
    assert one.devices.row[1].capacities["memory"].value == 15360 << 20
    one.used["x"] = 1
    assert two.used == {}


def test_the_daemons_configuration_says_how_gpus_are_shared() -> None:
    dra = {
        "allocation": "both",
        "dra": {"devices": [1], "splitCount": 4, "memoryScaling": 2, "enforcement": "none"},
    }
    (found,) = read({"gpus": [{"product": "T4", "count": 2}], "config": {"gpuNode": dra}})
    assert [device.name for device in found.devices.row] == ["gpu-1", "gpu-1-share"]
    share = found.devices.row[1]
    assert share.capacities["memory"].value == 2 * 15360 << 20
    assert share.capacities["shares"].value == 4
    assert share.attributes["gpu.node/enforcement"] == {"string": "none"}


def test_the_device_plugin_has_its_gpus_as_extended_resources() -> None:
    (found,) = read(
        {
            "gpus": [{"product": "T4", "count": 3}],
            "config": {"gpuNode": {"allocation": "device_plugin"}},
        }
    )
    assert found.allocatable == {"pods": 110, "nvidia.com/gpu": 3}
    assert found.devices.row == ()


def test_what_is_known_of_products_is_what_the_catalog_has() -> None:
    for key in (
        "a100-40",
        "a100-80",
        "a30",
        "h100-80",
        "h200-141",
        "l40s",
        "t4",
        "v100",
    ):
        real = product(key)
        known = inventory.KNOWN[inventory.known(real.name)]
        assert known == (real.memory_mib, real.compute_capability), key
        made = inventory.profiles(inventory.known(real.name), real.memory_mib)
        assert bool(made) is real.mig_capable, key
        for one in made:
            same = next(other for other in real.profiles if other.id == one.id)
            assert abs(one.memory_mb - same.memory_mib) <= real.memory_mib * 0.03, key


def test_each_product_of_the_catalog_is_looked_at() -> None:
    assert {one.stem for one in FOLDER.glob("*.toml")} - {"b200"} == {
        *("a100-40", "a100-80", "a30", "h100-80", "h200-141", "l40s", "t4", "v100")
    }


def test_what_is_wrong_with_an_inventory_is_named() -> None:
    for rows, why in (
        ({"nodes": []}, r"nodes.yaml: nodes: \[\] is not valid: expected a list of nodes"),
        ({"nodes": [{"gpu": []}]}, r"nodes\[0\].gpu: .* the nearest is gpus"),
        (
            {"nodes": [{"gpus": [{"produkt": "T4"}]}]},
            r"gpus\[0\].produkt: .* the nearest is product",
        ),
        ({"nodes": [{"gpus": [{"product": "Foo"}]}]}, r"gpus\[0\].memory: None is not valid"),
        (
            {"nodes": [{"gpus": [{"product": "T4", "memory": "much"}]}]},
            r"gpus\[0\].memory: 'much' is not valid",
        ),
        (
            {"nodes": [{"gpus": [{"product": "T4", "mig": True}]}]},
            r"gpus\[0\].mig: 'T4' is not valid",
        ),
        (
            {"nodes": [{"gpus": [{"product": "T4", "count": 65}]}]},
            r"gpus\[0\].count: 65 is not valid",
        ),
        (
            {"nodes": [{"gpus": [{"product": "T4", "computeCapability": "new"}]}]},
            "Capability: 'new' is not valid",
        ),
        ({"nodes": [{"count": 0}]}, r"nodes\[0\].count: 0 is not valid"),
        (
            {"nodes": [{"name": "n"}, {"name": "n"}]},
            "nodes: 'n' is not valid: expected names that differ",
        ),
        ({"nodes": [{"config": {"gpuNode": {"allocation": "mine"}}}]}, r"nodes\[0\].config"),
        ({"nodes": [{"config": "dra"}]}, r"nodes\[0\].config: 'dra' is not valid"),
        ({"nodes": [{"cpu": "many"}]}, r"nodes\[0\].cpu: 'many' is not valid"),
    ):
        with pytest.raises(NodeError, match=why):
            inventory.nodes(json.dumps(rows), "nodes.yaml")


def test_what_is_wrong_with_manifests_is_named() -> None:
    for text, why in (
        ("a: [", "not valid YAML"),
        ("{" * 3000, "not valid YAML"),
        ("- 1", "document 1 is no object of Kubernetes: it has no kind"),
        ("kind: Pod\n---\nspec: 1", "document 2 is no object"),
        ("&a [*a]", "is no object"),
    ):
        with pytest.raises(NodeError, match=why):
            objects.parse(text, "pods.yaml")


def test_a_damaged_object_is_an_error_and_no_traceback(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "nodes.yaml").write_text(json.dumps({"nodes": [TWO_OF_32]}))
    (tmp_path / "pods.yaml").write_text("kind: Pod\nmetadata: {name: p}\nspec: {containers: [1]}\n")
    words = ["simulate", "--inventory", str(tmp_path / "nodes.yaml"), str(tmp_path / "pods.yaml")]
    assert cli.main(words) == 1
    assert "an object is damaged" in capsys.readouterr().err
    assert (
        cli.main(
            ["simulate", "--inventory", str(tmp_path / "nodes.yaml"), str(tmp_path / "no.yaml")]
        )
        == 1
    )
    assert "no.yaml can't be read: " in capsys.readouterr().err
    assert cli.main(["simulate", "--inventory", str(tmp_path / "nodes.yaml")]) == 1
    assert "there are no manifests" in capsys.readouterr().err


def _table(tmp_path: Path, capsys: Any, asked: Json, *options: str) -> str:
    (tmp_path / "nodes.yaml").write_text(json.dumps({"nodes": [TWO_OF_32]}))
    (tmp_path / "pods.yaml").write_text(json.dumps(asked))
    cli.main(
        [
            "simulate",
            "--inventory",
            str(tmp_path / "nodes.yaml"),
            str(tmp_path / "pods.yaml"),
            *options,
        ]
    )
    return str(capsys.readouterr().out)


def test_many_pods_are_summed_up(tmp_path: Path, capsys: Any) -> None:
    many = _table(tmp_path, capsys, deployment(100, pod(gpu=1, gpumem=10000)))
    assert many == (
        "OWNER                   PODS  RUNNING  PENDING\n"
        "default/Deployment/web  100   6        94\n"
        "\n"
        "6 running, 94 pending\n"
        "\n"
        "Pending: default/web-6, default/web-7, default/web-8 and 91 more\n"
        "  1 node: memory 10000Mi: 2 devices, most free is 2768Mi\n"
    )
    assert _table(tmp_path, capsys, deployment(100, pod(gpu=1)), "--pods").count("<pending>") == 98


def test_what_is_not_looked_at_is_told(tmp_path: Path, capsys: Any) -> None:
    asked = pod(gpu=1)
    asked["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    assert "Not considered: Pod/p: hostPort is not considered" in _table(tmp_path, capsys, asked)


@pytest.mark.attack("terminal-escapes")
def test_what_tenants_wrote_steers_no_terminal(tmp_path: Path, capsys: Any) -> None:
    owned = "\x1b]0;owned\x07\x1b[2J\u202e"
    reading = [f'device.attributes["gpu.node"]["{owned}"]', f'device.driver == "{owned}"']
    asked = {name: [{"cel": {"expression": one}}] for name, one in zip("ab", reading, strict=True)}
    objects = [
        *(template(name, whole(selectors=one)) for name, one in asked.items()),
        *(claiming(f"{owned}{name}", name) for name in asked),
        {**pod(owned, gpu=1), "metadata": {"name": owned, "namespace": owned}},
    ]
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": objects}))
    (tmp_path / "nodes.yaml").write_text(json.dumps({"nodes": [TWO_OF_32]}))
    files = ["--inventory", str(tmp_path / "nodes.yaml"), str(tmp_path / "pods.json")]
    for options in ((), ("--json",), ("--pods",)):
        assert cli.main(["simulate", *files, *options]) == 3
        found = capsys.readouterr()
        assert set("\x1b\x07\u202e").isdisjoint(found.out + found.err), options
        assert "owned" in found.out


def test_without_its_library_it_says_what_to_install(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    for name in tuple(sys.modules):
        if name.startswith(("gpu_cluster.placement", "gpu_cluster.simulate")):
            monkeypatch.delitem(sys.modules, name)
    assert cli.main(["simulate", "--help"]) == 1
    assert (
        "install gpu_cluster's requirements-simulate.txt in addition to" in capsys.readouterr().err
    )


def test_manifests_from_the_standard_input(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text(json.dumps(pod(gpu=1)))
    (tmp_path / "nodes.yaml").write_text(json.dumps({"nodes": [TWO_OF_32]}))
    with (tmp_path / "in").open() as given:
        monkeypatch.setattr("sys.stdin", given)
        assert cli.main(["simulate", "--inventory", str(tmp_path / "nodes.yaml"), "-"]) == 0
    assert "1 running, 0 pending" in capsys.readouterr().out


def test_a_claim_on_no_nodes(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "slices.yaml").write_text("kind: List\nitems: []\n")
    (tmp_path / "pods.yaml").write_text(json.dumps(pod(gpu=1)))
    assert (
        cli.main(
            ["simulate", "--slices", str(tmp_path / "slices.yaml"), str(tmp_path / "pods.yaml")]
        )
        == 3
    )
    assert "there are no nodes" in capsys.readouterr().out


def test_the_answer_names_what_each_pod_takes(tmp_path: Path, capsys: Any) -> None:
    found = simulate(tmp_path, capsys, [TWO_OF_32], [pod(gpu=1, gpumem=1000, gpucores=5)])
    assert found.json["nodes"][0] == {
        "name": "n",
        "pods": 1,
        "allocated": [],
        "shared": {"gpu-0-share": {"cores": "5", "memory": "1000Mi", "shares": "1"}},
    }
    assert found.pods["p"] == {
        "namespace": "default",
        "name": "p",
        "owner": "Pod/p",
        "node": "n",
        "devices": [
            {
                "request": "gpu",
                "device": "gpu-0-share",
                "driver": "gpu.node",
                "consumed": {"cores": "5", "memory": "1000Mi", "shares": "1"},
            }
        ],
    }
