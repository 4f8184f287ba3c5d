# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about allocation and publication has the table by which the tests with the genuine scheduler go."""

from __future__ import annotations

import re

import pytest

from tests.docs.tables import pages
from tests.fakes.cluster.allocation_modes import MODES, TABLE
from tests.support.paths import DOCS, TESTS

PAGE = (DOCS / "fractions/allocation-modes.md").read_text()
DCGM = (DOCS / "dcgm.md").read_text()


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_of_the_page_is_that_of_the_tests() -> None:
    columns = TABLE.data["columns"]
    expected = [
        [
            row["text"],
            *(
                "yes" if row["cells"][key] is True else f"no: {row['cells'][key]}"
                for key in columns
            ),
        ]
        for row in TABLE.data["rows"]
    ]
    assert rows(PAGE, "The table") == expected
    assert f"| | {' | '.join(columns.values())} |" in PAGE


def test_each_reason_is_explained_once() -> None:
    marks = {
        cell for row in TABLE.rows.values() for cell in row["cells"].values() if cell is not True
    }
    reasons = [cells[0] for cells in rows(PAGE, "Why not")]
    assert sorted(reasons) == sorted(marks)


@pytest.mark.parametrize("key", TABLE.rows)
def test_each_row_names_a_test_that_is_there(key: str) -> None:
    name = TABLE.rows[key]["test"]
    assert any(f"def {name}(" in path.read_text() for path in TESTS.rglob("test_*.py"))


def test_each_mode_has_an_answer_in_each_row() -> None:
    assert len({mode.node for mode in MODES}) == 7
    for key in TABLE.rows:
        assert {TABLE.works(key, mode) for mode in MODES} <= {True, False}


def test_metrics_of_dcgm_name_no_pod_of_a_claim() -> None:
    """The page of DCGM says so too; no program of NVIDIA's runs here."""
    (cells,) = (cells for cells in rows(DCGM, "Which pod a metric names") if "claim" in cells[0])
    assert cells[1].startswith("nothing")
    query = next(block for block in pages.blocks(DCGM, "text") if "claim_info" in block)
    tried = (TESTS / "pure/daemon/report/alerts_test.yml").read_text()
    assert " ".join(query.split()) in " ".join(tried.split())


def test_the_claim_for_monitoring_is_that_of_the_tests() -> None:
    (text,) = (block for block in pages.blocks(PAGE, "yaml") if "adminAccess" in block)
    for word in ("adminAccess: true", "allocationMode: All", "memory: 1Mi", "share.gpu.node"):
        assert re.search(word, text)
