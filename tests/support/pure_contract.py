# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A contract of import-linter for modules that say of themselves, or whose packages say, that they are pure."""

from __future__ import annotations

import ast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

from tests.support.paths import SOURCES

WORD = "Pure."


class PureContract(Contract):
    """They import none of ``forbidden_modules`` themselves; what they import has its own contract."""

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
