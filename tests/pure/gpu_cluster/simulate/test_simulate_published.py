# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The published cases of fractions, and what genuine control planes were seen to do with slices of ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.cluster.simulating import (
    TWO_OF_32,
    Json,
    Simulated,
    claiming,
    deployment,
    pod,
    share,
    simulate,
    template,
    whole,
)

SCALED = {
    "gpuNode": {"allocation": "dra", "dra": {"memoryScaling": 3.0, "oversubscribe": "best-effort"}}
}
MIG = {"name": "n", "gpus": [{"product": "NVIDIA A30", "count": 2, "mig": True}]}


@pytest.fixture
def run(tmp_path: Path, capsys: Any) -> Any:
    """Run a simulation on nodes."""

    def simulated(objects: list[Json], nodes: list[Json] | None = None, *options: str) -> Simulated:
        return simulate(tmp_path, capsys, nodes or [TWO_OF_32], objects, *options)

    return simulated


def test_ten_pods_of_10000_mib_on_two_cards_of_32_gib(run: Any) -> None:
    found = run([deployment(10, pod(gpu=1, gpumem=10000))])
    assert found.counts == (6, 4)
    assert found.status == 3
    assert Counter(one for pod in found.pods for one in found.devices(pod)) == {
        "gpu-0-share": 3,
        "gpu-1-share": 3,
    }
    assert found.why("web-9") == "memory 10000Mi: 2 devices, most free is 2768Mi"


def test_cores_run_out_before_memory(run: Any) -> None:
    found = run([deployment(10, pod(gpu=1, gpumem=5000, gpucores=30))])
    assert found.counts == (6, 4)
    assert found.why("web-9") == "cores 30: 2 devices, most free is 10"


def test_split_count_stops_the_eleventh_on_each_card(run: Any) -> None:
    found = run([deployment(25, pod(gpu=1, gpumem=100))])
    assert found.counts == (20, 5)
    assert found.why("web-24") == "shares 1: 2 devices, most free is 0"
    one = {"name": "n", "gpus": [{"product": "T4"}]}
    assert run([deployment(11, pod(gpu=1, gpumem=100))], [one]).counts == (10, 1)


def test_memory_scaling_of_three_runs_all_ten(run: Any) -> None:
    found = run([deployment(10, pod(gpu=1, gpumem=10000))], [{**TWO_OF_32, "config": SCALED}])
    assert found.counts == (10, 0)
    assert found.status == 0


def test_percentage_is_of_each_cards_memory(run: Any) -> None:
    nodes = [TWO_OF_32, {"name": "small", "gpus": [{"product": "T4"}]}]
    found = run([deployment(7, pod(gpu=1, gpumem_percentage=50))], nodes)
    assert found.counts == (6, 1)
    taken = Counter(
        one["consumed"]["memory"] for of in found.pods.values() for one in of.get("devices", ())
    )
    assert taken == {"16384Mi": 4, "7680Mi": 2}


def test_shares_and_whole_cards_exclude_each_other(run: Any) -> None:
    objects = [
        template("s", share(memory="1Gi")),
        template("w", whole()),
        claiming("a", "s"),
        claiming("b", "w"),
        claiming("c", "w"),
    ]
    found = run(objects)
    assert [found.devices(one) for one in "abc"] == [["gpu-0-share"], ["gpu-1"], []]
    assert found.why("c") == "its devices are in use as whole GPUs and by shares"


def test_five_mig_devices_and_then_shares(run: Any) -> None:
    part = {
        "name": "r",
        "exactly": {"deviceClassName": "mig.gpu.node", "selectors": [_profile("2g.12gb")]},
    }
    found = run([template("m", part), *(claiming(f"m{n}", "m") for n in range(5))], [MIG])
    assert found.counts == (4, 1)
    assert found.why("m4") == "its devices are in use as MIG devices"


def _profile(name: str) -> Json:
    return {"cel": {"expression": f"device.attributes['gpu.nvidia.com'].profile == '{name}'"}}


def test_a_count_of_two_is_two_cards(run: Any) -> None:
    objects = [
        template("two", share(count=2, cores="30", memory="1Gi")),
        *(claiming(f"p{n}", "two") for n in range(4)),
    ]
    found = run(objects)
    assert found.counts == (3, 1)
    assert found.devices("p0") == ["gpu-0-share", "gpu-1-share"]
    assert "cores 30" in found.why("p3")


def test_two_claims_of_a_pod_on_the_first_card_that_fits(run: Any) -> None:
    found = run(
        [
            template("s", share(memory="1Gi")),
            template("t", share(memory="2Gi")),
            claiming("p", "s", "t"),
        ]
    )
    assert found.devices("p") == ["gpu-0-share", "gpu-0-share"]


def test_two_shares_on_cards_as_asked(run: Any) -> None:
    for constraint, expected in (
        ("distinctAttribute", ["gpu-0-share", "gpu-1-share"]),
        ("matchAttribute", ["gpu-0-share"] * 2),
    ):
        requests = [share("a", memory="1Gi"), share("b", memory="1Gi")]
        made = template("s", *requests, constraints=[{constraint: "gpu.node/uuid"}])
        assert run([made, claiming("p", "s")]).devices("p") == expected, constraint


def test_counters_that_a_version_does_not_give_back(run: Any) -> None:
    first = {"selectors": [{"cel": {"expression": "device.attributes['gpu.node'].index == 0"}}]}
    made = template("s", share("a", memory="1Gi"), whole("b", **first))
    found = run([made, claiming("p", "s")], None, "--kubernetes", "1.36.2")
    assert found.counts == (0, 1)
    assert "before Kubernetes 1.36.3 counters of a device that is tried" in found.why("p")
    assert "kubernetes/kubernetes#140663" in found.why("p")
    newer = run([made, claiming("p", "s")])
    assert newer.devices("p") == ["gpu-1-share", "gpu-0"]
    better = template("s", whole("b", **first), share("a", memory="1Gi"))
    for version in ("1.36.2", "1.36.3"):
        found = run([better, claiming("p", "s")], None, "--kubernetes", version)
        assert found.devices("p") == ["gpu-0", "gpu-1-share"]


def test_the_first_alternative_that_can_be_had(run: Any) -> None:
    some = [
        {"name": "mig", "deviceClassName": "mig.gpu.node", "selectors": [_profile("2g.12gb")]},
        {"name": "share", **share(memory="4000Mi")["exactly"]},
    ]
    made = template("s", {"name": "r", "firstAvailable": some})
    found = run([made, *(claiming(f"p{n}", "s") for n in range(6))], [MIG])
    assert found.counts == (4, 2)
    both = run(
        [made, *(claiming(f"p{n}", "s") for n in range(6))], [TWO_OF_32, {**MIG, "name": "m"}]
    )
    assert [both.pods[f"p{n}"]["node"] for n in range(6)] == ["m"] * 4 + ["n"] * 2


def test_more_than_any_card_has_is_said(run: Any) -> None:
    objects = [
        template("memory", share(memory="40Gi")),
        template("cores", share(cores="101")),
        claiming("a", "memory"),
        claiming("b", "cores"),
    ]
    found = run(objects)
    assert found.counts == (0, 2)
    assert (
        found.why("a")
        == "memory 40960Mi is more than a device of share.gpu.node can give, which is 32768Mi"
    )
    assert (
        found.why("b") == "cores 101 is more than a device of share.gpu.node can give, which is 100"
    )


def test_kubernetes_has_no_rule_that_a_full_card_refuses_cores_0(run: Any) -> None:
    objects = [
        template("full", share(cores="100", memory="1Gi")),
        template("none", share(cores="0", memory="1Gi")),
        *(claiming(f"full-{n}", "full") for n in range(2)),
        claiming("last", "none"),
    ]
    assert run(objects).devices("last") == ["gpu-0-share"]


def test_whole_cards_under_the_name_of_a_resource(run: Any) -> None:
    found = run([deployment(3, pod(gpu=1))])
    assert found.counts == (2, 1)
    assert found.devices("web-0") == ["gpu-0"]
    assert found.why("web-2") == "its devices are in use as whole GPUs"


def test_one_card_is_filled_before_the_next(run: Any) -> None:
    found = run([deployment(8, pod(gpu=1, gpumem=8000))])
    assert [found.devices(f"web-{n}") for n in range(8)] == [["gpu-0-share"]] * 4 + [
        ["gpu-1-share"]
    ] * 4
