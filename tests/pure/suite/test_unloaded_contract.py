# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the contract says of a process that loads a library which its row refuses it."""

from __future__ import annotations

import pytest
from grimp import ImportGraph

from tests.support.contracts import UnloadedContract

PROCESS = ["grpc: small", "kubernetes: small"]


def checked(graph: ImportGraph, asked: list[str]) -> list[str]:
    options = {"libraries": PROCESS, "asked": asked}
    contract = UnloadedContract("small", session_options={}, contract_options=options)
    found: list[str] = contract.check(graph, verbose=False).metadata["found"]
    return found


@pytest.fixture
def graph() -> ImportGraph:
    made = ImportGraph()
    for name in ("small", "small.command", "way", "grpc", "kubernetes"):
        made.add_module(name, is_squashed="." not in name and name not in ("small", "way"))
    made.add_import(importer="small.command", imported="way")
    return made


def test_a_library_that_nothing_leads_to_is_not_loaded(graph: ImportGraph) -> None:
    assert checked(graph, []) == []


def test_a_library_behind_another_module_is_found_with_the_way_to_it(graph: ImportGraph) -> None:
    graph.add_import(importer="way", imported="grpc")
    assert checked(graph, []) == ["small.command -> way -> grpc"]


def test_an_import_that_is_asked_for_counts_for_its_own_library_alone(graph: ImportGraph) -> None:
    graph.add_import(importer="way", imported="grpc")
    graph.add_import(importer="way", imported="kubernetes")
    asked = ["kubernetes: small.command -> way"]
    assert checked(graph, asked) == ["small.command -> way -> grpc"]


def test_a_row_for_an_import_that_is_gone_is_an_error(graph: ImportGraph) -> None:
    with pytest.raises(ValueError, match=r"small -> way is no import"):
        checked(graph, ["kubernetes: small -> way"])
