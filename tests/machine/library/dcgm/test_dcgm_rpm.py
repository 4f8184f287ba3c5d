# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM through the genuine dnf and zypper, in a folder; relations as in dcgm_nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.library.dcgm_nodes import CORE, DCGM, NEW, OLD, Services, converge
from tests.fakes.packages.rpm_nodes import SYSTEMS, RpmNode, _build, _indexed, missing, repository

PARTS = ("proprietary", "cuda12", "cuda13", "proprietary-cuda12", "proprietary-cuda13")
UNIT = "nvidia-dcgm.service"


class RpmDcgm(Services, RpmNode):
    """A node of the RHEL family or of SUSE with a driver."""

    installed = RpmNode.installed

    def __init__(self, root: Path, repo: Path, os_release: str) -> None:
        RpmNode.__init__(self, root, repo, os_release)
        self.begin("580.95.05")


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("dcgm-rpm")
    repository(work)
    for version in (OLD, NEW):
        parts = {CORE: "Requires: lshw\nConflicts: datacenter-gpu-manager"}
        parts |= {f"{DCGM}-{one}": f"Requires: {CORE} = {{version}}" for one in PARTS}
        _build(work, parts, version, "1", 1)
    _build(work, {"lshw": ""}, "B.02.19", "1", 0)
    return _indexed(work)


@pytest.fixture(params=[pytest.param("dnf", marks=pytest.mark.long), "zypper"])
def node(request: pytest.FixtureRequest, repo: Path, tmp_path: Path) -> RpmDcgm:
    if lacking := missing(request.param):
        pytest.skip(lacking)
    return RpmDcgm(tmp_path, repo, SYSTEMS[request.param])


def test_dcgm_comes_moves_and_goes(node: RpmDcgm) -> None:
    before = node.installed()
    assert converge(node, version=OLD).steps == ()  # type: ignore[arg-type]
    names = {f"{DCGM}-{one}" for one in ("core", "cuda13", "proprietary", "proprietary-cuda13")}
    assert node.installed().keys() - before.keys() == {*names, "lshw"}
    assert (node.installed()[CORE], set(node.units)) == (OLD, {UNIT})
    assert converge(node, version=NEW, cuda="12").steps == ()  # type: ignore[arg-type]
    there = node.installed()
    assert there[CORE] == NEW
    assert not [name for name in there if name.endswith("cuda13")]
    assert converge(node, cuda="12").steps == ()  # type: ignore[arg-type]
    assert converge(node, state="absent").steps == ()  # type: ignore[arg-type]
    assert (node.installed(), node.units) == (before, {})


def test_version_that_others_hold_is_not_changed(node: RpmDcgm) -> None:
    converge(node, version=OLD)  # type: ignore[arg-type]
    record = "/var/lib/gpu-node/dcgm.json"
    node.files[record] = node.files[record].replace(f'"{CORE}"', '"another"')
    with pytest.raises(NodeError, match=rf"{CORE} must change, but is on hold"):
        converge(node, version=NEW)  # type: ignore[arg-type]
