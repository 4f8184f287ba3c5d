# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The walks on the page about the architecture name files and functions that are there, and are short."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.paths import REPOSITORY

ROOT = REPOSITORY
PAGE = (ROOT / "docs/development/architecture.md").read_text()
STEP = re.compile(r"^\| \d+ \| `([^`]+)` \| (.*) \|$", re.MULTILINE)
FUNCTION = re.compile(r"`(\w+)\(\)`")


def walk(title: str) -> list[tuple[str, list[str]]]:
    """Return the files of a walk with the functions that it names in each."""
    text = PAGE.partition(f"### {title}\n")[2].partition("\n#")[0]
    return [(path, FUNCTION.findall(words)) for path, words in STEP.findall(text)]


MIG = walk("A MIG layout, from the variable to NVML")
DEVICE = walk("A device, from NVML to Allocate")
DRIVER = walk("A driver's version, from the variable to apt")


def test_a_walk_passes_what_is_there() -> None:
    for path, functions in [*MIG, *DEVICE, *DRIVER]:
        text = (ROOT / path).read_text()
        if path.endswith(".py"):
            tree = ast.walk(ast.parse(text))
            defined = {node.name for node in tree if isinstance(node, ast.FunctionDef)}
            assert functions, f"the walk names no function of {path}"
            assert set(functions) <= defined, path


@pytest.mark.parametrize(("steps", "most"), [(MIG, 12), (DEVICE, 9), (DRIVER, 15)])
def test_a_walk_is_short_and_comes_back_to_no_file(
    steps: list[tuple[str, list[str]]], most: int
) -> None:
    paths = [path for path, _functions in steps]
    assert 5 < len(paths) == len(set(paths)) <= most
