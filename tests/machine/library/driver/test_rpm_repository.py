# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A repository that the user names, through the genuine rpm, dnf and zypper, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._core.driver.names import PLACE
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError

from tests.fakes.packages.debian import capability, converge
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.packages.rpm_nodes import SYSTEMS, RpmNode, missing, repository

NEWEST = "580.95.05"


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    return repository(tmp_path_factory.mktemp("vendor"), key)


@pytest.fixture(params=sorted(SYSTEMS))
def manager(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if missing(name):
        pytest.skip(missing(name))
    return name


@pytest.fixture
def node(manager: str, repo: Path, tmp_path: Path) -> RpmNode:
    """Return a node that knows no repository."""
    found = RpmNode(tmp_path, repo, SYSTEMS[manager])
    for path in tmp_path.glob("etc/**/test.repo"):
        path.unlink()
    return found


def wanted(repo: Path, key: Key, **changes: Any) -> dict[str, Any]:
    values = {
        "url": f"file://{repo}",
        "key": key.armoured,
        "key_fingerprints": [key.fingerprint],
        "suite": "/",
        "components": [],
        "signed_metadata": False,
        **changes,
    }
    return {"source": "repository", "repository": values}


def test_repository_comes_with_its_key_and_goes(
    node: RpmNode, manager: str, repo: Path, key: Key
) -> None:
    left = converge(node, **wanted(repo, key))
    assert (left.steps, left.warnings) == ((), ())
    assert {one.split("_k")[0] for name, one in node.installed().items() if "nvidia" in name} == {
        NEWEST
    }
    one = capability(node)
    assert len(one.observe() and one._node.manager.trusted()) == 1
    node.ran.clear()
    assert converge(node, **wanted(repo, key)).steps == ()
    assert not [
        words for words in node.ran if {"install", "shell", "refresh", "makecache"} & {*words}
    ]
    converge(node, state="absent")
    assert node.installed() == {}
    assert one._node.manager.trusted() == ()
    assert [node.read(path) for path in (PLACE.rpm_key, *PLACE.rpm_repositories.values())] == [
        None
    ] * 3
    assert RECORD not in node.files


def test_packages_that_another_key_signed_are_not_installed(
    node: RpmNode, repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = Key(tmp_path_factory.mktemp("stranger") / "home")
    with pytest.raises(NodeError, match=r"(?s)(GPG|[Ss]ignature|key)"):
        converge(node, **wanted(repo, stranger))
    assert node.installed() == {}


def test_key_that_rpm_had_before_stays(node: RpmNode, repo: Path, key: Key, tmp_path: Path) -> None:
    path = tmp_path / "key.asc"
    path.write_text(key.armoured)
    assert node._genuine(("rpm", "--import", str(path))).rc == 0
    converge(node, **wanted(repo, key))
    one = capability(node, state="absent")
    converge(node, state="absent")
    assert len(one.observe() and one._node.manager.trusted()) == 1


def test_drift_of_each_file_is_repaired(node: RpmNode, manager: str, repo: Path, key: Key) -> None:
    converge(node, **wanted(repo, key))
    ours = PLACE.rpm_repositories[{"dnf": "rhel", "zypper": "suse"}[manager]]
    text = node.read(ours)
    node.write(ours, (text or "").replace("gpgcheck=1", "gpgcheck=0"))
    node.remove(PLACE.rpm_key)
    assert converge(node, **wanted(repo, key)).steps == ()
    assert node.read(ours) == text
    assert node.read(PLACE.rpm_key) == key.armoured


def test_check_mode_on_a_fresh_node_says_what_it_cannot_know(
    node: RpmNode, repo: Path, key: Key
) -> None:
    one = capability(node, check_mode=True, **wanted(repo, key))
    found = one.plan(one.observe())
    assert [step.action for step in found.steps][:2] == ["repository", "refresh"]
    assert "(the newest that the sources offer)" in found.steps[2].summary
    assert node.read(PLACE.rpm_key) is None
