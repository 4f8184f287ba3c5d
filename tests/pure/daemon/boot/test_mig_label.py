# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What ``gpu-plugin mig-label`` refuses before it looks at any GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._mig.config import Declared
from gpu_plugin._shared._mig.label import Request
from gpu_plugin.boot import label

SEVEN = [{"devices": "all", "mig-enabled": True, "mig-devices": {"7g.40gb": 1}}]
LAYOUTS = {"version": "v1", "mig-configs": {"seven": SEVEN, "threes": SEVEN}}


@pytest.fixture
def paths(tmp_path: Path) -> label.Paths:
    """Files of a node where the label chose threes; there is no GPU to look at."""
    names = ("mig.json", "asked.json", "answer.json", "chosen", "status.json")
    found = label.Paths(*(tmp_path / name for name in names))
    found.config.write_text(Declared(LAYOUTS, "", True).dump())
    found.chosen.write_text("threes\n")
    return found


def told(paths: label.Paths, text: str) -> dict[str, Any]:
    """Return the answer to what is asked."""
    paths.asked.write_text(text)
    assert label.mig_label(paths) == 0
    return json.loads(paths.answer.read_text()) if paths.answer.exists() else {}


@pytest.mark.parametrize("name", ["unknown", "all-balanced", "all-disabled", "all-1g.5gb"])
def test_only_names_of_the_file_can_be_had(paths: label.Paths, name: str) -> None:
    answer = told(paths, Request(name, "d").dump())
    reason = f"mig_config has no layout '{name}': it has seven, threes"
    assert (answer["state"], answer["reason"]) == ("failed", reason)
    assert paths.chosen.read_text() == "threes\n"


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"name": "../seven", "digest": ""}', '{"name": ["seven"], "digest": ""}', "\x00"],
)
def test_what_can_not_be_understood_changes_nothing(
    paths: label.Paths, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(paths, text) == {}
    assert "what the label asks for can't be read" in capsys.readouterr().err
    assert paths.chosen.read_text() == "threes\n"


def test_where_labels_may_not_choose_nothing_is_done(paths: label.Paths) -> None:
    paths.config.write_text(Declared(LAYOUTS, "", False).dump())
    answer = told(paths, Request("seven", "d").dump())
    assert answer["state"] == "failed"
    assert "mig_by_label is not set" in answer["reason"]


def test_a_choice_that_is_given_up_is_forgotten(paths: label.Paths) -> None:
    assert told(paths, Request("", "d").dump())["state"] == ""
    assert not paths.chosen.exists()
