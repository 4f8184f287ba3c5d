# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes for the tests of DCGM."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.download import bring
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm import capability

from tests.fakes.library.dcgm_nodes import EXPORTER, NEW, OLD, DcgmNode, offer
from tests.fakes.packages.apt_nodes import Repository, missing
from tests.fakes.packages.pgp_keys import Key


@pytest.fixture(scope="session")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repository]:
    """Return an archive without DCGM, one that has it, and one that has a newer one as well."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("dcgm")
    key = Key(folder / "home")
    found = {name: Repository(folder / name, key) for name in ("none", "old", "new")}
    for one in found.values():
        one.add("lshw", "02.19.2-1")
        one.add("datacenter-gpu-manager", "1:3.3.9")
    for name in ("old", "new"):
        offer(found[name], OLD)
        found[name].add(EXPORTER, "4.8.1-1")
    offer(found["new"], NEW)
    for one in found.values():
        one.publish()
    return found


@pytest.fixture
def make(
    repositories: dict[str, Repository], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., DcgmNode]:
    """Return a maker of nodes: what their archive has, and their driver."""

    def node(archive: str = "old", driver: str = "580.95.05") -> DcgmNode:
        found = DcgmNode(tmp_path / "node", repositories[archive], driver)

        def brought(location: str, target: str, sha256: str, *, mode: int) -> None:
            bring(location, str(tmp_path / "brought"), sha256, mode=mode)
            assert mode == 0o755
            found.files[target] = (tmp_path / "brought").read_text()

        monkeypatch.setattr(capability, "bring", brought)
        monkeypatch.setattr(capability, "LOOK_SECONDS", 0.0)
        found.person("apt-get", "-q", "update")
        return found

    return node


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """Return where a stand-in of the exporter is, and its checksum."""
    file = tmp_path / "dcgm-exporter"
    file.write_text("#!/bin/sh\n")
    return {"location": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
