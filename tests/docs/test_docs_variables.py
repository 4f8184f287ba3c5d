# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page of all variables has each of them as the roles define it."""

from __future__ import annotations

import re

import yaml

from tests.docs.tables import variables

TEXT = variables.PAGE.read_text()
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.+?) \| (.+) \|$", TEXT, re.MULTILINE)


def test_the_page_of_variables_is_fresh() -> None:
    assert variables.shown() == variables.tables(), "run make docs-tables"


def test_each_default_of_a_role_is_on_the_page() -> None:
    shown = {name: value.strip("`") for name, _kind, value, _words in ROWS}
    for path in (variables.ROOT / "roles").glob("*/defaults/main.yml"):
        for name, value in (yaml.safe_load(path.read_text()) or {}).items():
            there = "" if shown[name] == "none" else yaml.safe_load(shown[name])
            assert there == value, name


def test_each_row_says_what_it_is_for() -> None:
    assert len(ROWS) > 120
    assert [name for name, kind, _value, words in ROWS if not kind.strip() or len(words) < 10] == []


def test_a_role_that_is_not_there_is_not_left_out_by_chance() -> None:
    assert set(variables.PAGES) <= {one.name for one in (variables.ROOT / "roles").iterdir()}
