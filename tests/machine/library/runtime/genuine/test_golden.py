# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The files in the manner of well-known installers, through genuine containerd and dockerd of each release."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.runtime.genuine_runtimes import (
    CONFIG,
    DAEMON,
    OLDEST,
    WRAPPER,
    GenuineRuntimes,
    capability,
    converge,
    every_suite,
    with_cdi,
)
from tests.support.paths import FAKES

FILES = FAKES / "runtime_configs"
MODES = ("cdi", "runtime_class", "default_runtime")
OURS = {"enable_cdi", "default_runtime_name"}


def leaves(value: Any, at: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return all values of nested tables by their paths."""
    if not isinstance(value, dict) or not value:
        return {at: value}
    return {path: one for key in value for path, one in leaves(value[key], (*at, key)).items()}


def readable(node: GenuineRuntimes) -> bool:
    return node.run(["containerd", "--config", CONFIG, "config", "dump"], check=False).rc == 0


@every_suite
@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.toml")))
def test_golden_file_of_containerd(
    machine: Callable[..., GenuineRuntimes], suite: str, name: str
) -> None:
    text = (FILES / name).read_bytes().decode()
    node = machine(suite, {CONFIG: text})
    node.install_toolkit()
    before = node.files()
    old = suite == OLDEST and tomllib.loads(text)["version"] > 2
    if old or not readable(node):  # a format that this containerd does not know
        with pytest.raises(NodeError, match=f"{CONFIG}|format version"):
            capability(node, mode="runtime_class").observe()
        assert node.files() == before
        return
    had = leaves(node.dump(CONFIG))
    for mode in MODES[suite == OLDEST :]:
        converge(node, mode=mode)
        has = leaves(node.dump(CONFIG))
        # Containerd 1 fills in what runc has by default only where no file names runc.
        gone = [at for at in had if at not in has and had[at] not in ("", False, 0, {}, [])]
        assert gone == []
        changed = {at[-1] for at in has if at in had and has[at] != had[at] and had[at] != {}}
        assert changed <= OURS
        added = {at for at in has if at not in had}
        assert all("nvidia" in at or "runc" in at for at in added)
        assert converge(node, mode=mode) == []
    assert node.runtime("nvidia")["options"]["BinaryName"] == WRAPPER
    converge(node, state="absent")
    assert node.files() == before


@with_cdi
@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.json")))
def test_golden_file_of_docker(
    machine: Callable[..., GenuineRuntimes], suite: str, name: str
) -> None:
    node = machine(suite, {DAEMON: (FILES / name).read_bytes().decode()})
    node.install_docker()
    node.install_toolkit()
    before = node.files()
    for mode in MODES:
        converge(node, name="docker", mode=mode)
        assert converge(node, name="docker", mode=mode) == []
    node.run(["dockerd", "--validate", "--config-file", DAEMON])
    converge(node, name="docker", state="absent")
    assert node.files() == before
