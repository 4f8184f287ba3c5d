# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Consumable capacity, shared devices and counters, case by case.

The cases are those of Kubernetes' own table for its allocator (structured/internal/allocatortesting, 1.36); what is
given was asked of the genuine allocators of the versions. Quantities are in units: a share device has 4 of "memory".
"""

from __future__ import annotations

from typing import Any

from gpu_plugin._shared._base.dra.versions import OLDEST

from tests.fakes.cluster.placing import Json, answers, asks, claim, device_class, node

RANGE = {"default": "1", "validRange": {"min": "1", "max": "3"}}
STEPS = {"default": "1", "validRange": {"min": "1", "step": "2"}}
VALUES = {"default": "1", "validValues": ["1", "2", "4"]}
ZERO = {"default": "0", "validRange": {"min": "0", "max": "0"}}
CLASSES = [
    device_class("share", 'device.driver == "gpu.node"'),
    device_class("alone", "!device.allowMultipleAllocations"),
]


def share(name: str = "a-share", policy: Json | None = None, value: str = "4", **more: Any) -> Json:
    """Return a share device with memory."""
    memory = {"value": value} | ({"requestPolicy": policy} if policy else {})
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": memory}} | more


def whole(name: str = "a", **more: Any) -> Json:
    """Return a device that one claim has."""
    return {"name": name, **more}


def case(devices: list[Json], *pods: Json, counters: Any = None, allocated: Any = ()) -> Json:
    """Return a case whose pods have a claim of one request or one of several."""
    claims = [
        [claim(f"c{number}", *(one if isinstance(one, list) else [one]))]
        for number, one in enumerate(pods)
    ]
    return {
        "slices": node(devices, counters),
        "classes": CLASSES,
        "pods": claims,
        "allocated": allocated,
    }


def wants(amount: str | None = None, name: str = "r", **more: Any) -> Json:
    """Return a request for memory."""
    return asks(name, **more, **({} if amount is None else {"capacity": {"memory": amount}}))


def every(amount: str | None = None, name: str = "r") -> Json:
    """Return a request for all devices."""
    made = wants(amount, name)
    made["exactly"] |= {"allocationMode": "All"}
    del made["exactly"]["count"]
    return made


def had(device: str, amount: str | None = None) -> list[Json]:
    """Return a claim that has a device, or so much of a share device."""
    result: Json = {"request": "r", "driver": "gpu.node", "pool": "node-1", "device": device}
    if amount is not None:
        result |= {"shareID": "0e7f", "consumedCapacity": {"memory": amount}}
    return [{"status": {"allocation": {"devices": {"results": [result]}}}}]


def attribute(device: Json, **values: str) -> Json:
    """Return a device with attributes."""
    return device | {"attributes": {name: {"string": value} for name, value in values.items()}}


def drawn(device: Json, **counters: str) -> Json:
    """Return a device that consumes counters of one set."""
    amounts = {name: {"value": value} for name, value in counters.items()}
    return device | {"consumesCounters": [{"counterSet": "card", "counters": amounts}]}


CARD = {"card": {"memory": "4", "whole": "1"}}
CARD_DEVICES = [
    drawn(whole(), memory="4", whole="1"),
    drawn(share(policy=RANGE), memory="4", whole="1"),
    drawn(whole("a-half"), memory="2"),
]
TWO = [share("a-share", STEPS), share("b-share", STEPS)]
BOTH = {"card": {"whole": "1"}, "other": {"whole": "1"}}


def drawn_from(device: Json, of: str) -> Json:
    """Return a device that needs all of a card."""
    counters = {"whole": {"value": "1"}}
    return device | {"consumesCounters": [{"counterSet": of, "counters": counters}]}


A_SHARE, B_SHARE = share("a-share"), share("b-share", value="6")
CARDS = [drawn_from(A_SHARE, "card"), drawn_from(whole(), "card"), drawn_from(B_SHARE, "other")]
TWO_OPEN = [attribute(A_SHARE, uuid="a"), attribute(B_SHARE, uuid="b")]
TWO_CARDS = [drawn_from(TWO_OPEN[0], "card"), drawn_from(TWO_OPEN[1], "other")]


def tied(devices: list[Json], constraint: str, *requests: Json) -> Json:
    """Return a case of one claim with a constraint over the cards' UUIDs."""
    made = case(devices, list(requests), counters=BOTH)
    made["pods"][0][0]["spec"]["devices"]["constraints"] = [{constraint: "gpu.node/uuid"}]
    return made


EITHER = {
    "name": "r",
    "firstAvailable": [
        {"name": "much", **wants("9")["exactly"]},
        {"name": "some", **wants("2")["exactly"]},
    ],
}


def two(numa: str) -> Json:
    """Return an alternative: two cards of one NUMA node."""
    selector = {"cel": {"expression": f'device.attributes["gpu.node"].numa == "{numa}"'}}
    return {"name": numa, **asks("", "share", 2)["exactly"], "selectors": [selector]}


def odd_one_out(devices: Json) -> Json:
    """Return a case of three whole cards, the first of which is alone on its NUMA node."""
    places = {"a": "here", "b": "there", "c": "there"}
    cards = [
        drawn_from(attribute(whole(name), numa=numa), f"card-{name}")
        for name, numa in places.items()
    ]
    made = case(cards, [], counters={f"card-{name}": {"whole": "1"} for name in places})
    made["pods"][0][0]["spec"]["devices"] = devices
    return made


TABLE: dict[str, tuple[Json, list[str]]] = {
    "no capacity at all": (
        case([share(capacity={})], wants(), wants()),
        ["r=a-share", "r=a-share"],
    ),
    "a capacity that the device does not have": (case([share(capacity={})], wants("1")), ["-"]),
    "a capacity that no device has, of all": (case([share(capacity={})], every("1")), ["-"]),
    "no policy, no request: all of it": (case([share()], wants(), wants()), ["r=a-share:4", "-"]),
    "no policy, a request": (
        case([share()], wants("1"), wants("3")),
        ["r=a-share:1", "r=a-share:3"],
    ),
    "a policy's default": (case([share(policy=RANGE)], wants()), ["r=a-share:1"]),
    "a default of nothing": (case([share(policy=ZERO, value="0")], wants()), ["r=a-share:0"]),
    "more than a policy of nothing": (case([share(policy=ZERO)], wants("1")), ["-"]),
    "within a range": (case([share(policy=RANGE)], wants("2")), ["r=a-share:2"]),
    "below a range is its least": (case([share(policy=RANGE)], wants("0")), ["r=a-share:1"]),
    "over a range": (case([share(policy=RANGE)], wants("4")), ["-"]),
    "up to the next step": (case([share(policy=STEPS)], wants("2")), ["r=a-share:3"]),
    "a step beyond the device": (case([share(policy=STEPS)], wants("4")), ["-"]),
    "a valid value": (case([share(policy=VALUES)], wants("2")), ["r=a-share:2"]),
    "up to the next valid value": (case([share(policy=VALUES)], wants("3")), ["r=a-share:4"]),
    "over all valid values": (case([share(policy=VALUES, value="9")], wants("5")), ["-"]),
    "over the device": (case([share()], wants("5")), ["-"]),
    "what is left": (case([share()], wants("2"), allocated=had("a-share", "2")), ["r=a-share:2"]),
    "the next device": (case(TWO, wants("3"), allocated=had("a-share", "2")), ["r=b-share:3"]),
    "nothing is left": (case([share()], wants("1"), allocated=had("a-share", "4")), ["-"]),
    "two requests on one device": (
        case([share()], [wants("2", "r0"), wants("2", "r1")]),
        ["r0=a-share:2 r1=a-share:2"],
    ),
    "a way back: the second request needs the first device": (
        case([share(value="2"), share("b-share")], [wants("2", "r0"), wants("3", "r1")]),
        ["r0=a-share:2 r1=b-share:3"],
    ),
    "two of one request are two devices": (
        case(TWO, wants("1", count=2), wants("1", count=3)),
        ["r=a-share:1 r=b-share:1", "-"],
    ),
    "the second alternative": (case([share()], EITHER), ["r/some=a-share:2"]),
    "all devices, those without the capacity left out": (
        case([share(), share("b-share", capacity={})], every("2")),
        ["r=a-share:2"],
    ),
    "all devices, those that are too small left out": (
        case([share(), share("b-share", value="1")], every("2")),
        ["r=a-share:2"],
    ),
    "all devices and one more share": (
        case([share()], [every("2", "r0"), wants("2", "r1")]),
        ["r0=a-share:2 r1=a-share:2"],
    ),
    "all devices, and too much more": (
        case([share()], [every("3", "r0"), wants("2", "r1")]),
        ["-"],
    ),
    "all devices twice, and too much": (
        case([share()], [every("3", "r0"), every("2", "r1")]),
        ["-"],
    ),
    "all devices, one in use": (
        case([share(), share("b-share")], every("2"), allocated=had("a-share", "3")),
        ["r=b-share:2"],
    ),
    "all devices that are left": (
        case([share()], every("2"), allocated=had("a-share", "2")),
        ["r=a-share:2"],
    ),
    "a device for one claim, with capacity": (
        case([whole(capacity={"memory": {"value": "4"}})], wants("3"), wants("1")),
        ["r=a", "-"],
    ),
    "a device for one claim, and too much": (
        case([whole(capacity={"memory": {"value": "4"}})], wants("5")),
        ["-"],
    ),
    "a class without shared devices": (
        case([share(), whole()], asks("r", "alone"), asks("r", "alone")),
        ["r=a", "-"],
    ),
    "a shared device that a claim had as a whole": (
        case([share()], wants("1"), allocated=had("a-share")),
        ["-"],
    ),
    "a device for one claim of which shares were given": (
        case([whole(capacity={"memory": {"value": "4"}})], wants("2"), allocated=had("a", "3")),
        ["-"],
    ),
    "shares are charged to the counters once": (
        case(CARD_DEVICES, wants("1"), wants("1"), allocated=had("a-share", "1"), counters=CARD),
        ["r=a-share:1", "r=a-share:1"],
    ),
    "shares keep whole devices and parts of the card away": (
        case(CARD_DEVICES, asks("r", "alone"), allocated=had("a-share", "1"), counters=CARD),
        ["-"],
    ),
    "a part keeps shares away": (
        case(CARD_DEVICES, wants("1"), allocated=had("a-half"), counters=CARD),
        ["-"],
    ),
    "two shares on two cards, as asked": (
        tied(TWO_CARDS, "distinctAttribute", wants("1", "r0"), wants("1", "r1")),
        ["r0=a-share:1 r1=b-share:1"],
    ),
    "two shares on one card, as asked": (
        tied(TWO_CARDS, "matchAttribute", wants("1", "r0"), wants("1", "r1")),
        ["r0=a-share:1 r1=a-share:1"],
    ),
    "more shares on one card than it has, though the other has them": (
        tied(TWO_CARDS, "matchAttribute", wants("3", "r0"), wants("2", "r1")),
        ["r0=b-share:3 r1=b-share:2"],
    ),
    "the same without counters": (
        tied(TWO_OPEN, "matchAttribute", wants("3", "r0"), wants("2", "r1")),
        ["r0=b-share:3 r1=b-share:2"],
    ),
    "a share before a whole card that needs its card": (
        case(CARDS, [wants("1", "r0"), asks("r1", "alone")], counters=BOTH),
        ["r0=b-share:1 r1=a"],
    ),
    "two cards of one kind, the first of which has no partner": (
        odd_one_out(
            {"requests": [asks("r", count=2)], "constraints": [{"matchAttribute": "gpu.node/numa"}]}
        ),
        ["r=b r=c"],
    ),
    "the same by alternatives": (
        odd_one_out({"requests": [{"name": "r", "firstAvailable": [two("here"), two("there")]}]}),
        ["r/there=b r/there=c"],
    ),
    "the whole card first": (
        case(CARDS, [asks("r0", "alone"), wants("1", "r1")], counters=BOTH),
        ["r0=a r1=b-share:1"],
    ),
}


# What is tried first takes its counters along in a version that does not give them back.
CONSUMED = (
    "more shares on one card than it has, though the other has them",
    "a share before a whole card that needs its card",
    "two cards of one kind, the first of which has no partner",
)


def test_kubernetes_table_of_consumable_capacity() -> None:
    found = {name: answers(given) for name, (given, _expected) in TABLE.items()}
    assert found == {name: expected for name, (_given, expected) in TABLE.items()}


def test_the_same_table_in_the_oldest_version() -> None:
    found = {name: answers(given, OLDEST) for name, (given, _expected) in TABLE.items()}
    table = {name: expected for name, (_given, expected) in TABLE.items()}
    assert found == {**table, **{name: ["-"] for name in CONSUMED}}
