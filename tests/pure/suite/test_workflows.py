# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What GitHub runs is pinned by commit, and leaves no token where later steps find it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support.paths import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.y*ml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
VERSION = re.compile(r"uses: *\S+@[0-9a-f]{40} # v\d+(?:\.\d+)+$")


def uses(data: Any) -> list[dict[str, Any]]:
    """Return the steps and the jobs of a workflow that use an action or another workflow."""
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    own = [data] if isinstance(data, dict) and "uses" in data else []
    return own + [step for value in inner for step in uses(value)]


def problems(text: str) -> list[str]:
    """Return what is wrong with the actions that a workflow uses."""
    result = []
    for step in uses(yaml.safe_load(text)):
        name = str(step["uses"])
        if not PINNED.fullmatch(name):
            result.append(f"{name} is not pinned by a commit")

        keeps_token = (step.get("with") or {}).get("persist-credentials") is not False
        if name.startswith("actions/checkout@") and keeps_token:
            result.append(f"{name} keeps its token in the work tree")
    lines = [line for line in text.splitlines() if re.search(r"\buses:", line)]
    return result + [f"no version behind: {line}" for line in lines if not VERSION.search(line)]


@pytest.mark.attack("actions-that-move")
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_is_pinned_by_a_commit_and_a_checkout_keeps_no_token(path: Any) -> None:
    text = path.read_text()
    assert uses(yaml.safe_load(text))
    assert problems(text) == []


@pytest.mark.attack("actions-that-move")
@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("actions/checkout@v5 # v5.1.0", "false", "not pinned"),
        ("actions/checkout@main # v5.1.0", "false", "not pinned"),
        (f"actions/checkout@{'a' * 39} # v5.1.0", "false", "not pinned"),
        ("docker://alpine # v3.0", "false", "not pinned"),
        (f"actions/checkout@{'a' * 40} # v5.1.0", "true", "keeps its token"),
        (f"actions/checkout@{'a' * 40}", "false", "no version"),
    ],
)
def test_an_action_that_moves_and_a_checkout_that_keeps_its_token_are_refused(
    name: str, options: str, problem: str
) -> None:
    step = f"      - uses: {name}\n        with: {{persist-credentials: {options}}}\n"
    assert problem in " ".join(problems(f"jobs:\n  a:\n    steps:\n{step}"))


@pytest.mark.attack("actions-that-move")
def test_a_checkout_without_options_keeps_its_token() -> None:
    text = f"jobs: {{a: {{steps: [{{uses: actions/checkout@{'a' * 40}}}]}}}}"
    assert "keeps its token" in " ".join(problems(text))
