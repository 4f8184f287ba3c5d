# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the contract says of a process that loads a library which its row refuses it."""

from __future__ import annotations

import pytest
from grimp import ImportGraph

from tests.support.contracts import UnloadedContract


def checked(graph: ImportGraph, *rows: str) -> list[str]:
    contract = UnloadedContract("small", session_options={}, contract_options={"libraries": rows})
    found: list[str] = contract.check(graph, verbose=False).metadata["found"]
    return found


@pytest.fixture
def graph() -> ImportGraph:
    made = ImportGraph()
    for name in ("small", "small.command", "way"):
        made.add_module(name)
    for name in ("grpc", "kubernetes"):
        made.add_module(name, is_squashed=True)
    made.add_import(importer="small.command", imported="way")
    made.add_import(importer="way", imported="kubernetes")
    return made


def test_a_library_that_nothing_leads_to_is_not_loaded(graph: ImportGraph) -> None:
    assert checked(graph, "grpc: small way") == []


def test_a_library_behind_another_module_is_found_with_the_way_to_it(graph: ImportGraph) -> None:
    rows = ("grpc: small", "kubernetes: small.command")
    assert checked(graph, *rows) == ["small.command -> way -> kubernetes"]


def test_a_row_for_a_package_that_is_gone_is_an_error(graph: ImportGraph) -> None:
    with pytest.raises(ValueError, match="gone is not present"):
        checked(graph, "grpc: gone")
