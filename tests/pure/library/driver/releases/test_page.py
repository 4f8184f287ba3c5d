# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page shows the table that the collection has."""

from __future__ import annotations

from tests.docs.tables import releases


def test_page_shows_the_collections_table() -> None:
    assert releases.shown() == releases.tables(), "run make docs-tables"
    assert releases.shown().count("\n| 5") + releases.shown().count("\n| [5") >= 15
