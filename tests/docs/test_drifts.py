# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page of evidence has each drift that the tests make, and what they expect of it."""

from __future__ import annotations

import yaml

from tests.docs.tables import drifts


def test_the_table_of_drifts_is_fresh() -> None:
    assert drifts.shown() == drifts.table(), "run make docs-tables"


def test_each_drift_is_named_and_who_does_not_mend_it_says_how_it_is_undone() -> None:
    every = [one for of in yaml.safe_load(drifts.DATA.read_text()).values() for one in of]
    assert len(every) > 100
    silent, undone = ("itself", "nobody"), ("you", "nobody")
    assert [one["what"] for one in every if ("named" in one) == (one.get("who") in silent)] == []
    assert [one["what"] for one in every if ("back" in one) != (one.get("who") in undone)] == []
