# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi's scenarios by name (its scheduler's score_test.go): its manifests, as the webhook makes claims of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_cluster import cli

from tests.fakes.cluster.simulating import (
    TWO_OF_32,
    Json,
    Simulated,
    container,
    deployment,
    pod,
    simulate,
)

MIXED = {
    "name": "n",
    "gpus": [
        {"product": "NVIDIA A100-SXM4-40GB", "numaNode": 0, "uuids": ["GPU-a0"]},
        {"product": "Tesla V100-SXM2-32GB", "numaNode": 0, "uuids": ["GPU-v0"]},
        {"product": "Tesla V100-SXM2-32GB", "numaNode": 1, "uuids": ["GPU-v1"]},
    ],
}
USE_TYPE, AVOID_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_UUID, AVOID_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
# A fraction of more than one GPU needs an enforcement other than MPS.
NO_MPS = {"gpuNode": {"allocation": "dra", "dra": {"enforcement": "none"}}}


@pytest.fixture
def run(tmp_path: Path, capsys: Any) -> Any:
    """Run a simulation on a node."""

    def simulated(objects: list[Json], node: Json | None = None) -> Simulated:
        return simulate(tmp_path, capsys, [node or MIXED], objects)

    return simulated


def several(*containers: Json, init: tuple[Json, ...] = ()) -> Json:
    """Return a pod of several containers."""
    made = pod()
    made["spec"] = {"containers": list(containers), "initContainers": list(init)}
    return made


def test_hami_one_node_one_device_one_pod_one_container(run: Any) -> None:
    found = run([pod(gpu=1, gpumem=1000, gpucores=30)], TWO_OF_32)
    assert found.devices("p") == ["gpu-0-share"]
    assert found.pods["p"]["devices"][0]["consumed"] == {
        "memory": "1000Mi",
        "cores": "30",
        "shares": "1",
    }


def test_hami_device_partly_used(run: Any) -> None:
    found = run([pod("first", gpu=1, gpumem=30000), pod("p", gpu=1, gpumem=4000)], TWO_OF_32)
    assert found.devices("p") == ["gpu-1-share"]


def test_hami_device_used_up(run: Any) -> None:
    found = run([deployment(2, pod(gpu=1)), pod("p", gpu=1, gpumem=1)], TWO_OF_32)
    assert found.why("p") == "its devices are in use as whole GPUs"


def test_two_containers_have_two_cards(run: Any) -> None:
    parts = [
        container("a", gpu=1, gpumem=20000),
        container("b", gpu=1, gpumem=20000),
        container("c"),
    ]
    found = run([several(*parts)], TWO_OF_32)
    assert found.devices("p") == ["gpu-0-share", "gpu-1-share"]


def test_hami_multi_container_one_of_which_does_not_fit(run: Any) -> None:
    parts = [container("a", gpu=1, gpumem=20000), container("b", gpu=1, gpumem=40000)]
    found = run([several(*parts)], TWO_OF_32)
    assert found.counts == (0, 1)
    assert "memory 40000Mi is more than a device of share.gpu.node can give" in found.why("p")


def test_an_init_container_has_the_same_card_or_another(run: Any) -> None:
    same = several(container("a", gpu=1, gpumem=20000), init=(container("i", gpu=1, gpumem=20000),))
    assert run([same], TWO_OF_32).devices("p") == ["gpu-0-share"]
    other = several(
        container("a", gpu=1, gpumem=20000), init=(container("i", gpu=1, gpumem=25000),)
    )
    assert sorted(run([other], TWO_OF_32).devices("p")) == ["gpu-0-share", "gpu-1-share"]


def test_a_whole_card_is_no_card_with_shares(run: Any) -> None:
    objects = [
        pod("share", gpu=1, gpumem=1000),
        pod("p", gpu=1, gpucores=100),
        pod("q", gpu=1, gpucores=100),
    ]
    found = run(objects, TWO_OF_32)
    assert found.devices("p") == ["gpu-1"]
    assert found.why("q") == "its devices are in use as whole GPUs and by shares"


def test_hami_cores_0_on_a_full_card(run: Any) -> None:
    """Here HAMi refuses: Kubernetes has no such rule, so that the pod runs."""
    full = pod("full", gpu=1, gpumem=1000, gpucores=99)
    found = run(
        [full, pod("more", gpu=1, gpumem=1000, gpucores=1), pod("p", gpu=1, gpumem=1000)], TWO_OF_32
    )
    assert found.devices("p") == ["gpu-0-share"]


def test_hami_cores_not_left(run: Any) -> None:
    found = run([deployment(5, pod(gpu=1, gpumem=100, gpucores=40))], TWO_OF_32)
    assert found.counts == (4, 1)
    assert found.why("web-4") == "cores 40: 2 devices, most free is 20"


def test_a_pod_that_wants_two_cards_waits_for_both(run: Any) -> None:
    node = {**TWO_OF_32, "config": NO_MPS}
    found = run([deployment(2, pod(gpu=2, gpumem=20000))], node)
    assert found.devices("web-0") == ["gpu-0-share", "gpu-1-share"]
    assert found.why("web-1").startswith(
        "2 devices at once with memory 20000Mi: 2 devices, most free is 12768Mi"
    )


def test_hami_more_devices_than_the_node_has(run: Any) -> None:
    found = run([pod(gpu=3, gpumem=1000)], {**TWO_OF_32, "config": NO_MPS})
    assert found.why("p") == "3 devices of share.gpu.node are requested, and it has 2 such"


def test_hami_type_and_uuid(run: Any) -> None:
    for wishes, expected in (
        ({USE_TYPE: "V100"}, "gpu-1-share"),
        ({USE_TYPE: "v100,T4"}, "gpu-1-share"),
        ({AVOID_TYPE: "A100"}, "gpu-1-share"),
        ({USE_UUID: "GPU-v1"}, "gpu-2-share"),
        ({AVOID_UUID: "GPU-a0,GPU-v0"}, "gpu-2-share"),
        ({USE_TYPE: "V100", AVOID_UUID: "GPU-v0"}, "gpu-2-share"),
    ):
        assert run([pod("p", wishes, gpu=1, gpumem=1000)]).devices("p") == [expected], wishes


def test_hami_type_or_uuid_mismatch(run: Any) -> None:
    for wishes in (
        {USE_TYPE: "H100"},
        {AVOID_TYPE: "A100,V100"},
        {USE_UUID: "GPU-x"},
    ):
        found = run([pod("p", wishes, gpu=1, gpumem=1000)])
        assert found.counts == (0, 1), wishes
        assert "no device of share.gpu.node matches" in found.why("p"), wishes


def test_cards_of_one_pod_are_of_one_numa_node(run: Any) -> None:
    node = {**MIXED, "config": NO_MPS}
    bound = {"nvidia.com/numa-bind": "true"}
    found = run([pod("p", bound, gpu=2, gpumem=1000), pod("q", gpu=2, gpumem=1000)], node)
    assert found.devices("p") == ["gpu-0-share", "gpu-1-share"]
    three = run([pod("p", bound, gpu=3, gpumem=1000)], node)
    asked = "3 devices of share.gpu.node are requested, and it has {} such"
    assert three.why("p") == f"{asked.format(2)}; {asked.format(1)}"  # of each NUMA node
    assert run([pod("p", gpu=3, gpumem=1000)], node).counts == (1, 0)


def test_mig_mode_takes_the_profile_that_is_large_enough(run: Any) -> None:
    node = {"name": "n", "gpus": [{"product": "A100 80GB", "mig": True}]}
    found = run(
        [deployment(3, pod("p", {"nvidia.com/vgpu-mode": "mig"}, gpu=1, gpumem=35000))], node
    )
    assert found.counts == (2, 1)
    assert all("3g40gb" in one for n in range(2) for one in found.devices(f"web-{n}"))


def test_without_a_mode_a_mig_device_is_taken_where_no_share_is_left(run: Any) -> None:
    divided = {"name": "n", "gpus": [{"product": "A100 80GB", "mig": True}]}
    found = run([deployment(3, pod(gpu=1, gpumem=35000, gpucores=30))], divided)
    assert found.counts == (2, 1)
    mixed = {"name": "n", "gpus": [*TWO_OF_32["gpus"], {"product": "A100 80GB", "mig": True}]}
    found = run([deployment(3, pod(gpu=1, gpumem=20000))], mixed)
    assert found.devices("web-1") == ["gpu-1-share"]
    assert "20gb" in found.devices("web-2")[0]


def test_pods_that_need_another_enforcement_are_counted(tmp_path: Path, capsys: Any) -> None:
    objects = [deployment(3, pod(gpu=2, gpumem=1000)), pod("one", gpu=1, gpumem=1000)]
    nodes, pods = tmp_path / "nodes.json", tmp_path / "pods.json"
    nodes.write_text(json.dumps({"nodes": [TWO_OF_32]}))
    pods.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert cli.main(["simulate", "--inventory", str(nodes), str(pods)]) == 3
    told = capsys.readouterr().out
    assert "1 running, 3 pending, 3 of which need another enforcement of shares than mps\n" in told


def test_hami_what_the_webhook_refuses_is_told_by_the_field(run: Any) -> None:
    found = run([pod(gpu=1, gpumem_percentage=150)])
    assert found.counts == (0, 1)
    assert "spec.containers[0].resources.limits[nvidia.com/gpumem-percentage]: 150" in found.why(
        "p"
    )


def test_hami_names_and_defaults_of_its_configuration(tmp_path: Path, capsys: Any) -> None:
    config = tmp_path / "device-config.yaml"
    config.write_text(
        "nvidia: {resourceMemoryName: example.com/mem, defaultMem: 5000, defaultGPUNum: 1}\n"
    )
    named = several({"name": "a", "resources": {"limits": {"example.com/mem": 20000}}})
    plain = pod("plain", gpu=1, gpucores=10)
    found = simulate(tmp_path, capsys, [TWO_OF_32], [named, plain], "--hami-config", str(config))
    assert found.pods["p"]["devices"][0]["consumed"]["memory"] == "20000Mi"
    assert found.pods["plain"]["devices"][0]["consumed"]["memory"] == "5000Mi"
