# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Finding S10: hostile configurations of container runtimes, in TOML."""

from __future__ import annotations

import sys
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import toml

from tests.support.hostile import Thrown, inputs
from tests.support.waiting import alarm

CRI = ("plugins", "io.containerd.cri.v1.runtime")
CHANGES: t.List[t.Tuple[t.Tuple[str, ...], t.Any]] = [
    ((*CRI, "enable_cdi"), True),
    ((*CRI, "containerd", "runtimes", "nvidia", "runtime_type"), "io.containerd.runc.v2"),
]
SAMPLES = (
    'version = 3\n[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = false # x\n',
    'imports = ["/etc/containerd/conf.d/*.toml"]\n[a]\nb = {c = 1, d = [1, 2]}\n',
    'root = "/x"\n[[registry]]\nlocation = "y"\n[plugins]\n',
)


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 3000,
        "a = " + "[" * 3000 + "]" * 3000,
        "a = " + "{b = " * 3000,
        "a" + ".a" * 3000 + " = 1",
        "[" + "a." * 3000 + "a]",
        f"a = {'9' * 5000}",
        f"a = 0x{'f' * 100_000}",
        "x" * (2 << 20),
        "# " + "x" * (2 << 20),
    ],
    ids=lambda text: f"{text[:9]} {len(text)}",
)
@pytest.mark.parametrize("library", ["tomllib", "ours"])
def test_toml_beyond_a_limit_is_refused(
    monkeypatch: pytest.MonkeyPatch, library: str, text: str
) -> None:
    if library == "ours":  # what a node has whose Python is older than 3.11
        monkeypatch.setitem(sys.modules, "tomllib", None)
    with (
        alarm(),
        pytest.raises(NodeError, match=r"config\.toml is not valid TOML.*fix the file") as caught,
    ):
        toml.parse(text, "config.toml")
    assert len(str(caught.value)) < 500


@pytest.mark.attack("hostile-configuration")
def test_hostile_toml() -> None:
    def read(text: str) -> None:
        toml.parse(text, "/etc/containerd/config.toml")

    Thrown(read, NodeError).throw(inputs(SAMPLES))


@pytest.mark.attack("hostile-configuration")
def test_hostile_toml_that_is_edited() -> None:
    def edit(text: str) -> None:
        toml.parse(text, "/etc/containerd/config.toml")
        toml.parse(toml.edit(text, CHANGES), "the edited file")

    Thrown(edit, NodeError).throw(inputs(SAMPLES))
