# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Our reader of TOML, which Pythons before 3.11 need, beside Python's own."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.text import toml_data

from tests.support.hostile import MANY, inputs
from tests.support.paths import FAKES

FILES = sorted((FAKES / "runtime_configs").glob("*.toml"))
SAMPLE = '''\
a.b = 1 # of the file
"quoted key".'x y' = "\\u00e9 \\"z\\"\\t"
[c]
d.e.f = [ 1, 0x1f, 0o17, 0b1, 1_000, # a list
  { x = 1, y.z = 2.5e3 }, -inf, ]
[[list]]
a = """
one \\
   two ""quoted"""""
[list.inner]
b = \'\'\'it's\'\'\'
[[list]]
z = true

[c.g]
h = {}
'''


def as_compared(data: Any) -> Any:
    """Return data without what differs from itself, and without dates, which are texts of ours."""
    if isinstance(data, dict):
        return {key: as_compared(one) for key, one in data.items()}
    if isinstance(data, list):
        return [as_compared(one) for one in data]
    if isinstance(data, float) and math.isnan(data):
        return "nan"
    return data if isinstance(data, (str, int, float)) else "a date"


def read(text: str) -> Any:
    """Return what a text holds, None where it is refused, which names the place."""
    try:
        return toml_data.loads(text)
    except ValueError as error:
        return None if "at line" in str(error) else error


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_configurations_read_as_with_pythons_library(path: Path) -> None:
    text = path.read_text()
    assert toml_data.loads(text) == tomllib.loads(text)


def test_all_of_the_language() -> None:
    assert toml_data.loads(SAMPLE) == tomllib.loads(SAMPLE)
    assert toml_data.loads("a = 2026-01-02 03:04:05Z\nb = 07:32:00")["b"] == "07:32:00"


def test_what_pythons_library_reads_is_read_the_same() -> None:
    texts = [SAMPLE, *(path.read_text() for path in FILES)]
    both = more = less = 0
    for text in inputs(texts, count=MANY):
        ours = read(text)
        try:
            theirs = tomllib.loads(text)
        except (ValueError, RecursionError):
            more += ours is not None
            continue
        less += ours is None
        if ours is not None:
            both += 1
            if "a date" not in repr(as_compared(theirs)):
                assert as_compared(ours) == as_compared(theirs), text
    assert both > 1000
    # Days that no month has are taken, and numbers of more than 64 digits refused.
    assert more < 20
    assert less < 20


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\nb = = 2\n", "expected a value at line 2, column 5"),
        ("[a\n", r"expected \] after the name of a table at line 1"),
        ("a = 1\na = 2\n", "expected a once only at line 2"),
        ("[a]\n[a]\n", "expected a once only at line 2"),
        ("a = {}\n[a.b]\n", "expected a once only at line 2"),
        ("[a]\nb.c = 1\n[a.b]\n", "expected b once only at line 3"),
        ("a = 'x", "expected a string that ends with '"),
        ("a = [1 2]", "expected a comma or the end of a list"),
        ("a = {b = 1 c = 2}", "expected a comma or the end of an inline table"),
        ("a = 1 b = 2", "expected the end of a line at line 1, column 6"),
        ('a = "\\q"', "expected a string without"),
        ("= 1", "expected a key at line 1, column 1"),
        ("a = " + "[" * 100, "expected at most 64 values in each other"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        toml_data.loads(text)
