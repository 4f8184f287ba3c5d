# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The toolkit's preset on a mirror with NVIDIA's layout, through the genuine apt, dnf and zypper, in a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.presets import TOOLKIT_KEY
from ansible_collections.gpu.node.plugins.module_utils._generated.container_toolkit import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import OWN_PREFERENCES
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.capability import (
    RECORD,
    ToolkitCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.plan import ALL, PLACE

from tests.fakes.packages.apt_nodes import AptNode, Repository
from tests.fakes.packages.apt_nodes import missing as missing_apt
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.packages.rpm_nodes import BASE as BASE_SYSTEM
from tests.fakes.packages.rpm_nodes import SYSTEMS as RPM_SYSTEMS
from tests.fakes.packages.rpm_nodes import RpmNode, _build
from tests.fakes.packages.rpm_nodes import missing as missing_rpm

SAFE, NEWEST = "1.19.1", "1.20.1"
SYSTEMS = ("apt-get", "zypper", "dnf")


class AptToolkitNode(AptNode):
    """A node whose apt reads the toolkit's files."""

    def _below(self, path: str) -> str | None:
        return f"{self.root}{path}" if path in (*PLACE.paths, OWN_PREFERENCES) else None


class RpmToolkitNode(RpmNode):
    """A node whose rpm has the toolkit's key."""

    paths = PLACE.paths
    key_path = PLACE.rpm_key


def rpms(work: Path, key: Key, version: str) -> Path:
    """Return a repository whose lists are signed, and whose packages are not."""
    _build(work, dict.fromkeys(ALL, ""), version, "1", 0)
    _build(work, {BASE_SYSTEM: ""}, "3.0", "1", 0)
    subprocess.run(["createrepo_c", "--quiet", f"{work}/repo"], check=True)
    lists = f"{work}/repo/repodata/repomd.xml"
    key.gpg(["--detach-sign", "--armor", "--output", f"{lists}.asc", lists])
    (work / "repo/repodata/repomd.xml.key").write_text(key.armoured)
    return work / "repo"


def debs(folder: Path, key: Key, version: str) -> None:
    found = Repository(folder, key)
    for name in ALL:
        found.add(name, f"{version}-1")
    found.publish()


def capability(node: Any, *, check_mode: bool = False, **values: Any) -> ToolkitCapability:
    defaults = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}
    return ToolkitCapability(node, {**defaults, **values}, check_mode=check_mode)


def converge(node: Any, **values: Any) -> tuple[Any, ...]:
    """Run to the end and return the steps that are left to do."""
    one = capability(node, **values)
    for _round in range(5):
        plan = one.plan(one.observe())
        if not plan.steps:
            break
        for step in plan.steps:
            one.apply(step)
    return plan.steps


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    """Return a folder with NVIDIA's layout: lists that are signed, packages that are not, and one key."""
    base = tmp_path_factory.mktemp("mirror")
    (base / "gpgkey").write_text(key.armoured)
    for channel, version in (("stable", SAFE), ("experimental", NEWEST)):
        debs(base / channel / "deb/amd64", key, version)
        if not missing_rpm("rpm"):
            packages = rpms(tmp_path_factory.mktemp(channel), key, version)
            (base / channel / "rpm").mkdir(parents=True)
            (base / channel / "rpm/x86_64").symlink_to(packages)
    return base


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path, mirror: Path, key: Key) -> Any:
    manager = getattr(request, "param", "apt-get")
    lacking = missing_apt() if manager == "apt-get" else missing_rpm(manager)
    if lacking:
        pytest.skip(lacking)
    if manager == "apt-get":
        bare = Repository(tmp_path / "bare", key)
        bare.publish()
        found: Any = AptToolkitNode(tmp_path / "node", bare)
    else:
        packages = (mirror / "stable/rpm/x86_64").resolve()
        found = RpmToolkitNode(tmp_path / "node", packages, RPM_SYSTEMS[manager])
        for path in (tmp_path / "node").glob("etc/**/test.repo"):
            path.unlink()
    found.commands |= {("uname", "-m"): "x86_64\n", ("systemctl", "daemon-reload"): ""}
    return found


def named(base: Path, pinned: Key | None, **said: Any) -> dict[str, Any]:
    marks = {"key_fingerprints": [pinned.fingerprint] if pinned else []}
    flat = {"suite": "/", "components": [], "signed_metadata": None, "signed_packages": None}
    return {"preset": "nvidia", "base_url": f"file://{base}", **flat, **marks, **said}


def there(node: Any) -> set[str]:
    return {one.split("-")[0] for one in node.installed().values()}


# dnf takes longest, and comes and goes by its own repository in test_container_toolkit_rpm.py.
FEW = [pytest.param(one, marks=[pytest.mark.long] * (one == "dnf")) for one in SYSTEMS]
every = pytest.mark.parametrize("node", FEW, indirect=True)


@every
def test_toolkit_comes_from_a_mirror_without_a_network_and_goes(
    node: Any, mirror: Path, key: Key
) -> None:
    assert converge(node, repository=named(mirror, key)) == ()
    assert set(ALL) <= set(node.installed())
    assert there(node) == {SAFE}
    node.ran.clear()
    assert converge(node, repository=named(mirror, key)) == ()
    changing = {"install", "update", "shell", "refresh", "makecache"}
    assert not [words for words in node.ran if changing & {*words}]
    other = named(mirror, key, preset="nvidia-experimental")
    assert converge(node, repository=other, version=NEWEST) == ()
    assert there(node) == {NEWEST}
    assert converge(node, state="absent", repository=other) == ()
    assert node.installed() == {}
    assert [path for path in PLACE.paths if node.read(path) is not None] == []
    assert RECORD not in node.files


@every
def test_toolkit_s_key_that_is_not_the_pinned_one_is_refused(
    node: Any, mirror: Path, key: Key
) -> None:
    with pytest.raises(NodeError, match=rf"it is {key.fingerprint}, and {TOOLKIT_KEY} is pinned"):
        converge(node, repository=named(mirror, None))
    assert [path for path in PLACE.paths if node.read(path) is not None] == []
    assert RECORD not in node.files


def test_check_mode_tries_toolkit_s_repository_and_leaves_no_trace(
    node: Any, mirror: Path, key: Key, tmp_path: Path
) -> None:
    one = capability(node, check_mode=True, repository=named(mirror, key))
    plan = one.plan(one.observe())
    assert plan.after["repository"] == f"file://{mirror}/stable/deb/amd64"
    fetch, *_others, install, _hold = plan.steps
    assert f"fetch the key file://{mirror}/gpgkey, which must be {key.fingerprint}" in fetch.summary
    assert SAFE in install.summary
    assert [path for path in PLACE.paths if node.read(path) is not None] == []
    one = capability(node, check_mode=True, repository=named(tmp_path / "none", None))
    with pytest.raises(NodeError, match=rf"cannot fetch file://{tmp_path}/none/gpgkey"):
        one.plan(one.observe())


def test_entry_that_nvidia_s_guide_has_written_is_used(node: Any, mirror: Path, key: Key) -> None:
    trusted = node.root / "etc/apt/trusted.gpg.d/guide.asc"
    trusted.write_text(key.armoured)
    entry = f"deb [signed-by={trusted}] file://{mirror}/stable/deb/$(ARCH) /\n"
    path = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
    node.files[path] = entry
    (node.root / path[1:]).write_text(entry)
    assert converge(node, repository=named(mirror, key)) == ()
    assert "nvidia-container-toolkit" in node.installed()
    assert not [name for name in PLACE.paths if node.read(name)]
    converge(node, state="absent")
    assert (node.installed(), node.files[path]) == ({}, entry)


def test_toolkit_s_preset_on_an_unknown_machine_is_refused_and_absent_works_there(
    node: Any, mirror: Path, key: Key
) -> None:
    node.commands["uname", "-m"] = "riscv64\n"
    with pytest.raises(NodeError, match=r"'nvidia'.*x86_64 and aarch64.* on riscv64; leave preset"):
        converge(node, repository=named(mirror, key))
    assert converge(node, state="absent", repository=named(mirror, key)) == ()
