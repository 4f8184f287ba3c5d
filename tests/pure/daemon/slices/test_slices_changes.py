# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From the slices that there are to those that are wanted: at each step a scheduler sees the old, the new, or none."""

from __future__ import annotations

from typing import Any

from gpu_plugin._shared._base.dra.names import DRIVER, pool_name
from gpu_plugin.slices.changes import CREATE, DELETE, LONGEST_NAME, changes, dropped, name_of
from hypothesis import given
from hypothesis import strategies as st

NODE = "node-1"
POOL = pool_name(NODE)
Json = dict[str, Any]
CONTENTS = st.lists(st.sampled_from("abc"), max_size=4)


def specs(contents: list[str], name: str = POOL) -> list[Json]:
    """Slices with a device each."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": len(contents)}
    return [
        {"driver": DRIVER, "nodeName": NODE, "pool": dict(pool), "devices": [{"name": one}]}
        for one in contents
    ]


def stored(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec}


def seen(store: dict[str, Json]) -> list[str] | None:
    """What a scheduler sees: the devices of the latest generation by the slices' names, None while one is missing."""
    if not store:
        return []
    latest = max(one["spec"]["pool"]["generation"] for one in store.values())
    current = {
        name: one["spec"]
        for name, one in store.items()
        if one["spec"]["pool"]["generation"] == latest
    }
    if {spec["pool"]["resourceSliceCount"] for spec in current.values()} != {len(current)}:
        return None
    return [current[name]["devices"][0]["name"] for name in sorted(current)]


def carried_out(store: dict[str, Json], wanted: list[str], most: int | None = None) -> list[Any]:
    """Carry the changes out, or the first of them; return what was seen after each."""
    views = []
    for one in changes(NODE, specs(wanted), list(store.values()))[:most]:
        assert (one.name in store) == (one.action != CREATE)
        if one.action == DELETE:
            del store[one.name]
        else:
            store[one.name] = stored(one.name, one.spec)
            assert {each["spec"]["pool"]["name"] for each in store.values()} == {POOL}
        views.append(seen(store))
    return views


@given(CONTENTS, CONTENTS, st.integers(0, 8), CONTENTS)
def test_no_step_shows_what_is_neither_the_old_nor_the_new(
    old: list[str], new: list[str], killed: int, newest: list[str]
) -> None:
    store: dict[str, Json] = {}
    carried_out(store, old)
    assert seen(store) == old
    allowed: list[Any] = [None, old, new]
    if not old or not new:
        allowed.append([])
    views = carried_out(store, new, killed)  # and then the process is killed
    if new:
        assert all(one in allowed for one in views)
    carried_out(store, newest)
    assert seen(store) == newest
    assert changes(NODE, specs(newest), list(store.values())) == ()
    assert len(store) == len(newest)


@given(
    CONTENTS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=4)
)
def test_whatever_others_left_there_ends_as_it_is_wanted(
    new: list[str], litter: list[tuple[int, int, bool]]
) -> None:
    store: dict[str, Json] = {}
    for number, generation, ours in litter:
        (spec,) = specs(["z"])
        spec["pool"] |= {"generation": generation, "name": POOL if ours else NODE}
        name = name_of(NODE, number) if ours else f"stray-{number}"
        store[name] = stored(name, spec)
    carried_out(store, new)
    assert seen(store) == new
    assert changes(NODE, specs(new), list(store.values())) == ()


@given(CONTENTS.filter(bool), CONTENTS, st.integers(0, 5))
def test_slices_of_another_pool_go_before_those_of_this_one_come(
    old: list[str], new: list[str], generation: int
) -> None:
    """A GPU in two pools would be given away twice, and the pool of a slice can't be changed."""
    store: dict[str, Json] = {}
    for number, spec in enumerate(specs(old, NODE)):
        spec["pool"]["generation"] = generation
        store[name_of(NODE, number)] = stored(name_of(NODE, number), spec)
    due = changes(NODE, specs(new), list(store.values()))
    assert [one.action for one in due] == [DELETE] * len(old) + [CREATE] * len(new)
    assert {one.spec["pool"]["generation"] for one in due[len(old) :]} <= {1}


def test_a_change_of_one_slice_is_one_call() -> None:
    store: dict[str, Json] = {}
    carried_out(store, ["a", "b", "c"])
    (only,) = changes(NODE, specs(["a", "x", "c"]), list(store.values()))
    assert (only.action, only.name) == ("replace", name_of(NODE, 1))
    assert only.spec["pool"]["generation"] == 1


def test_names_sort_as_their_numbers_and_are_never_too_long() -> None:
    for node in ("n", "n" * 253, "a." * 120 + "b"):
        names = [name_of(node, number) for number in range(40)]
        assert sorted(names) == names
        assert len(set(names)) == len(names)
        assert max(map(len, names)) <= LONGEST_NAME
    assert name_of("n" * 253, 0) != name_of("n" * 252 + "m", 0)


def test_times_of_taints_stay_and_make_no_difference() -> None:
    taint = {"key": "gpu.node/xid", "value": "79", "effect": "NoSchedule"}
    (spec,) = specs(["a"])
    spec["devices"][0]["taints"] = [taint]
    there = {**spec, "devices": [{"name": "a", "taints": [{**taint, "timeAdded": "then"}]}]}
    before = [stored(name_of(NODE, 0), there)]
    assert changes(NODE, [spec], before) == ()
    more = {**spec, "devices": [{**spec["devices"][0], "attributes": {"index": {"int": 1}}}]}
    (change,) = changes(NODE, [more], before)
    assert change.spec["devices"][0]["taints"] == [{**taint, "timeAdded": "then"}]


def test_what_a_server_drops_names_its_feature_gate() -> None:
    policy = {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Mi"}}}
    sent = {"devices": [{"name": "a", "capacity": policy, "consumesCounters": [1]}]}
    kept = {"devices": [{"name": "a", "capacity": {"memory": {"value": "1Gi"}}}]}
    assert dropped(sent, kept) == {"DRAConsumableCapacity", "DRAPartitionableDevices"}
    assert dropped(sent, sent) == set()
