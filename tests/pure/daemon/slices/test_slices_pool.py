# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The ResourceSlices of a node: names, attributes, capacities, taints, and the limits of the API."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.names import pool_name
from gpu_plugin._shared._repair.signs import ACTIONS
from gpu_plugin.config.configuration import Config, parse
from gpu_plugin.model import quantity
from gpu_plugin.model.inventory import GpuView, Inventory, Kind, Place, Problem
from gpu_plugin.slices import build
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.daemon import gpu_builders, mig_grids
from tests.fakes.daemon.gpu_builders import condition, gpu, inventory
from tests.fakes.daemon.mig_grids import GRIDS, every

ALL = parse("gpuNode: {allocation: dra}")
NODE = "node-1"
PROBLEMS = (None, *(Problem(kind, "broken") for kind in Kind))
Json = dict[str, Any]


def view(index: int = 0, **more: Any) -> GpuView:
    return replace(gpu_builders.view(index), brand=14, pcie_root="pci0000:16", **more)


def slices(*views: GpuView, config: Config = ALL, **more: Any) -> list[Json]:
    now = replace(inventory(*views), cuda_version="12.4")
    faults, unenforced = more.pop("faults", {}), more.pop("unenforced", {})
    return list(build(now, config, faults, unenforced, node=NODE, **more))


def devices(*views: GpuView, **more: Any) -> dict[str, Json]:
    found = [one for part in slices(*views, **more) for one in part.get("devices", ())]
    return {one["name"]: one for one in found}


def strings(device: Json) -> Json:
    """A device's attributes without their types."""
    return {key: next(iter(value.values())) for key, value in device["attributes"].items()}


def test_a_whole_gpu_and_its_shares_take_all_of_the_same_counter() -> None:
    counters, parts = slices(view(0))
    pool = {"name": f"gpu.node/{NODE}", "generation": 1, "resourceSliceCount": 2}
    for one in (counters, parts):
        assert one["driver"] == "gpu.node"
        assert (one["nodeName"], one["pool"]) == (NODE, pool)
    everything = {"memory": {"value": "80Gi"}}
    assert counters["sharedCounters"] == [{"name": "gpu-0-counter-set", "counters": everything}]
    takes = [{"counterSet": "gpu-0-counter-set", "counters": everything}]
    assert [(one["name"], one["consumesCounters"]) for one in parts["devices"]] == [
        ("gpu-0", takes),
        ("gpu-0-share", takes),
    ]


def test_the_pool_has_a_name_that_no_other_driver_has() -> None:
    """The scheduler keeps counters by a pool's name, and other drivers name theirs as the node."""
    names = [pool_name(node) for node in (NODE, "n" * 244, "n" * 245, "n" * 253)]
    assert names[:2] == [f"gpu.node/{NODE}", f"gpu.node/{'n' * 244}"]
    assert names[2:] == ["n" * 245, "n" * 253]  # 253 characters are all that a pool's name has


def test_attributes_have_nvidias_names_and_ours() -> None:
    whole, share = devices(view(0)).values()
    assert whole["attributes"] == {
        "gpu.nvidia.com/architecture": {"string": "Hopper"},
        "gpu.nvidia.com/brand": {"string": "Nvidia"},
        "gpu.nvidia.com/cudaComputeCapability": {"version": "9.0.0"},
        "gpu.nvidia.com/cudaDriverVersion": {"version": "12.4.0"},
        "gpu.nvidia.com/driverVersion": {"version": "550.163.1"},
        "gpu.nvidia.com/productName": {"string": "NVIDIA H100 80GB HBM3"},
        "gpu.nvidia.com/type": {"string": "gpu"},
        "gpu.nvidia.com/uuid": {"string": "GPU-0"},
        "index": {"int": 0},
        "numaNode": {"int": 0},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:16"},
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-0"},
    }
    assert whole["capacity"] == {"gpu.nvidia.com/memory": {"value": "80Gi"}}
    added = {"type": "share", "gpu.nvidia.com/type": "share", "enforcement": "mps"}
    assert strings(share) == {**strings(whole), **added}


def test_what_is_not_known_is_left_out() -> None:
    bare = replace(gpu(0, name="\x00é" * 60), compute_capability=(99, 0))
    now = replace(inventory(GpuView(bare)), driver_version="unknown")
    (_counters, parts) = build(now, ALL, {}, {}, node=NODE)
    found = strings(parts["devices"][0])
    missing = ("numaNode", "resource.kubernetes.io/pcieRoot")
    gone = ("brand", "architecture", "driverVersion", "cudaDriverVersion")
    assert not {*missing, *(f"gpu.nvidia.com/{key}" for key in gone)} & set(found)
    assert len(found["productName"].encode()) <= 64
    assert found["productName"].isprintable()


def test_shares_of_a_gpu_have_request_policies() -> None:
    share = devices(view(0))["gpu-0-share"]
    assert share["allowMultipleAllocations"] is True
    assert share["capacity"] == {
        "memory": {
            "value": "80Gi",
            "requestPolicy": {"default": "80Gi", "validRange": {"min": "1Mi", "step": "1Mi"}},
        },
        "cores": {
            "value": "100",
            "requestPolicy": {
                "default": "0",
                "validRange": {"min": "0", "max": "100", "step": "1"},
            },
        },
        "shares": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1"]}},
    }


def test_scaling_and_split_count_are_capacities() -> None:
    for text, memory, shares in (
        ("splitCount: 4, memoryScaling: 3, oversubscribe: best-effort", "240Gi", "4"),
        ("memoryScaling: 1.15, enforcement: none", "92Gi", "10"),
        ("memoryScaling: 0.1", "8Gi", "10"),
        ("splitCount: 1000", "80Gi", "48"),  # MPS has no more clients on Hopper
        ("splitCount: 1000, enforcement: none", "80Gi", "1k"),
    ):
        config = parse(f"gpuNode: {{allocation: dra, dra: {{{text}}}}}")
        found = devices(view(0), config=config)
        assert found["gpu-0-share"]["capacity"]["memory"]["value"] == memory, text
        assert found["gpu-0-share"]["capacity"]["shares"]["value"] == shares, text
        assert found["gpu-0"]["capacity"] == {"gpu.nvidia.com/memory": {"value": "80Gi"}}, text


def test_slices_have_the_gpus_of_dra_alone() -> None:
    config = parse("gpuNode: {allocation: both, dra: {devices: [1]}}")
    assert list(devices(view(0), view(1), config=config)) == ["gpu-1", "gpu-1-share"]
    assert slices(view(0), config=Config()) == []
    assert slices(GpuView(gpu(0, name="DGX Display"))) == []


def test_a_gpu_in_mig_mode_has_its_placements_and_what_stands() -> None:
    profiles = GRIDS["h100-80"]
    by_name = {one.name: one for one in profiles}
    found = devices(mig_grids.view(profiles, [(by_name["3g.40gb"], 0)]))
    assert "gpu-0" not in found
    standing = found["gpu-0-mig-3g40gb-9-0"]
    assert strings(standing)["uuid"] == strings(standing)["gpu.nvidia.com/uuid"] == "MIG-0-1"
    assert "consumesCounters" not in standing
    placed = found["gpu-0-mig-1g10gb-me-20-6"]
    assert "uuid" not in placed["attributes"]
    told = {
        "type": "mig",
        "gpu.nvidia.com/profile": "1g.10gb+me",
        "gpu.nvidia.com/parentUUID": "GPU-0",
    }
    assert told.items() <= strings(placed).items()
    assert placed["capacity"] == {"gpu.nvidia.com/memory": {"value": "9984Mi"}}
    (takes,) = placed["consumesCounters"]
    assert takes["counterSet"] == "gpu-0-counter-set"
    assert set(takes["counters"]) == {"memory-slice-6", "compute-slices", "media-extensions"}
    assert not [
        name for name in found if name.endswith(("-0", "-1", "-2", "-3")) and "3g" not in name
    ]


def test_what_a_claim_had_made_changes_nothing() -> None:
    profiles = GRIDS["h100-80"]
    by_name = {one.name: one for one in profiles}
    made = mig_grids.view(profiles, [(by_name["2g.20gb"], 4)])
    before = slices(mig_grids.view(profiles))
    assert slices(made, made={("GPU-0", by_name["2g.20gb"].id, 4)}) == before
    assert slices(made) != before


def test_what_excludes_nothing_has_no_counters() -> None:
    """kube-scheduler 1.36 reads the counters of all nodes for each node."""
    every = [view(index) for index in range(8)]
    for kind, names in (
        ("gpu", [f"gpu-{n}" for n in range(8)]),
        ("share", [f"gpu-{n}-share" for n in range(8)]),
    ):
        config = parse(f"gpuNode: {{allocation: dra, dra: {{publish: {kind}}}}}")
        (only,) = slices(*every, config=config)
        assert [one["name"] for one in only["devices"]] == names
        assert "sharedCounters" not in only
        assert not any("consumesCounters" in one for one in only["devices"])
    mixed = slices(every[0], mig_grids.view(GRIDS["h100-80"], (), 1), config=config)
    assert [one["name"] for one in mixed[0]["sharedCounters"]] == ["gpu-1-counter-set"]


@settings(max_examples=30)
@given(st.data())
def test_counters_are_there_where_they_exclude_something_and_nowhere_else(data: Any) -> None:
    found = build(many(data.draw), ALL, {}, {}, node=NODE)
    there = {
        one["name"]: one["counters"] for part in found for one in part.get("sharedCounters", ())
    }
    taken: dict[str, Counter[str]] = {name: Counter() for name in there}
    for part in found:
        for one in part.get("devices", ()):
            for takes in one.get("consumesCounters", ()):
                for name, amount in takes["counters"].items():
                    taken[takes["counterSet"]][name] += int(quantity.parse(amount["value"], name))
    for name, counters in there.items():
        most = {key: quantity.parse(one["value"], key) for key, one in counters.items()}
        assert any(amount > most[key] for key, amount in taken[name].items()), name


def test_a_fully_divided_gpu_needs_no_counters() -> None:
    (whole,) = [one for one in GRIDS["h100-80"] if one.name == "7g.80gb"]
    (only,) = slices(mig_grids.view(GRIDS["h100-80"], [(whole, 0)]))
    assert [one["name"] for one in only["devices"]] == ["gpu-0-mig-7g80gb-0-0"]


def test_the_parts_of_a_gpu_instance_are_not_published_and_keep_their_place() -> None:
    (three,) = [one for one in GRIDS["h100-80"] if one.name == "3g.40gb"]
    one = mig_grids.view(GRIDS["h100-80"], [(three, 0)])
    parts = [replace(one.mig[0], uuid=f"MIG-{n}", ci_id=n, profile="1c.3g.40gb") for n in range(3)]
    whole, parted = (set(devices(each)) for each in (one, replace(one, mig=tuple(parts))))
    assert whole - parted == {"gpu-0-mig-3g40gb-9-0"}
    assert parted < whole


def test_small_instances_go_where_they_leave_room_for_large_ones() -> None:
    order = [name.split("-mig-")[1] for name in devices(mig_grids.view(GRIDS["h100-80"]))]
    assert order[:3] == ["1g10gb-19-6", "1g10gb-19-5", "1g10gb-19-4"]
    assert order.index("1g10gb-19-0") < order.index("1g10gb-me-20-6") < order.index("2g20gb-14-4")
    assert order[-1] == "7g80gb-0-0"


def test_a_sick_gpu_is_tainted() -> None:
    for problem, taint in (
        (Problem(Kind.LOST, "gone"), {"key": "gpu.node/gpu-lost"}),
        (Problem(Kind.UNREADABLE, "?"), {"key": "gpu.node/unreadable"}),
        (Problem(Kind.HUNG, "no answer"), {"key": "gpu.node/hung"}),
    ):
        found = devices(view(0, problem=problem), view(1))
        assert found["gpu-0"]["taints"] == [{**taint, "effect": "NoSchedule"}], taint
        assert found["gpu-0-share"]["taints"] == found["gpu-0"]["taints"], taint
        assert "taints" not in found["gpu-1"], taint


def test_a_fault_is_tainted_with_its_xid() -> None:
    whole: Place = ("GPU-0", None, None)
    problem = Problem(Kind.FAULT, "it has fallen off the bus", xid=79)
    found = devices(view(0), faults={whole: problem})
    assert found["gpu-0"]["taints"] == [
        {"key": "gpu.node/xid", "value": "79", "effect": "NoSchedule"}
    ]
    told = Problem(Kind.FAULT, "XID 64 is what a memory row counts as that could not be replaced")
    found = devices(view(0), faults={whole: told})
    assert found["gpu-0"]["taints"] == [{"key": "gpu.node/fault", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("number", "verdict"), [(1, "reset"), (2, "reboot"), (4, "drain_then_reset")]
)
def test_what_is_to_be_done_about_a_gpu_is_a_taint_too(number: int, verdict: str) -> None:
    whole: Place = ("GPU-0", None, None)
    asks = replace(view(0), condition=condition(recovery=number))
    problem = Problem(Kind.FAULT, "the driver asks", verdict=ACTIONS[verdict])
    key = "gpu.node/recovery-action"
    assert devices(asks, faults={whole: problem})["gpu-0"]["taints"] == [
        {"key": "gpu.node/fault", "effect": "NoSchedule"},
        {"key": key, "value": verdict, "effect": "NoSchedule"},
    ]
    # As where the user has turned all checks off.
    told = [{"key": key, "value": verdict, "effect": "None"}]
    assert devices(asks)["gpu-0"]["taints"] == told


def test_what_keeps_nobody_from_a_gpu_has_no_effect() -> None:
    found = devices(
        replace(view(0), condition=condition(recovery=5)),
        replace(view(1), condition=condition(recovery=0, pending=True)),
    )
    taint = {"key": "gpu.node/recovery-action", "value": "recover_fabric", "effect": "None"}
    assert found["gpu-0"]["taints"] == found["gpu-0-share"]["taints"] == [taint]
    assert "taints" not in found["gpu-1"]


def test_a_fault_of_an_instance_taints_that_one() -> None:
    by_name = {one.name: one for one in GRIDS["h100-80"]}
    places = [(by_name["1g.10gb"], 6), (by_name["2g.20gb"], 4)]
    one = mig_grids.view(GRIDS["h100-80"], places)
    faults = {("GPU-0", one.mig[1].gi_id, 0): Problem(Kind.FAULT, "XID 94 (contained)")}
    for made in ((), {("GPU-0", by_name["2g.20gb"].id, 4)}):
        found = devices(one, faults=faults, made=made)
        assert [name for name, each in found.items() if "taints" in each] == [
            "gpu-0-mig-2g20gb-14-4"
        ]


def test_shares_that_nothing_enforces_are_tainted_and_whole_gpus_are_not() -> None:
    found = devices(
        view(0), view(1), unenforced={"GPU-0": "the MPS control daemon does not answer"}
    )
    tainted = {name: one["taints"] for name, one in found.items() if "taints" in one}
    assert tainted == {"gpu-0-share": [{"key": "gpu.node/unenforced", "effect": "NoSchedule"}]}


def test_without_its_driver_all_gpus_are_tainted() -> None:
    now = replace(inventory(view(0)), absent="the NVIDIA driver is not loaded")
    (_counters, parts) = build(now, ALL, {}, {}, node=NODE)
    keys = {taint["key"] for one in parts["devices"] for taint in one["taints"]}
    assert keys == {"gpu.node/no-driver"}


def apart(places: list[mig_grids.Place]) -> list[mig_grids.Place]:
    """Those that do not overlap one before them."""
    found: dict[int, mig_grids.Place] = {}
    for one in places:
        slices = range(one[1], one[1] + mig_grids.size(one))
        if not set(slices) & set(found):
            found |= dict.fromkeys(slices, one)
    return list(dict.fromkeys(found.values()))


def many(draw: Any) -> Inventory:
    """A node with GPUs of all kinds, whole and in MIG mode, well and sick."""
    views: list[GpuView] = []
    for index in range(draw(st.integers(0, 20))):
        name = draw(st.sampled_from(["", *sorted(GRIDS)]))
        one = view(index)
        if name:
            places = draw(st.lists(st.sampled_from(every(GRIDS[name])), max_size=3))
            one = mig_grids.view(GRIDS[name], apart(places), index)
        views.append(replace(one, problem=draw(st.sampled_from(PROBLEMS))))
    return inventory(*draw(st.permutations(views)))


@settings(max_examples=30)
@given(st.data())
def test_no_slice_goes_beyond_the_limits_of_the_api(data: Any) -> None:
    now = many(data.draw)
    found = build(now, ALL, {}, {"GPU-0": "not now"}, node=NODE)
    assert {one["pool"]["resourceSliceCount"] for one in found} <= {len(found)}
    sets = [one for part in found for one in part.get("sharedCounters", ())]
    counters = {one["name"]: one["counters"] for one in sets}
    assert len(counters) == len(sets)
    names = Counter(one["name"] for part in found for one in part.get("devices", ()))
    assert set(names.values()) <= {1}
    for part in found:
        assert len({"sharedCounters", "devices"} & part.keys()) == 1
        assert 1 <= len(part.get("sharedCounters", [1])) <= 8
        assert 1 <= len(part.get("devices", [1])) <= 64
        for one in part.get("devices", ()):
            assert len(one["attributes"]) + len(one["capacity"]) <= 32
            assert len(one["name"]) <= 63
            for takes in one.get("consumesCounters", ()):
                there = counters[takes["counterSet"]]
                assert takes["counters"].keys() <= there.keys()
    assert all(1 <= len(some) <= 32 for some in counters.values())


@settings(max_examples=20)
@given(st.data())
def test_equal_gpus_give_equal_bytes_in_any_order(data: Any) -> None:
    now = many(data.draw)
    again = replace(now, gpus=tuple(data.draw(st.permutations(now.gpus))))
    first, second = (json.dumps(build(one, ALL, {}, {}, node=NODE)) for one in (now, again))
    assert first == second
