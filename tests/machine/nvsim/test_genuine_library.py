# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's own library beside the simulated one, as far as it answers without a driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nvsim import genuine
from nvsim.since import SINCE
from nvsim.testing import PROJECT

from tests.support.waiting import LIMIT

ASK = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.nvmlErrorString.restype = ctypes.c_char_p
codes = {}
for name in sys.argv[2:]:
    if hasattr(lib, name):
        codes[name] = getattr(lib, name)(*[ctypes.c_uint64(0)] * 6)
texts = {code: lib.nvmlErrorString(code).decode() for code in [*range(-1, 40), 998, 999, 1000]}
buffer = ctypes.create_string_buffer(80)
version = [lib.nvmlSystemGetNVMLVersion(buffer, size) for size in (0, 13, 14, 80)]
print(json.dumps([codes, texts, version, buffer.value.decode(), lib.nvmlShutdown()]))
"""
NAMES = [
    line.split()[0]
    for line in (PROJECT / "shim/functions.txt").read_text().splitlines()
    if line.startswith("nvml")
]


def ask(library: Path) -> Any:
    words = [sys.executable, "-c", ASK, str(library), *NAMES]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def both() -> tuple[Any, Any]:
    library = genuine.nvml()
    simulated = PROJECT / "build" / library.name
    if not simulated.exists():
        pytest.skip(f"{library.name} is another version than the simulated library")
    return ask(library), ask(simulated)


def test_it_has_no_more_functions_than_the_genuine_one(both: tuple[Any, Any]) -> None:
    """Those of newer branches say that they are not found, which is what a missing symbol comes to."""
    (theirs, *_more), (ours, *_others) = both
    assert set(ours) - set(theirs) == {name for name in SINCE if SINCE[name] > 550}


def test_each_function_asks_for_initialisation_before_all_else(both: tuple[Any, Any]) -> None:
    (theirs, *_more), (ours, *_others) = both
    assert {name: ours[name] for name in theirs} == theirs


def test_errors_have_the_same_words(both: tuple[Any, Any]) -> None:
    assert both[1][1] == both[0][1]


def test_the_librarys_own_version_needs_no_driver(both: tuple[Any, Any]) -> None:
    assert both[1][2:] == both[0][2:]
