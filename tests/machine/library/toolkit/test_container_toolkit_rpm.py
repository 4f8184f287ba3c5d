# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container toolkit through the genuine rpm, dnf and zypper, in a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._generated.container_toolkit import SPEC
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.capability import (
    RECORD,
    ToolkitCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.plan import (
    ALL,
    BASE,
    PLACE,
)

from tests.fakes.packages.pgp_keys import Key
from tests.fakes.packages.rpm_nodes import BASE as BASE_SYSTEM
from tests.fakes.packages.rpm_nodes import SYSTEMS, RpmNode, _build, missing

UNSAFE, SAFE, NEWEST = "1.18.2", "1.19.1", "1.20.1"
PARTS = {
    BASE: "",
    "libnvidia-container1": "",
    "libnvidia-container-tools": "Requires: libnvidia-container1 >= {version}",
    "nvidia-container-toolkit": f"Requires: {BASE} = {{version}}\nRequires: libnvidia-container-tools >= {{version}}",
}


class ToolkitNode(RpmNode):
    paths = PLACE.paths
    key_path = PLACE.rpm_key

    def __init__(self, root: Path, repo: Path, os_release: str) -> None:
        super().__init__(root, repo, os_release)
        self.commands[("systemctl", "daemon-reload")] = ""


def build(work: Path, key: Key, *versions: str, signed: bool = True) -> Path:
    """Return a repository whose packages are signed, or else its lists."""
    work.mkdir(exist_ok=True)
    for version in versions:
        _build(work, PARTS, version, "1", 0)
    _build(work, {BASE_SYSTEM: ""}, "3.0", "1", 0)
    if signed:
        key.sign_rpms(work / "repo")
    subprocess.run(["createrepo_c", "--quiet", f"{work}/repo"], check=True)
    if not signed:
        lists = f"{work}/repo/repodata/repomd.xml"
        key.gpg(["--detach-sign", "--armor", "--output", f"{lists}.asc", lists])
        (work / "repo/repodata/repomd.xml.key").write_text(key.armoured)
    return work / "repo"


@pytest.fixture(params=sorted(SYSTEMS))
def manager(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if missing(name):
        pytest.skip(missing(name))
    return name


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    if missing("rpm"):
        pytest.skip(missing("rpm"))
    return build(tmp_path_factory.mktemp("vendor"), key, UNSAFE, SAFE, NEWEST)


@pytest.fixture
def node(manager: str, repo: Path, tmp_path: Path) -> ToolkitNode:
    """Return a node that knows no repository."""
    found = ToolkitNode(tmp_path / "node", repo, SYSTEMS[manager])
    for path in (tmp_path / "node").glob("etc/**/test.repo"):
        path.unlink()
    return found


def named(repo: Path, key: Key, **changes: Any) -> dict[str, Any]:
    return {
        "url": f"file://{repo}",
        "key": key.armoured,
        "key_fingerprints": [key.fingerprint],
        "suite": "/",
        "components": [],
        "signed_metadata": False,
        "signed_packages": True,
        **changes,
    }


def capability(node: RpmNode, *, check_mode: bool, **values: Any) -> ToolkitCapability:
    """Return the capability with the module's defaults."""
    defaults = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}
    return ToolkitCapability(node, {**defaults, **values}, check_mode=check_mode)


def planned(node: RpmNode, **values: Any) -> str:
    """Return what check mode says of the packages."""
    one = capability(node, check_mode=True, **values)
    return "\n".join(step.summary for step in one.plan(one.observe()).steps)


def converge(node: RpmNode, **values: Any) -> tuple[Any, ...]:
    """Run to the end and return the steps that are left to do."""
    one = capability(node, check_mode=False, **values)
    for _round in range(5):
        plan = one.plan(one.observe())
        if not plan.steps:
            break
        for step in plan.steps:
            one.apply(step)
    return plan.steps


few = pytest.mark.parametrize(
    "manager", [pytest.param("dnf", marks=pytest.mark.long), "zypper"], indirect=True
)


def test_toolkit_comes_and_goes_with_its_repository(
    node: ToolkitNode, repo: Path, key: Key
) -> None:
    assert f"({NEWEST}-1)" in planned(node, repository=named(repo, key))
    assert [path for path in PLACE.paths if node.exists(path)] == []
    assert converge(node, repository=named(repo, key), version=SAFE) == ()
    assert node.installed() == dict.fromkeys(ALL, SAFE)
    assert converge(node, repository=named(repo, key), version=NEWEST) == ()
    assert node.installed() == dict.fromkeys(ALL, NEWEST)
    node.ran.clear()
    assert converge(node, repository=named(repo, key)) == ()
    changing = {"install", "shell", "refresh", "makecache", "addlock", "add"}
    assert not [words for words in node.ran if changing & {*words}]
    assert converge(node, state="absent") == ()
    assert node.installed() == {}
    assert [path for path in PLACE.paths if node.read(path) is not None] == []
    assert RECORD not in node.files


@few
def test_lists_may_be_signed_instead_of_packages(
    node: ToolkitNode, key: Key, tmp_path: Path
) -> None:
    repo = build(tmp_path / "lists", key, NEWEST, signed=False)
    with pytest.raises(NodeError, match=r"(?s)(GPG|[Ss]ign|key)"):
        converge(node, repository=named(repo, key))
    assert node.installed() == {}
    wanted = named(repo, key, signed_metadata=True, signed_packages=False)
    assert f"install {BASE} ({NEWEST}-1)" in planned(node, repository=wanted, parts="base")
    assert converge(node, repository=wanted, parts="base") == ()
    assert node.installed() == {BASE: NEWEST}


@few
def test_lists_that_another_key_has_signed_are_not_used(
    node: ToolkitNode, key: Key, tmp_path: Path
) -> None:
    repo = build(tmp_path / "lists", Key(tmp_path / "stranger"), NEWEST, signed=False)
    wanted = named(repo, key, signed_metadata=True, signed_packages=False)
    for bring in (planned, converge):
        with pytest.raises(NodeError, match="the sources do not have nvidia-container-toolkit"):
            bring(node, repository=wanted)
    assert node.installed() == {}


class WithoutLocks(ToolkitNode):
    def in_folder(self, words: tuple[str, ...]) -> list[str]:
        found = super().in_folder(words)
        more = [f"--setopt=pluginpath={self.root}/none"] if words[0] == "dnf" else []
        return [found[0], *more, *found[1:]]


def test_missing_versionlock_is_refused_before_the_toolkit_is_installed(
    repo: Path, key: Key, tmp_path: Path
) -> None:
    if missing("dnf"):
        pytest.skip(missing("dnf"))
    node = WithoutLocks(tmp_path / "node", repo, SYSTEMS["dnf"])
    with pytest.raises(NodeError, match="dnf can't lock packages at their version"):
        converge(node, parts="base")
    assert node.installed() == {}
    assert converge(node, parts="base", hold=False) == ()
    assert node.installed() == {BASE: NEWEST}
