# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about MPS has a row for each issue, and a configuration that works."""

from __future__ import annotations

import json
import re

import yaml
from gpu_plugin.config.configuration import parse
from gpu_plugin.config.sharing import MPS_KEYS

from tests.support.paths import TESTS

PAGE, KEYS = ((TESTS.parent / f"docs/mps{one}.md").read_text() for one in ("", "/configuration"))
EVIDENCE = (TESTS.parent / "docs/evidence/mps.md").read_text()
ROWS = [line for line in EVIDENCE.splitlines() if line.startswith("| ") and "::" in line]


def test_the_issues_are_there() -> None:
    told = set(re.findall(r"#([0-9]+)", " ".join(ROWS)))
    assert told == {
        *("679", "647", "712", "762", "929", "1094", "1208", "1595", "1695", "1946", "982")
    }
    assert len([row for row in ROWS if row.startswith("| limit ")]) == 4


def test_each_key_is_described() -> None:
    for key in MPS_KEYS:
        assert f"`{key.rpartition('.')[2]}`" in KEYS


def test_its_configuration_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    sharing = yaml.safe_load(text)["device_plugin_sharing"]
    (share,) = parse(json.dumps({"sharing": sharing})).sharing.shares
    assert share.mps is not None
