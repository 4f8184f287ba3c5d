# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What nvsim simulates of an H100 is answered as a genuine one answers it.

h100.json has what an NVIDIA H100 80GB HBM3 with driver 580.159.04 answered to each of NVML's questions about a GPU
alone, as pynvml asks them: an error's number or the value, and of field values the type and the value, or the error's
number. What names that board and its place is left out. NOT_SUPPORTED and FUNCTION_NOT_FOUND are also what nvsim says
of what it does not simulate.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from nvsim import codes
from nvsim.testing import client, start

HERE = Path(__file__).parent
GENUINE = json.loads((HERE / "h100.json").read_text())
EXCEPTIONS = tomllib.loads((HERE / "h100.toml").read_text())
UNKNOWN = ({"error": codes.NOT_SUPPORTED}, {"error": codes.FUNCTION_NOT_FOUND})
ASK = """
def plain(value):
    if isinstance(value, bytes): return value.decode()
    if isinstance(value, (list, tuple, ctypes.Array)): return [plain(one) for one in list(value)[:40]]
    if isinstance(value, dict): return {key: plain(one) for key, one in value.items()}
    if hasattr(value, "_fields_"): return {one[0]: plain(getattr(value, one[0])) for one in value._fields_}
    return value if isinstance(value, (int, float, str, type(None))) else type(value).__name__
def ask(call):
    name, _, words = call.rstrip(")").partition("(")
    arguments = [] if name.startswith(("nvmlSystem", "nvmlUnit")) else [h]
    try: return {"value": plain(getattr(n, name)(*arguments, *map(int, filter(None, words.split(",")))))}
    except n.NVMLError as error: return {"error": error.value}
def field(number):
    one = n.nvmlDeviceGetFieldValues(h, [number])[0]
    value = {1: one.value.uiVal, 3: one.value.ullVal}.get(one.valueType, one.value.ullVal)
    return {"error": one.nvmlReturn} if one.nvmlReturn else {"value": [one.valueType, value]}
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
answer([{one: ask(one) for one in CALLS}, {one: field(int(one)) for one in FIELDS}])
"""


def answers() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a simulated H100 answers to the same calls, and for the same fields."""
    numbers = [one for each in GENUINE["field_errors"].values() for one in each]
    asked = f"CALLS, FIELDS = {[*GENUINE['calls']]!r}, {[*GENUINE['fields'], *numbers]!r}\n"
    with start("h100-80", 1, driver="580.159.04") as sim:
        calls, fields = client(sim, asked + ASK)
    return calls, fields


def kind(value: Any) -> Any:
    """Return a value's kind: of a struct those of its fields."""
    return (
        {key: kind(one) for key, one in value.items()} if isinstance(value, dict) else type(value)
    )


def test_a_call_is_answered_as_by_a_genuine_h100() -> None:
    told, _fields = answers()
    simulated = {one.partition("(")[0] for one in told if told[one] not in UNKNOWN}
    assert len(simulated) > 50
    other = {
        call: (genuine, told[call])
        for call, genuine in GENUINE["calls"].items()
        if call.partition("(")[0] in simulated and told[call] != genuine
    }
    same_kind = {
        call.partition("(")[0]
        for call, (genuine, ours) in other.items()
        if "value" in genuine and "value" in ours and kind(genuine["value"]) == kind(ours["value"])
    }
    assert same_kind == set(EXCEPTIONS["other_values"])
    others = {call for call in other if call.partition("(")[0] not in same_kind}
    assert others == set(EXCEPTIONS["other_answers"])


def test_a_field_has_the_type_and_the_value_that_a_genuine_h100_gives_it() -> None:
    _calls, told = answers()
    ours = {number: one["value"] for number, one in told.items() if "value" in one}
    assert len(ours) > 5
    other = {number for number, value in ours.items() if GENUINE["fields"].get(number) != value}
    assert other == set(EXCEPTIONS["fields"])
