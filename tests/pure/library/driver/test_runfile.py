# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver from a .run file: what cannot be meant, what it has left, and that it is not mixed with packages."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.desired import Runfile
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import Installed
from ansible_collections.gpu.node.plugins.module_utils._driver.sources.runfile import parse_traces

from tests.fakes.library.fakes import FakeHost
from tests.fakes.packages.driver_nodes import actions, converged, node
from tests.fakes.packages.driver_runs import planned

VERSION = "580.95.05"
NAMED = {"location": "https://mirror/n.run", "sha256": "0" * 64}
WANTED: dict[str, Any] = {"source": "runfile", "version": VERSION, "runfile": NAMED}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "580"}, r"version: '580'.*the exact version"),
        ({"runfile": None}, r"runfile: None.*its location and sha256"),
        ({"source": "distribution"}, "source to be runfile with it"),
        ({"runfile": {**NAMED, "location": "x.run"}}, r"runfile\.location: 'x\.run'"),
        ({"runfile": {**NAMED, "sha256": "abc"}}, r"runfile\.sha256: 'abc'"),
        ({"runfile": {**NAMED, "location": "/gone.run"}}, "'/gone.run'.*there on the node"),
    ],
)
def test_runfile_that_cannot_be_meant(changes: dict[str, Any], words: str) -> None:
    host = FakeHost({"/etc/os-release": "ID=nixos\n"}, {("gcc",): "", ("make",): ""})
    with pytest.raises(InputError, match=words):
        planned(host, **{**WANTED, **changes})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.0-5809505 (580.95.05)\nNVIDIA Accelerated Graphics Driver\n", VERSION),
        ("1.0-7167\nNVIDIA (x)\n", "1.0-7167"),
        ("", ""),
    ],
)
def test_version_in_the_traces(text: str, version: str) -> None:
    assert parse_traces(text) == version


def test_packages_and_the_installer_are_not_mixed() -> None:
    asked = {"source": "runfile", "runfile": Runfile(**NAMED), "version": VERSION}
    with pytest.raises(NodeError, match=r"installed from packages: .*libcuda1.*state absent"):
        actions(converged(runfile=Installed()), **asked)
    assert actions(node(runfile=Installed()), **asked)[0] == "runfile"
    there = node(runfile=Installed(Version(VERSION)), nvidia_installer=True)
    with pytest.raises(NodeError, match="NVIDIA's own installer is on the node"):
        actions(there)
