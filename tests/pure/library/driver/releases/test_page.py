# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pages show the tables that the collection has."""

from __future__ import annotations

from tests.docs.tables.releases import DRIVER, KUBERNETES, OPTIONS


def test_pages_show_the_collections_tables() -> None:
    for one in (DRIVER, KUBERNETES, OPTIONS):
        assert one.shown() == one.made(), "run make docs-tables"
    assert DRIVER.shown().count("\n| 5") + DRIVER.shown().count("\n| [5") >= 15
    assert KUBERNETES.shown().count("| refused |") == 5
    assert OPTIONS.shown().count("\n| `") > 100
