# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which resources and devices a node offers."""

from __future__ import annotations

import pytest
from gpu_plugin._shared._base.gpu import parse_minors
from gpu_plugin.advertise.decide import EnumerationRefused
from gpu_plugin.config.sharing import LONGEST_PATTERN, Naming, Rule, resource_name
from gpu_plugin.model.inventory import GpuView, Inventory, Resources, remember

from tests.fakes.daemon.gpu_builders import enumerate_devices, gpu, inventory, notes, view
from tests.support.waiting import alarm


def ids(resources: Resources) -> dict[str, list[str]]:
    return {name: [one.id for one in devices] for name, devices in resources.items()}


def test_whole_gpus_are_offered_by_each_strategy() -> None:
    for strategy in ("none", "single", "mixed"):
        found = enumerate_devices(inventory(view(0), view(1, numa=None)), strategy)
        assert ids(found) == {"nvidia.com/gpu": ["GPU-0", "GPU-1"]}
        first, second = found["nvidia.com/gpu"]
        assert (first.paths, first.numa_node, first.index) == (("/dev/nvidia0",), 0, "0")
        assert second.numa_node is None


def test_none_offers_a_gpu_in_mig_mode_as_a_whole_and_says_so() -> None:
    now = inventory(view(0, "1g.10gb"))
    assert ids(enumerate_devices(now, "none")) == {"nvidia.com/gpu": ["GPU-0"]}
    assert "migStrategy is none" in notes(now, "none")[0]


def test_mixed_names_each_profile() -> None:
    now = inventory(view(0, "3g.40gb", "1g.10gb", "1g.10gb+me"), view(1), view(2, on=True))
    found = enumerate_devices(now, "mixed")
    assert ids(found) == {
        "nvidia.com/gpu": ["GPU-1"],
        "nvidia.com/mig-1g.10gb": ["MIG-0-1"],
        "nvidia.com/mig-1g.10gb.me": ["MIG-0-2"],
        "nvidia.com/mig-3g.40gb": ["MIG-0-0"],
    }
    device = found["nvidia.com/mig-1g.10gb"][0]
    assert device.index == "0:1"
    assert device.paths == (
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap80",
        "/dev/nvidia-caps/nvidia-cap81",
    )
    assert notes(now, "mixed") == ["GPU 2 (GPU-2) is in MIG mode and has no MIG devices"]


def test_mixed_leaves_divided_instances_out_and_says_so() -> None:
    now = inventory(view(0, "1c.3g.40gb", "3g.40gb"))
    assert ids(enumerate_devices(now, "mixed")) == {"nvidia.com/mig-3g.40gb": ["MIG-0-1"]}
    assert "1c.3g.40gb" in notes(now, "mixed")[0]


def test_resources_are_named_by_their_profile() -> None:
    names = {
        "1g.5gb": "nvidia.com/mig-1g.5gb",
        "1g.10gb+me": "nvidia.com/mig-1g.10gb.me",
        "1g.24gb-me": "nvidia.com/mig-1g.24gb-me",
        "1g.24gb+me.all": "nvidia.com/mig-1g.24gb.me.all",
        "1g.24gb+gfx": "nvidia.com/mig-1g.24gb.gfx",
    }
    assert {profile: resource_name(profile) for profile in names} == names


def test_single_offers_mig_devices_as_gpus() -> None:
    now = inventory(view(1, "1g.10gb"), view(0, "1g.10gb", "1g.10gb"))
    found = enumerate_devices(now, "single")
    assert ids(found) == {"nvidia.com/gpu": ["MIG-0-0", "MIG-0-1", "MIG-1-0"]}


def test_single_refuses_gpus_that_are_not_alike() -> None:
    for views, words in (
        ((view(0, "1g.10gb"), view(1)), "on for GPU 0 and off for GPU 1"),
        ((view(0, "1g.10gb"), view(1, on=True)), r"GPU 1 \(GPU-1\) has none"),
        ((view(0, "1g.10gb", "3g.40gb"),), "found 1g.10gb, 3g.40gb"),
        ((view(0, "1g.10gb"), view(1, "2g.20gb")), "found 1g.10gb, 2g.20gb"),
    ):
        with pytest.raises(EnumerationRefused, match=words) as caught:
            enumerate_devices(inventory(*views), "single")
        assert caught.value.hint


def test_displays_are_no_gpus() -> None:
    now = inventory(GpuView(gpu(0, name="DGX Display")), view(1))
    assert ids(enumerate_devices(now, "none")) == {"nvidia.com/gpu": ["GPU-1"]}


def test_a_missing_capability_makes_one_device_unfit() -> None:
    now = inventory(view(0, "1g.10gb", "1g.10gb"))
    caps = {name: minor for name, minor in now.caps.items() if "gi7/ci0" not in name}
    broken = type(now)(now.driver_version, now.gpus, caps)
    first, second = enumerate_devices(broken, "mixed")["nvidia.com/mig-1g.10gb"]
    assert str(first.problem) == "the driver lists no capability gpu0/gi7/ci0/access"
    assert not second.problem


def test_a_broken_gpu_hides_no_other_and_stays_known() -> None:
    before = inventory(view(0), view(1, "1g.10gb"), view(2))
    now = remember(before, inventory(view(0), view(2), unreadable={1: "GPU 1 is gone"}))
    found = enumerate_devices(now, "mixed")
    assert {one.id: str(one.problem or "") for devices in found.values() for one in devices} == {
        "GPU-0": "",
        "GPU-2": "",
        "MIG-1-0": "GPU 1 is gone",
    }


def kept(now: Inventory) -> dict[str, str]:
    return {view.gpu.uuid: str(view.problem or "") for view in now.gpus}


ALL = tuple(view(index) for index in range(4))
ADDRESSES = tuple(one.gpu.pci_bus_id for one in ALL)


def test_of_a_gpu_taken_out_and_one_lost_the_lost_one_stays() -> None:
    now = inventory(ALL[0], ALL[2], unreadable={3: "GPU 3 is lost"})
    assert kept(remember(inventory(*ALL), now)) == {
        "GPU-0": "",
        "GPU-2": "",
        "GPU-3": "GPU 3 is lost",
    }


def test_also_where_nvml_counts_anew_without_the_one_that_was_taken_out() -> None:
    there = tuple(ADDRESSES[index] for index in (0, 2, 3))
    now = inventory(ALL[0], ALL[2], unreadable={2: "GPU 2 is lost"}, addresses=there)
    assert kept(remember(inventory(*ALL), now)) == {
        "GPU-0": "",
        "GPU-2": "",
        "GPU-3": "GPU 2 is lost",
    }


def test_each_lost_gpu_has_its_own_reason() -> None:
    now = inventory(ALL[0], unreadable={1: "a", 2: "b", 3: "c"}, addresses=ADDRESSES)
    later = remember(remember(inventory(*ALL), now), now)
    assert kept(later) == {"GPU-0": "", "GPU-1": "a", "GPU-2": "b", "GPU-3": "c"}
    assert later.strangers == ()


@pytest.mark.parametrize("before", [None, inventory(ALL[0])])
def test_a_gpu_that_was_never_read_is_told_of(before: Inventory | None) -> None:
    now = remember(before, inventory(ALL[0], unreadable={1: "GPU 1 is lost"}))
    assert kept(now) == {"GPU-0": ""}
    assert [str(one) for one in now.strangers] == ["GPU 1 is lost"]


def test_a_gpu_that_is_just_not_there_any_more_is_forgotten() -> None:
    now = remember(inventory(view(0), view(1)), inventory(view(0)))
    assert [one.gpu.index for one in now.gpus] == [0]
    assert remember(None, now) is now


def test_caps_are_read_from_the_drivers_list() -> None:
    text = "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\nbroken\n"
    assert parse_minors(text)["gpu0/gi1/ci0/access"] == 13
    assert "broken" not in parse_minors(text)


RULES = Naming(
    gpus=(Rule("*A100*40GB*", "nvidia.com/a100-40"), Rule("*A100*", "nvidia.com/a100")),
    mig=(Rule("1g.*", "nvidia.com/small"), Rule("1c.*", "nvidia.com/slice")),
)


def test_the_users_names_come_before_the_usual_ones() -> None:
    a100 = GpuView(gpu(0, name="NVIDIA A100-SXM4-40GB"))
    other = GpuView(gpu(1, name="NVIDIA A100-SXM4-80GB"))
    now = inventory(a100, other, view(2), view(3, "1g.10gb", "2g.20gb", "1c.3g.40gb"))
    assert ids(enumerate_devices(now, "mixed", RULES)) == {
        "nvidia.com/a100": ["GPU-1"],
        "nvidia.com/a100-40": ["GPU-0"],
        "nvidia.com/gpu": ["GPU-2"],
        "nvidia.com/mig-2g.20gb": ["MIG-3-1"],
        "nvidia.com/slice": ["MIG-3-2"],
        "nvidia.com/small": ["MIG-3-0"],
    }
    assert notes(now, "mixed", RULES) == []
    alike = inventory(view(0, "1g.10gb", "1g.10gb"))
    assert ids(enumerate_devices(alike, "single", RULES)) == {
        "nvidia.com/small": ["MIG-0-0", "MIG-0-1"]
    }


PRODUCT = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
MATCHING = ("*", PRODUCT, "NVIDIA*", "*Edition", "*RTX*6000*", "NVIDIA*Edition", "*Edition*")
MATCHING += ("**Edition**", "N*A*n")
OTHERS = ("RTX*", "*RTX", "*6000*RTX*", "*Edition*Edition", f"{PRODUCT}*{PRODUCT}", f"{PRODUCT}n")
OTHERS += ("NVIDIA", "RTX PRO 6000", "NVIDIA.RTX*", "[N]*", "")


def test_patterns_are_about_the_whole_name() -> None:
    found = {one: Rule(one, "x").matches(PRODUCT) for one in (*MATCHING, *OTHERS)}
    assert found == dict.fromkeys(MATCHING, True) | dict.fromkeys(OTHERS, False)
    assert Rule("*", "x").matches("")


@pytest.mark.attack("hostile-configuration")
def test_stars_are_matched_in_linear_time() -> None:
    with alarm():
        for pattern in ("*" * 14 + "!", "*a" * 120 + "!", "*" * LONGEST_PATTERN):
            assert Rule(pattern, "x").matches(PRODUCT) == pattern.endswith("*")
        assert not Rule("*a*a*a*a*a*a*a*a*a*a*b", "x").matches("a" * 100)
