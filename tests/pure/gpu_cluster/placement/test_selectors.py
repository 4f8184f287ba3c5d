# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Selectors of devices, as Kubernetes evaluates them."""

from __future__ import annotations

import itertools

import pytest
from gpu_cluster.placement import devices, selectors
from gpu_cluster.placement.selectors import CelError, Selector
from gpu_plugin._shared._base.errors import NodeError

from tests.fakes.cluster.placing import node
from tests.support.alarm import alarm
from tests.support.refusals import refused_otherwise

ATTRIBUTES = {
    "gpu.nvidia.com/productName": {"string": "NVIDIA A100-SXM4-80GB"},
    "gpu.nvidia.com/cudaComputeCapability": {"version": "8.0.0"},
    "type": {"string": "gpu"},
    "index": {"int": 3},
    "sick": {"bool": False},
    "uuid": {"string": "GPU-1"},
}
CAPACITY = {"gpu.nvidia.com/memory": {"value": "80Gi"}, "cores": {"value": "100"}}
GPU = {"name": "gpu-0", "attributes": ATTRIBUTES, "capacity": CAPACITY}
DEVICE = devices.read(node([GPU])).row[0].seen
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
    f"{MEMORY}.sign() == 1 && {MEMORY}.asApproximateFloat() > 1.5",
    "semver('1.2.3-a').isLessThan(semver('1.2.3')) && semver('1.2.3+a').compareTo(semver('1.2.3')) == 0",
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
    found = {one: Selector(one).matches(DEVICE) for one in (*SELECTED, *NOT_SELECTED)}
    assert found == dict.fromkeys(SELECTED, True) | dict.fromkeys(NOT_SELECTED, False)


NOT_EVALUATED = (
    (f'{A}.profile == "1g.10gb"', 'Key not found in map : "profile"'),
    (f'{A}.profile == "1g.10gb" && true', 'Key not found in map : "profile"'),
    ('device.attributes["nobody"].x == 1', 'Key not found in map : "x"'),
    (f"{A}.type > 3", "No matching overloads"),
    (f"{A}.index.contains('3')", "No matching overloads"),
    (f"{A}.type.compareTo(quantity('1')) > 0", "No matching overloads"),
    (f"{N}.cudaComputeCapability.compareTo(quantity('1')) > 0", "no such overload"),
    (f"{N}.cudaComputeCapability.asInteger() > 0", "no such overload"),
    (f"{MEMORY}.major() > 0", "no such overload"),
    (f"quantity('500m').asInteger() > 0 && {A}.index == 3", "not an integer"),
    (f"{MEMORY}.compareTo(quantity('80 GB')) > 0", "80 GB"),
    (f"{A}.index / 0 == 1", "divide by zero"),
    (f"{A}.index * 9223372036854775807 > 0", "integer overflow"),
    (f"{A}.type", "the result is a STRING, not a bool"),
    (f"{A}.type.matches({A}.uuid + '(')", "invalid regular expression: missing ): GPU-1("),
)
NOT_UNDERSTOOD = (
    ("device.name == 'gpu-0'", "undeclared reference to 'device.name'"),
    ("object.driver == 'x'", "undeclared reference to 'object.driver'"),
    ("device.driver.replace('a', 'b') == 'x'", "undeclared reference to 'replace'"),
    ("device.driver.contains()", "undeclared reference to 'contains'"),
    (f"{MEMORY} > 3", "found no matching overload for '_>_'"),
    (f"{MEMORY}.compareTo(3) > 0", "found no matching overload for 'compareTo'"),
    ("device.driver == 'x' &&", "Syntax error: mismatched input '<EOF>'"),
    ("device.driver == 'x", "Syntax error"),
    ("device.driver = 'x'", "Syntax error"),
    (r"device.driver == '\e'", "Syntax error"),
    ("\ud800", "incompatible function arguments"),
    ("(" * 50 + "true" + ")" * 50, "recursion limit exceeded"),
    ("true" + " && true" * 2000, "it is longer than 10240 characters"),
    ("['a'].map(x, x + x).size() == 1", "with map it could take all memory"),
    ("['a'].filter // a comment\n(x, true).size() == 1", "with filter it could take all memory"),
    ("cel.bind(x, 'aa', cel.bind(y, x + x, y == ''))", "with bind, bind it could take all memory"),
    (
        "cel.bind(x, [1, 2], x.all(y, x == [y]))",
        "with bind, all it could take all memory, or hours",
    ),
)


def test_what_can_not_be_told_for_a_device_is_an_error_as_in_kubernetes() -> None:
    def matches(expression: str) -> bool:
        return Selector(expression).matches(DEVICE)

    assert refused_otherwise(matches, NOT_EVALUATED, CelError) == []


def test_what_is_not_understood_is_named() -> None:
    cases = ((expression, ("is not understood", why)) for expression, why in NOT_UNDERSTOOD)
    assert refused_otherwise(Selector, cases, NodeError) == []


DIGITS = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
FIVE_DEEP = (
    f"{DIGITS}.all(a, {DIGITS}.all(b, {DIGITS}.all(c, {DIGITS}.all(d, {DIGITS}.all(e, true)))))"
)
LONG = (
    "'" + "a" * 200 + "'.matches('a*a*a*a*b')",
    "'" + "a" * 30 + "'.matches('" + "(a|a)" * 25 + "b')",
    "'" + "a" * 5000 + "'.matches('(a*)*b')",
)


@pytest.mark.attack("pattern-that-backtracks")
@pytest.mark.parametrize("expression", LONG)
def test_a_pattern_that_backtracks_ends(expression: str) -> None:
    with alarm():
        assert not Selector(expression).matches(DEVICE)


@pytest.mark.attack("pattern-that-backtracks")
def test_a_selector_that_takes_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(0, selectors.MOST_SECONDS + 1)
    monkeypatch.setattr(selectors.time, "perf_counter", lambda: next(now))
    selector = Selector("true")
    assert selector.matches(DEVICE)
    with pytest.raises(CelError, match="it takes more than 10 s"):
        selector.matches(DEVICE)


@pytest.mark.attack("pattern-that-backtracks")
def test_an_expression_of_too_many_rounds_ends() -> None:
    with alarm(), pytest.raises(CelError, match="Iteration budget exceeded"):
        Selector(FIVE_DEEP).matches(DEVICE)
