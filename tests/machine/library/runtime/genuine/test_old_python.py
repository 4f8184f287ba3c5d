# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A fresh node whose Python has no library for TOML, with genuine containerd."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import toml

from tests.fakes.runtime.genuine_runtimes import (
    CONFIG,
    WRAPPER,
    GenuineRuntimes,
    converge,
    every_suite,
    planned,
)
from tests.support.paths import FAKES

FILES = FAKES / "runtime_configs"


@pytest.fixture(autouse=True)
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have what Python 3.9 and 3.10 have on a fresh node."""
    for name in ("tomllib", "tomlkit", "tomli", "toml"):
        monkeypatch.setitem(sys.modules, name, None)
    toml._loads.cache_clear()
    yield
    toml._loads.cache_clear()
    assert sys.modules["tomllib"] is None


@every_suite
def test_check_mode_and_a_run_on_a_fresh_node(
    machine: Callable[..., GenuineRuntimes], suite: str
) -> None:
    text = (FILES / "kubespray.toml").read_text()
    node = machine(suite, {CONFIG: text})
    node.install_toolkit()
    before = node.files()
    plan = planned(node, mode="runtime_class")
    assert [step.action for step in plan.steps] == ["edit"]
    assert WRAPPER in str(plan.after)
    assert node.files() == before
    converge(node, mode="runtime_class")
    assert WRAPPER in node.files()[CONFIG]
    assert converge(node, mode="runtime_class") == []
    converge(node, state="absent")
    assert node.files() == before


def test_module_looks_for_no_library() -> None:
    name = "ansible_collections.gpu.node.plugins.modules.container_runtime"
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin).read_text()
    assert "ensure_importable" not in source
    assert "tomlkit" not in source
