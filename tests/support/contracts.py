# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Contracts of import-linter: for modules that say that they are pure, for libraries that processes can do without."""

from __future__ import annotations

import ast
from copy import deepcopy

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

from tests.support.paths import SOURCES

WORD = "Pure."
ROWS = fields.ListField(subfield=fields.StringField())


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
    """Tell whether a module of the device plugin's or the cluster's package is said to be pure."""
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

    ``libraries`` has rows as ``grpc: gpu_plugin.boot gpu_plugin.labels``. ``asked`` has the imports inside functions
    that load a library when it is asked for, as ``kubernetes: importer -> imported``; those lead nowhere here.
    """

    type_name = "unloaded"
    libraries = ROWS
    asked = ROWS

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return the chains by which libraries would be loaded. ValueError: a row's import or module is not there."""
        found = []
        for library, names in table(self.libraries):
            asked = [expression for other, expression in table(self.asked) if other == library]
            left = without(graph, asked)
            for package in names.split():
                chain = left.find_shortest_chain(package, library, as_packages=True)
                found += [" -> ".join(chain)] if chain else []
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print them."""
        for one in check.metadata["found"]:
            output.print_error(f"- {one}")


def table(rows: list[str]) -> list[tuple[str, str]]:
    """Return what stands in front of each row's colon, and behind it."""
    return [(row.partition(":")[0], row.partition(":")[2].strip()) for row in rows]


def without(graph: ImportGraph, expressions: list[str]) -> ImportGraph:
    """Return a graph without some imports. ValueError: one of them is none."""
    left = deepcopy(graph)
    for expression in expressions:
        importer, imported = expression.split(" -> ")
        if not graph.direct_import_exists(importer=importer, imported=imported):
            raise ValueError(f"{expression} is no import")
        left.remove_import(importer=importer, imported=imported)
    return left
