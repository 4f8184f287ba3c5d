# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims that would take for ever, or are more than can be followed."""

from __future__ import annotations

import pytest
from gpu_cluster.placement import claims, devices
from gpu_cluster.placement.claims import Claim, Refused
from gpu_cluster.placement.devices import Devices, Use
from gpu_cluster.placement.reasons import reasons
from gpu_cluster.placement.search import Candidates, search
from gpu_plugin._shared._base.dra.versions import RECOMMENDED
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.model import quantity

from tests.fakes.cluster.placing import Json, asks, claim, device_class, node
from tests.support.alarm import alarm
from tests.support.refusals import refused_otherwise

CLASSES = {"share": device_class("share", 'device.driver == "gpu.node"')}


def _devices(number: int) -> Devices:
    return devices.read(node([{"name": f"d-{one:04}"} for one in range(number)]))


def _claims(*requests: list[Json]) -> tuple[Claim, ...]:
    return tuple(
        claims.claim(f"c{number}", claim("c", *several)["spec"])
        for number, several in enumerate(requests)
    )


def test_a_search_that_finds_nothing_ends() -> None:
    asked = _claims([asks(f"r{number}", count=4) for number in range(7)])
    words = "the search takes more than 50000 steps; Kubernetes stops after 10 s"
    with alarm(), pytest.raises(Refused, match=words):
        search(asked, _devices(27), Use(), Candidates(CLASSES))


def test_more_devices_than_a_claim_can_have() -> None:
    with pytest.raises(Refused, match="claim c0: 33 devices are more than 32"):
        search(_claims([asks("r", count=33)]), _devices(40), Use(), Candidates(CLASSES))
    most = search(_claims([asks("r", count=32)]), _devices(40), Use(), Candidates(CLASSES))
    assert most is not None
    assert len(most) == 32


def test_more_devices_than_can_be_followed() -> None:
    asked = _claims(*([asks("r", count=32)] for _claim in range(40)))
    with pytest.raises(Refused, match="more devices than are followed here"):
        search(asked, _devices(1300), Use(), Candidates(CLASSES))
    assert reasons(asked, _devices(1300), Use(), Candidates(CLASSES), RECOMMENDED)


NOT_UNDERSTOOD = (
    ({"requests": [{"name": "r"}]}, ("request r: ", " expected exactly or firstAvailable")),
    (
        {"requests": [{"name": "r", "exactly": {"count": 1}}]},
        "request r: deviceClassName: None is not valid",
    ),
    ({"requests": [asks("r", adminAccess=True)]}, "request r: adminAccess: True is not valid"),
    (
        {"requests": [asks("r", count=0)]},
        "request r: count: 0 is not valid: expected a number from 1 on",
    ),
    (
        {"requests": [asks("r", allocationMode="Some")]},
        "request r: allocationMode: 'Some' is not valid",
    ),
    (
        {"requests": [asks("r", capacity={"memory": "much"})]},
        "request r: memory: 'much' is not valid",
    ),
    (
        {"requests": [asks("r")], "constraints": [{}]},
        "expected matchAttribute or distinctAttribute",
    ),
)


def test_a_claim_that_is_not_understood_is_named() -> None:
    def read(spec: Json) -> Claim:
        return claims.claim("c", {"devices": spec})

    assert refused_otherwise(read, NOT_UNDERSTOOD, NodeError) == []


QUANTITIES = {
    "10000Mi": (10000 << 20, "10000Mi"),
    "1500k": (1_500_000, "1500000"),
    "2Gi": (2 << 30, "2048Mi"),
    "1.5Gi": (1536 << 20, "1536Mi"),
    "1e3": (1000, "1000"),
    "0": (0, "0"),
    "-1": (-1, "-1"),
}


def test_quantities_are_read_and_shown() -> None:
    amounts = {text: quantity.parse(text) for text in QUANTITIES}
    assert {text: (one, quantity.text(one)) for text, one in amounts.items()} == QUANTITIES


def test_quantities_that_are_no_whole_numbers() -> None:
    assert quantity.text(quantity.parse("250m")) == "250m"
    assert quantity.parse("0.5") * 2 == 1
    for wrong in ("", "1 Gi", "Gi", "1Xi", "1e9999", "0x10", "1" * 80, "٣"):
        with pytest.raises(NodeError, match="expected a quantity of Kubernetes"):
            quantity.parse(wrong)
    with pytest.raises(NodeError, match="expected a quantity of Kubernetes"):
        quantity.of(True, "cpu")
