# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Contracts of import-linter: for modules that say that they are pure, for libraries that processes can do without."""

from __future__ import annotations

import ast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

from tests.support.paths import SOURCES

WORD = "Pure."


class PureContract(Contract):
    """Modules that say of themselves, or whose packages say, that they are pure.

    They import none of ``forbidden_modules`` themselves; what they import has its own contract.
    """

    type_name = "pure"
    forbidden_modules = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return the imports of pure modules that are none of theirs."""
        found = [
            f"{importer} -> {name}"
            for name in self.forbidden_modules
            for importer in sorted(graph.find_modules_that_directly_import(name))
            if is_pure(importer)
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print them."""
        for one in check.metadata["found"]:
            output.print_error(f"- {one}")


def is_pure(module: str) -> bool:
    """Return whether a module of the device plugin's or the cluster's package is said to be pure."""
    parts = module.split(".")
    names = ["/".join(parts[:number]) for number in range(1, len(parts) + 1)]
    files = (folder / name for folder in SOURCES for name in names)
    return any(
        WORD in (ast.get_docstring(ast.parse(path.read_text())) or "")
        for file in files
        for path in (file.with_suffix(".py"), file / "__init__.py")
        if path.is_file()
    )


class UnloadedContract(Contract):
    """No chain of imports leads from a package to a library that stands in front of it.

    ``libraries`` has rows as ``grpc: gpu_plugin.boot gpu_plugin.labels``.
    """

    type_name = "unloaded"
    libraries = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return the chains by which libraries would be loaded. ValueError: a row's module is not there."""
        rows = [row.partition(":") for row in self.libraries]
        pairs = [(package, library) for library, _colon, names in rows for package in names.split()]
        chains = (graph.find_shortest_chain(*pair, as_packages=True) for pair in pairs)
        found = [" -> ".join(chain) for chain in chains if chain]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print them."""
        for one in check.metadata["found"]:
            output.print_error(f"- {one}")
