# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's words: a fact is a line, for people and for machines."""

from __future__ import annotations

import json
import re

import pytest
from gpu_plugin.tools import logs
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(("tell", "level", "priority"), [
    (logs.info, "info", 6), (logs.warning, "warning", 4), (logs.error, "error", 3),
])  # fmt: skip
def test_a_fact_is_one_line(
    tell: object,
    level: str,
    priority: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = {"gpu": "GPU-1", "cause": 'it "failed"\nbadly', "left": ("a", "b"), "none": None}
    words = r'devices changed gpu=GPU-1 cause="it \"failed\"\nbadly" left=a,b none=None'
    assert callable(tell)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    tell("devices\nchanged", **fields)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{{4}} {level}: .*", line)
    assert line.endswith(words)
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    tell("devices\nchanged", **fields)
    assert capsys.readouterr().err == f"<{priority}>{words}\n"


@given(st.text())
def test_any_value_can_be_read_again(text: str) -> None:
    quoted = logs._quoted(text)
    assert "\n" not in quoted
    assert (json.loads(quoted) if quoted.startswith('"') else quoted) == text


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe", "a\rb"])
def test_s15_what_tenants_write_steers_no_terminal(
    hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A control daemon's own words, as events, have what its clients say."""
    logs.info(f"client said {hostile}", command=hostile)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
