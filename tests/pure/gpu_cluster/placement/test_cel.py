# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The part of CEL that selectors of devices use."""

from __future__ import annotations

import contextlib

import pytest
from gpu_cluster.placement.cel import CelError, Selector, patterns
from gpu_cluster.placement.values import Capacity, Device, Version
from gpu_plugin._shared._base.errors import NodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.support.alarm import alarm
from tests.support.refusals import refused_otherwise

GPU = Device(
    "gpu.node",
    "node-1",
    "gpu-0",
    {
        "gpu.nvidia.com": {
            "productName": "NVIDIA A100-SXM4-80GB",
            "cudaComputeCapability": Version(8, 0, 0),
        },
        "gpu.node": {"type": "gpu", "index": 3, "sick": False, "uuid": "GPU-1"},
    },
    {"gpu.nvidia.com/memory": Capacity(80 * 1024**3), "cores": Capacity(100)},
)
N = 'device.attributes["gpu.nvidia.com"]'
A = 'device.attributes["gpu.node"]'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'


SELECTED = (
    'device.driver == "gpu.node"',
    "device.driver == 'gpu.node' && !device.allowMultipleAllocations",
    f"{N}.productName.lowerAscii().matches('^.*a100.*$')",
    f'{N}.productName.upperAscii().contains("SXM4") && {N}.productName.startsWith("NVIDIA")',
    f'{N}["productName"].endsWith("80GB") && {N}.productName.size() == size({N}.productName)',
    f'{A}.type != "mig" && {A}.type in ["gpu", "share"] && !({A}.type in [])',
    f"{N}.cudaComputeCapability.compareTo(semver('8.0.0')) >= 0",
    f"{N}.cudaComputeCapability.isLessThan(semver('9.0.0')) && {N}.cudaComputeCapability.major() == 8",
    f"{MEMORY}.compareTo(quantity('80Gi')) == 0 && {MEMORY}.isGreaterThan(quantity('40000Mi'))",
    f"{MEMORY}.asInteger() > 1 && quantity('500m').isInteger() == false",
    f'has({A}.type) && !has({A}.profile) && "type" in {A}',
    '!("x" in device.attributes["nobody"]) && !has(device.attributes["nobody"].x)',
    f"{A}.index % 2 == 1 && -{A}.index < 0 && {A}.index * 2 + 1 == 7 && {A}.index >= 3.0",
    f"{A}.index > 2 ? {A}.sick == false : {A}.nothing",
    f'["H100", "A100"].exists(one, {N}.productName.contains(one))',
    f'["A100", "80GB"].all(one, {N}.productName.contains(one))',
    f'cel.bind(gpu, {A}, gpu.type == "gpu" && gpu.index == 3)',
    f'{A}.type == "mig" && {A}.profile == "1g.10gb" || true',
    f'({A}.profile == "x" || true) && !({A}.profile == "x" && false)',
    f'{A}.uuid == "GPU-1" // a comment',
    r'"a\"b\n" == "a\"b' + "\\n\" && r'\\d' == '\\\\d'",
    f'{A}.index != "3"',
    r'"\u0061\x62\143\U00000064" == "abcd" && "NVIDIA-" + ("a" + "b") == "NVIDIA-ab"',
)
NOT_SELECTED = (
    f'{A}.type == "share"',
    f'{A}.type == "mig" && {A}.profile == "1g.10gb"',
    f'{A}.type == 1 || {A}.type == true || {A}.index == "3" || {A}.sick == 0',
    "[1, 2] == [2, 1]",
)


def test_devices_are_selected() -> None:
    found = {one: Selector.of(one).matches(GPU) for one in (*SELECTED, *NOT_SELECTED)}
    assert found == dict.fromkeys(SELECTED, True) | dict.fromkeys(NOT_SELECTED, False)


NOT_EVALUATED = (
    (f'{A}.profile == "1g.10gb"', "no such key: profile"),
    (f'{A}.profile == "1g.10gb" && true', "no such key: profile"),
    ('device.attributes["nobody"].x == 1', "no such key: x"),
    (f"{A}.type > 3", "a str is not compared with a number"),
    (f"{A}.index.contains('3')", "contains(number, str)"),
    (f"{MEMORY} > 3", "Quantity"),
    (f"{MEMORY}.compareTo(3) > 0", "Quantity.compareTo(number)"),
    (f"{MEMORY}.compareTo(quantity('80 GB')) > 0", "80 GB"),
    (f"{A}.index / 0 == 1", "division by zero"),
    (f"{A}.index * 9223372036854775807 > 0", "overflow"),
    (f"{A}.type", "the result is a str, not a bool"),
    (f"{A}.type.matches({A}.uuid + '(')", "the pattern 'GPU-1(' is not valid"),
)
NOT_UNDERSTOOD = (
    ("device.name == 'gpu-0'", "a device has no 'name', but driver"),
    ("object.driver == 'x'", "there is no 'object', only device"),
    ("device.driver.replace('a', 'b') == 'x'", "the function replace() is not known"),
    ("device.driver.contains()", "contains() has 1 arguments, not 0"),
    ("device.driver == 'x' &&", "the end is unexpected"),
    ("device.driver == 'x", 'at "\'x"'),
    ("device.driver = 'x'", "at "),
    ("(" * 50 + "true" + ")" * 50, "nested more than 40 deep"),
    (r"device.driver == '\e'", r"the escape \e"),
    ("device.driver.matches('(a+)+b')", "a repetition within a repetition"),
    ("device.driver.matches('(a|b)*c')", "a repetition within a repetition"),
    ("device.driver.matches('a*b*c*d*e*')", "more than 4 repetitions"),
    ("device.driver.matches('(?=a)')", "is not read"),
    (r"device.driver.matches(r'(a)\1')", "is not in RE2"),
    ("device.driver.matches('" + "a" * 300 + "')", "longer than 256"),
    ("has(device)", "has() needs one member"),
)


def test_what_can_not_be_evaluated_stops_the_pod() -> None:
    def match(expression: str) -> bool:
        return Selector.of(expression).matches(GPU)

    assert refused_otherwise(match, NOT_EVALUATED, CelError) == []


def test_what_is_not_understood_is_named() -> None:
    cases = ((expression, ("is not understood", why)) for expression, why in NOT_UNDERSTOOD)
    assert refused_otherwise(Selector.of, cases, NodeError) == []


SLOW = (
    ("a" * 200, "a*a*a*a*b"),
    ("a" * 30, "(a|a)" * 25 + "b"),
    ("a" * 30, "a?" * 30 + "a" * 31),
    ("a" * 500, "(a|b|.)(a|b|.)a*a*c"),
)


@pytest.mark.attack("pattern-that-backtracks")
@pytest.mark.parametrize(("text", "pattern"), SLOW)
def test_a_pattern_that_backtracks_ends(text: str, pattern: str) -> None:
    selector = Selector.of(f"'{text}'.matches('{pattern}')")
    words = f"can match a text of {len(text)} letters in too many ways"
    with alarm(), pytest.raises(CelError, match=words):
        selector.matches(GPU)


def test_what_an_attribute_may_hold_is_matched_by_all_patterns_that_are_read() -> None:
    longest = "a" * 64
    with alarm():
        assert not Selector.of(f"'{longest}'.matches('a*a*a*a*b')").matches(GPU)
        assert Selector.of(f"'{longest}'.matches('^(a|b|c)?(a|b|c)?.*a.*$')").matches(GPU)


@pytest.mark.attack("pattern-that-backtracks")
@given(
    st.lists(st.sampled_from(("a", "b", ".", "(", ")", "|", "?", "*", "+", "{0,9}", "[ab]"))),
    st.integers(0, 200),
)
def test_no_pattern_takes_long(pieces: list[str], length: int) -> None:
    with alarm(), contextlib.suppress(CelError):
        patterns.matches("a" * length, "".join(pieces))


def test_equal_devices_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = Selector.of(f'{A}.type == "gpu" && {MEMORY}.isGreaterThan(quantity("1Gi"))')
    asked = []
    run = selector._run
    monkeypatch.setattr(selector, "_run", lambda device: asked.append(device) or run(device))
    for index in range(3):
        other = Device("gpu.node", "n", f"gpu-{index}", GPU.attributes, GPU.capacities)
        assert selector.matches(other)
    assert len(asked) == 1
    smaller = Device("gpu.node", "n", "gpu-9", GPU.attributes, {"cores": Capacity(1)})
    with pytest.raises(CelError, match="no such key: memory"):
        selector.matches(smaller)
