# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Simulations on ResourceSlices as a cluster has them, with what is allocated, tainted or being replaced.

The slices are those with which genuine control planes were watched: two cards of 32 GiB, each as a whole, as
shares and as two halves, over the same counters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_cluster import cli

from tests.fakes.cluster.simulating import (
    Json,
    Simulated,
    claiming,
    deployment,
    pod,
    share,
    template,
    whole,
)

GI = {"memory": "32Gi", "whole": "1", "slice-0": "1", "slice-1": "1"}


def _values(counters: dict[str, str]) -> Json:
    return {name: {"value": value} for name, value in counters.items()}


def _device(card: int, suffix: str, kind: str, counters: dict[str, str], **more: Any) -> Json:
    consumed = [{"counterSet": f"gpu-{card}-counter-set", "counters": _values(counters)}]
    attributes = {"type": {"string": kind}, "uuid": {"string": f"GPU-{card}"}}
    return {
        "name": f"gpu-{card}{suffix}",
        "attributes": attributes,
        "consumesCounters": consumed,
        **more,
    }


def _share(card: int) -> Json:
    memory = {"default": "32Gi", "validRange": {"min": "1Mi", "step": "1Mi"}}
    cores = {"default": "0", "validRange": {"min": "0", "max": "100", "step": "1"}}
    shares = {"default": "1", "validValues": ["1"]}
    capacity = {
        "memory": {"value": "32Gi", "requestPolicy": memory},
        "cores": {"value": "100", "requestPolicy": cores},
        "shares": {"value": "10", "requestPolicy": shares},
    }
    return _device(card, "-share", "share", GI, allowMultipleAllocations=True, capacity=capacity)


def _half(card: int, which: int) -> Json:
    return _device(card, f"-mig-{which}", "mig", {"memory": "16Gi", f"slice-{which}": "1"})


def slices(taint: str = "", count: int = 2, node: str = "n") -> list[Json]:
    """Return the slices of a node; \"taint\" is the effect of one on the first card's shares."""
    devices = []
    for card in (0, 1):
        halves = [_half(card, which) for which in (0, 1)]
        devices += [_device(card, "", "gpu", GI), _share(card), *halves]
    if taint:
        devices[1]["taints"] = [{"key": "gpu.node/xid", "value": "79", "effect": taint}]
    sets = [{"name": f"gpu-{card}-counter-set", "counters": _values(GI)} for card in (0, 1)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": "gpu.node", "nodeName": node, "pool": pool}
    parts: list[Json] = [{"sharedCounters": sets}, {"devices": devices}]
    return [
        {
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{number}"},
            "spec": {**spec, **part},
        }
        for number, part in enumerate(parts)
    ]


def allocated(name: str, device: str, memory: str = "", node: str = "n") -> Json:
    """Return a claim that has a device, or that much of a share device."""
    result: Json = {"driver": "gpu.node", "pool": node, "device": device, "request": "r"}
    if memory:
        consumed = {"memory": memory, "cores": "0", "shares": "1"}
        result |= {"shareID": f"share-of-{name}", "consumedCapacity": consumed}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": terms}
    meta = {"name": name, "namespace": "default"}
    return {"kind": "ResourceClaim", "metadata": meta, "status": {"allocation": allocation}}


def naming(claim: str, name: str = "p") -> Json:
    """Return a pod that names a claim."""
    made = claiming(name)
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return made


@pytest.fixture
def run(tmp_path: Path, capsys: Any) -> Any:
    """Run a simulation on what is there."""

    def simulated(there: list[Json], asked: list[Json]) -> Simulated:
        files = {"there": there, "asked": asked}
        for name, objects in files.items():
            (tmp_path / f"{name}.yaml").write_text("\n---\n".join(map(json.dumps, objects)))
        words = ["simulate", "--json", "--slices", str(tmp_path / "there.yaml")]
        status = cli.main([*words, *([str(tmp_path / "asked.yaml")] if asked else [])])
        return Simulated(status, json.loads(capsys.readouterr().out))

    return simulated


HALVES = template("half", whole(kind="mig"))
WHOLE = template("whole", whole())


def test_a_share_keeps_the_whole_card_and_its_halves_away(run: Any) -> None:
    there = [*slices(), allocated("a", "gpu-0-share", "1Gi")]
    found = run(there, [WHOLE, claiming("a", "whole"), claiming("b", "whole")])
    assert found.devices("a") == ["gpu-1"]
    assert found.why("b") == "its devices are in use as whole GPUs and by shares"


def test_five_halves_beside_a_share_and_then_shares(run: Any) -> None:
    there = [*slices(), allocated("a", "gpu-0-share", "1Gi")]
    more = template("s", share(memory="1Gi"))
    asked = [
        HALVES,
        more,
        *(claiming(f"h{n}", "half") for n in range(5)),
        *(claiming(f"s{n}", "s") for n in range(4)),
    ]
    found = run(there, asked)
    assert [found.devices(f"h{n}") for n in range(5)] == [
        ["gpu-1-mig-0"],
        ["gpu-1-mig-1"],
        [],
        [],
        [],
    ]
    assert [found.devices(f"s{n}") for n in range(4)] == [["gpu-0-share"]] * 4


def test_halves_first_and_shares_as_the_second_choice(run: Any) -> None:
    some = [
        {"name": "half", "deviceClassName": "mig.gpu.node"},
        {"name": "share", **share(memory="4000Mi")["exactly"]},
    ]
    made = template("t", {"name": "r", "firstAvailable": some})
    found = run(slices(), [made, *(claiming(f"p{n}", "t") for n in range(6))])
    assert found.counts == (4, 2)


def test_what_is_allocated_counts(run: Any) -> None:
    there = [
        *slices(),
        allocated("a", "gpu-0-share", "30000Mi"),
        allocated("b", "gpu-1-share", "30000Mi"),
    ]
    found = run(there, [pod(gpu=1, gpumem=4000)])
    assert found.why("p") == "memory 4000Mi: 2 devices, most free is 2768Mi"
    assert found.json["nodes"][0]["shared"]["gpu-0-share"] == {
        "cores": "0",
        "memory": "30000Mi",
        "shares": "1",
    }


def test_a_tainted_share_is_passed_over(run: Any) -> None:
    for effect in (
        "NoSchedule",
        "NoExecute",
    ):
        found = run(slices(effect), [deployment(4, pod(gpu=1, gpumem=10000))])
        assert [found.devices(f"web-{n}") for n in range(3)] == [["gpu-1-share"]] * 3, effect
        assert found.why("web-3") == "memory 10000Mi: 1 device, most free is 2768Mi", effect


def test_two_shares_of_which_all_are_tainted(run: Any) -> None:
    first = {
        "selectors": [{"cel": {"expression": "device.attributes['gpu.node'].uuid == 'GPU-0'"}}]
    }
    asked = share(memory="1Gi")
    asked["exactly"] |= first
    found = run(slices("NoSchedule"), [template("t", asked), claiming("p", "t")])
    assert found.why("p") == "devices of share.gpu.node are tainted: gpu.node/xid=79:NoSchedule"
    asked["exactly"]["tolerations"] = [{"key": "gpu.node/xid", "operator": "Exists"}]
    assert run(slices("NoSchedule"), [template("t", asked), claiming("p", "t")]).counts == (1, 0)


def test_nothing_of_a_pool_that_is_being_replaced(run: Any) -> None:
    found = run(slices(count=3), [WHOLE, claiming("p", "whole")])
    assert (
        found.why("p")
        == "its ResourceSlices can't be used: 2 of 3 slices of generation 1 are there"
    )


def test_all_devices_of_a_node_while_another_ones_slices_are_replaced(run: Any) -> None:
    asked = whole()
    asked["exactly"]["allocationMode"] = "All"
    made = [template("all", asked), claiming("p", "all"), WHOLE, claiming("one", "whole")]
    found = run([*slices(), *slices(node="m")], made)
    assert found.devices("p") == ["gpu-0", "gpu-1"]
    replaced = run([*slices(), *slices(node="m", count=3)], made)
    assert replaced.devices("one") == ["gpu-0"]
    assert replaced.why("p") == (
        "all devices are requested, and pool m can't be used: 2 of 3 slices of generation 1 are there"
    )


def test_all_devices_of_a_node_while_another_ones_slices_are_not_valid(run: Any) -> None:
    asked = whole()
    asked["exactly"]["allocationMode"] = "All"
    made = [template("all", asked), claiming("p", "all")]
    without_counters, same_names = slices(node="m"), slices(node="m")
    del without_counters[0]["spec"]["sharedCounters"][1]
    devices = same_names[1]["spec"]["devices"]
    devices[4]["name"] = devices[0]["name"]
    found = run([*slices(), *without_counters], made)
    assert "pool m can't be used: gpu-1 consumes counters of gpu-1-counter-set" in found.why("p")
    assert run([*slices(), *same_names], made).devices("p") == ["gpu-0", "gpu-1"]


def test_a_selector_that_can_not_be_evaluated_stops_the_pod_everywhere(run: Any) -> None:
    selector = {"cel": {"expression": "device.attributes['gpu.node'].profile == '1g.5gb'"}}
    asked = {"name": "r", "exactly": {"deviceClassName": "mig.gpu.node", "selectors": [selector]}}
    found = run(slices(), [template("t", asked), claiming("p", "t")])
    why = 'a selector can\'t be evaluated for gpu-0-mig-0: NOT_FOUND: Key not found in map : "profile"'
    assert why in found.why("p")


def test_pods_share_a_claim_on_its_node(run: Any) -> None:
    there = [*slices(), *slices(node="m"), allocated("shared", "gpu-0", node="m")]
    one, two, three = naming("shared", "one"), naming("fresh", "two"), naming("fresh", "three")
    fresh = {"kind": "ResourceClaim", "metadata": {"name": "fresh"}, "spec": HALVES["spec"]["spec"]}
    found = run(there, [fresh, one, two, three])
    assert found.pods["one"]["node"] == "m"
    assert found.pods["two"]["node"] == found.pods["three"]["node"] == "n"
    assert (found.devices("two"), found.devices("three")) == (["gpu-0-mig-0"], [])


def test_pending_pods_of_what_is_there(run: Any) -> None:
    here = claiming("here", "whole") | {"status": {"phase": "Running"}}
    here["spec"] = {**here["spec"], "nodeName": "n"}
    there = [
        *slices(),
        WHOLE,
        allocated("a", "gpu-0"),
        here,
        claiming("waits", "whole"),
        claiming("late", "whole"),
    ]
    found = run(there, [])
    assert set(found.pods) == {"waits", "late"}
    assert found.devices("waits") == ["gpu-1"]
    assert found.json["nodes"][0]["pods"] == 2


def test_what_is_not_there_is_named(run: Any) -> None:
    for made, why in (
        (claiming("p", "nothing"), "the ResourceClaimTemplate nothing does not exist"),
        (naming("y"), "the ResourceClaim y does not exist"),
        (claiming("p", "odd"), "the DeviceClass odd does not exist"),
        (claiming("p", "foreign"), "the selector 'device.name == 1' is not understood"),
    ):
        odd = template("odd", {"name": "r", "exactly": {"deviceClassName": "odd"}})
        selectors = [{"cel": {"expression": "device.name == 1"}}]
        foreign = template(
            "foreign",
            {"name": "r", "exactly": {"deviceClassName": "gpu.gpu.node", "selectors": selectors}},
        )
        found = run([*slices(), odd, foreign], [made])
        assert why in found.why("p"), made
