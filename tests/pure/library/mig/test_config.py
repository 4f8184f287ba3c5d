# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""mig-parted configurations."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._mig.config import (
    entries_by_gpu,
    generated,
    select,
)

from tests.fakes.library.gpu_values import gpu
from tests.fakes.library.grids import A30, A100

GPUS = [
    dataclasses.replace(
        gpu(0),
        uuid="GPU-11111111-1111-1111-1111-111111111111",
        pci_bus_id="0000:18:00.0",
        pci_device_id=0x2330,
        pci_subsystem_id=0x16C110DE,
        name="NVIDIA H100 80GB HBM3",
    ),
    dataclasses.replace(
        gpu(1),
        uuid="GPU-22222222-2222-2222-2222-222222222222",
        pci_bus_id="0000:29:00.0",
    ),
]


def config(**entry: Any) -> dict[str, Any]:
    """Return a configuration with one layout of one entry."""
    whole = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}, **entry}
    return {
        "version": "v1",
        "mig-configs": {"x": [{key: value for key, value in whole.items() if value is not ...}]},
    }


@pytest.mark.parametrize(
    ("entry", "uuids"),
    [
        ({"devices": "all"}, [0, 1]),
        ({"devices": [1]}, [1]),
        ({"devices": ["GPU-11111111-1111-1111-1111-111111111111"]}, [0]),
        ({"devices": ["00000000:29:00.0"]}, [1]),
        ({"devices": ["0000:29:00.0", 0]}, [0, 1]),
        ({"device-filter": "0x233010DE"}, [0]),
        ({"device-filter": ["0x233010DE", "0x20B010DE"]}, [0, 1]),
        ({"device-filter": ""}, [0, 1]),
        ({"device-filter": "0x233010DE:0x16C110DE"}, [0]),
        ({"device-filter": "0x233010DE:0x16C210DE"}, []),
        ({"device-filter": str(0x233010DE)}, [0]),
        ({"device-filter": "H100 80GB HBM3"}, [0]),
        ({"device-filter": "nvidia a100-sxm4-40gb"}, [1]),
        ({"devices": []}, []),
    ],
)
def test_an_entry_selects_its_gpus(entry: dict[str, Any], uuids: list[int]) -> None:
    _name, specs = select(config(**entry), "")
    assert specs is not None
    assert list(entries_by_gpu(specs, GPUS)) == [GPUS[one].uuid for one in uuids]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "version and mig-configs"),
        ({"version": "v2", "mig-configs": {"x": []}}, "config.version"),
        ({"version": "v1"}, "config.mig-configs"),
        ({"version": "v1", "mig-configs": {}}, "config.mig-configs"),
        ({"version": "v1", "mig-configs": {"x": []}}, "at least one entry"),
        ({"version": "v1", "mig-configs": {"x": [{}]}, "more": 1}, "'more'"),
        (config(**{"mig-devcies": {}}), "mig-devcies"),
        (config(**{"mig-enabled": "yes"}), "mig-enabled"),
        (config(**{"mig-enabled": False}), "mig-enabled is false"),
        (config(devices="most"), "devices"),
        (config(devices=3), "devices"),
        (config(devices=[-1]), "devices"),
        (config(devices=["GPU-1"]), "devices"),
        (config(**{"mig-devices": {"1g.5gb": -1}}), "count of 0 or more"),
        (config(**{"mig-devices": {"1g.5gb": True}}), "count of 0 or more"),
        (config(**{"mig-devices": {"5gb": 1}}), "a MIG profile"),
        (config(**{"device-filter": "0xZZ"}), "PCI id"),
        (config(**{"device-filter": "0x233010DF"}), "PCI id"),
        (config(**{"device-filter": ["0x233010DE", 1.5]}), "PCI id"),
        (config(**{"mig-devices": {"5c.7g.40gb": 1}}), "that a 7g can have"),
        ({"version": "v1", "mig-configs": {1: [{}]}}, "quote it"),
    ],
)
def test_bad_configurations_name_the_key(data: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        select(data, "")


def test_two_spellings_of_a_profile_are_added_up() -> None:
    _name, specs = select(
        config(**{"mig-devices": {"1g.5gb": 2, "1c.1g.5gb": 1, "2g.10gb": 0}}), ""
    )
    assert specs[0].layout == {"1g.5gb": 3}


def test_mig_configs_alone_and_a_list_of_entries_will_do() -> None:
    whole = config()
    name, short = select(whole["mig-configs"], "")
    _name, long = select(whole, name)
    assert [one.layout for one in short or ()] == [one.layout for one in long or ()]
    _name, specs = select(whole["mig-configs"]["x"], "")
    assert specs is not None
    assert specs[0].layout == {"1g.5gb": 7}
    with pytest.raises(InputError, match="one list of entries"):
        select(whole["mig-configs"]["x"], "x")


def test_the_last_entry_that_matches_counts() -> None:
    layouts = (
        config()["mig-configs"]["x"]
        + config(devices=[1], **{"mig-devices": {}})["mig-configs"]["x"]
    )
    _name, specs = select(layouts, "")
    assert specs is not None
    found = entries_by_gpu(specs, GPUS)
    assert [found[gpu.uuid].layout for gpu in GPUS] == [{"1g.5gb": 7}, {}]


def test_unknown_layout_lists_those_there_are() -> None:
    with pytest.raises(InputError, match="one of: x"):
        select(config(), "y")


def test_device_that_is_not_there_is_an_error() -> None:
    _name, specs = select(config(devices=[5]), "")
    with pytest.raises(InputError, match="a GPU of this node"):
        entries_by_gpu(specs, GPUS)


def test_layouts_of_nvidias_names_are_generated() -> None:
    assert generated("all-disabled", A100) is None
    assert generated("all-balanced", A100) == {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
    assert generated("all-balanced", A30) == {"1g.6gb": 2, "2g.12gb": 1}
    assert generated("all-1g.5gb", A100) == {"1g.5gb": 7}
    assert generated("all-1g.5gb.me", A100) == {"1g.5gb+me": 1}
    with pytest.raises(InputError, match=r"all-1g\.10gb"):
        generated("all-9g.5gb", A100)


def test_generated_names_may_be_selected_beside_ones_own() -> None:
    assert select(config(), "all-disabled") == ("all-disabled", None)
    with pytest.raises(InputError, match="all-<profile>"):
        select(config(), "all-nothing")


def test_generated_names_may_be_selected_beside_one_list_of_entries() -> None:
    entries = config()["mig-configs"]["x"]
    assert select(entries, "all-disabled") == ("all-disabled", None)
    with pytest.raises(InputError, match="all-<profile>"):
        select(entries, "all-nothing")
    with pytest.raises(InputError, match="devices"):
        select([{**entries[0], "devices": "some"}], "all-disabled")
