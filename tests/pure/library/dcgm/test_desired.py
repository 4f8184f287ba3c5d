# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What cannot be meant is refused, and what the unit of the exporter says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm import exporter as units
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm import plan
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.state import (
    DcgmState,
    Exporter,
    Record,
    parse,
)

SERVING = {
    "address": "127.0.0.1:9400",
    "kubernetes": True,
    "gpu_id_type": "uid",
    "shared": True,
    "resources": [],
    "collectors": "",
    "interval": 30,
}
BINARY = {"location": "/srv/dcgm-exporter", "sha256": "0" * 64, "package": None, "version": None}
REST = {"state": "present", "version": "", "cuda": "auto", "proprietary": True, "hold": True}


def exporter(**values: Any) -> Exporter:
    found = parse({**REST, "exporter": {**SERVING, **BINARY, **values}}).exporter
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sha256": ""}, r"exporter\.sha256.*64 hexadecimal digits"),
        ({"location": None}, "exporter.*location with sha256, or package with version"),
        ({"package": "x"}, "exporter.*not both"),
        ({"location": None, "package": "dcgm-exporter"}, r"exporter\.version.*unpinned"),
        ({"location": "ftp://x/y"}, r"exporter\.location"),
        ({"address": "9400"}, r"exporter\.address.*HOST:PORT"),
        ({"address": "a:70000"}, r"exporter\.address"),
        ({"address": "a b:1"}, r"exporter\.address"),
        ({"address": "a:1\nUser=root"}, r"exporter\.address"),
        ({"collectors": "/a b"}, r"exporter\.collectors"),
        ({"resources": ["gpu"]}, r"exporter\.resources.*nvidia\.com/gpu\.shared"),
        ({"interval": 0}, r"exporter\.interval"),
    ],
)
def test_exporter_that_cannot_be_meant_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        exporter(**values)


@pytest.mark.parametrize("address", [":9400", "0.0.0.0:9400", "[::1]:9400", "node-1.example:1"])
def test_addresses_of_both_families_are_taken(address: str) -> None:
    assert exporter(address=address).address == address


def unit(**values: Any) -> str:
    return units.files(exporter(**values), "x")[units.UNIT_FILE]


def test_unit_has_no_rights_and_no_pods_where_it_maps_none() -> None:
    text = unit(kubernetes=False)
    assert "DynamicUser=yes" in text
    assert "CapabilityBoundingSet=\n" in text
    assert "User=root" not in text
    assert "KUBERNETES" not in text
    # Otherwise the address of the engine would be taken for the host's name.
    assert "DCGM_EXPORTER_NO_HOSTNAME=true" in text


def test_unit_that_maps_pods_is_root_without_capabilities() -> None:
    text = unit()
    assert "User=root\n" in text
    assert "CapabilityBoundingSet=\n" in text
    assert "/var/lib/kubelet/pki" in text


def test_file_of_fields_is_left_out_where_another_is_named() -> None:
    found = units.files(exporter(collectors="/etc/dcgm-exporter/mine.csv"), "x")
    assert [*found] == [units.UNIT_FILE]
    assert "DCGM_EXPORTER_COLLECTORS=/etc/dcgm-exporter/mine.csv" in found[units.UNIT_FILE]


def test_settings_tell_programs_and_fields_apart() -> None:
    digests = {
        units.digest_of(units.files(one, program)[units.UNIT_FILE])
        for one in (exporter(), exporter(interval=9))
        for program in ("a", "b")
    }
    assert len(digests) == 4
    assert "" not in digests


def test_fields_are_lines_that_the_exporter_reads() -> None:
    rows = [one.split(", ") for one in units.FIELDS.splitlines() if not one.startswith("#")]
    assert {len(one) for one in rows} == {3}
    assert {one[1] for one in rows} == {"gauge", "counter"}


def test_a_masked_service_is_refused() -> None:
    services = {units.DCGM_UNIT: {"UnitFileState": "masked", "ActiveState": "inactive"}}
    node = DcgmState("debian", {}, {}, Record(), services=services)
    with pytest.raises(NodeError, match=r"systemctl unmask nvidia-dcgm\.service, then run again"):
        plan.serve(node, parse({**REST, "exporter": None}), changed=False)
