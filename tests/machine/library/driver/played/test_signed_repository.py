# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A signed repository that the user names, on played machines whose dnf 4, dnf 5, zypper and rpm are genuine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import (
    InputError,
    NodeError,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.played.rhel import played_rhel as rhel
from tests.fakes.played.rhel.rhel_archive import driver
from tests.fakes.played.rhel.rhel_systems import EL9, FEDORA
from tests.fakes.played.rpm_machine import RpmMachine
from tests.fakes.played.rpms import Rpm, signed
from tests.fakes.played.suse import played_suse as suse
from tests.fakes.played.suse import suse_archive
from tests.runner.tiers import long_but_first

VERSION, LATER = "580.95.05", "580.126.09"
SYSTEMS = {"dnf": EL9, "dnf5": FEDORA}
PACKAGES: dict[str, tuple[Rpm, ...]] = {
    **{name: driver(system, VERSION) for name, system in SYSTEMS.items()},
    "zypper": suse_archive.user_space(VERSION),
}
FILES = (PLACE.rpm_key, *PLACE.rpm_repositories.values())
LONG = pytest.mark.long


@pytest.fixture(params=long_but_first(["zypper", "dnf", "dnf5"]))
def manager(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def node(manager: str, place: Path) -> RpmMachine:
    """Return a machine whose own sources do not have the driver."""
    if lacking := missing(suse.TOOLS if manager == "zypper" else rhel.TOOLS):
        pytest.skip(lacking)
    if manager == "zypper":
        return suse.Machines(place)({"sle": suse_archive.fresh()["sle"]})
    found = rhel.Machines(place)(SYSTEMS[manager])
    found.switch("cuda", on=False)
    return found


def wanted(manager: str, key: Key, signer: Key, **values: Any) -> dict[str, Any]:
    """Return the options that name a repository whose packages ``signer`` has signed."""
    defaults = {
        "url": f"file://{signed(signer, PACKAGES[manager])}",
        "key": key.armoured,
        "key_fingerprints": [key.fingerprint],
        "suite": "/",
        "components": [],
        "signed_metadata": False,
    }
    return {"source": "repository", "repository": {**defaults, **values}}


def test_repository_comes_with_its_key_and_goes(node: RpmMachine, manager: str, key: Key) -> None:
    options, before = wanted(manager, key, key), node.installed()
    found = planned(node, **options)
    assert [step.action for step in found.steps][:2] == ["repository", "refresh"]
    assert f"{VERSION}-1" in [one for one in found.steps if one.action == "install"][-1].summary
    assert [path for path in FILES if node.exists(path)] == []
    assert (node.installed(), node.trusted()) == (before, ())
    left = converge(node, **options)
    assert (left.steps, left.warnings) == ((), ())
    assert (node.loaded(), len(node.trusted())) == (f"{VERSION} open", 1)
    node.ran.clear()
    assert converge(node, **options).steps == ()
    changing = {"install", "shell", "do", "refresh", "makecache", "--import"}
    assert not [words for words in node.ran if changing & {*words}]
    converge(node, state="absent")
    assert (node.installed(), node.trusted()) == (before, ())
    assert [one for one in (*FILES, RECORD) if node.exists(one)] == []


def test_packages_that_another_key_signed_are_not_installed(
    node: RpmMachine, manager: str, key: Key, other: Key
) -> None:
    before = node.installed()
    with pytest.raises(NodeError, match=r"(?s)(GPG|[Ss]ignature|key)"):
        converge(node, **wanted(manager, key, other))
    there = {name: one for name, one in node.installed().items() if name != "gpg-pubkey"}
    assert [name for name in there if "nvidia" in name] == []
    assert before.items() <= there.items()


def test_what_the_repository_lacks_is_refused_before_it_is_known(
    node: RpmMachine, manager: str, key: Key
) -> None:
    before = node.installed()
    for bring in (planned, converge):
        with pytest.raises(InputError, match=rf"version: '570'.*{VERSION}"):
            bring(node, version="570", **wanted(manager, key, key))
    assert node.installed() == before


def test_repository_that_does_not_answer_is_refused_before_it_is_known(
    node: RpmMachine, manager: str, key: Key, tmp_path: Path
) -> None:
    options = wanted(manager, key, key, url=f"file://{tmp_path}/none")
    for bring in (planned, converge):
        with pytest.raises(NodeError, match=r"(?s)sources.*nvidia.*gpu-node-driver"):
            bring(node, **options)


@pytest.mark.parametrize("manager", ["dnf", pytest.param("dnf5", marks=LONG)], indirect=True)
def test_repository_at_another_address_is_asked_before_it_is_known(
    node: RpmMachine, manager: str, key: Key
) -> None:
    converge(node, **wanted(manager, key, key))
    later = f"file://{signed(key, driver(SYSTEMS[manager], LATER))}"
    options = {**wanted(manager, key, key, url=later), "update": True, "reload": "when_idle"}
    text = node.read(PLACE.rpm_repositories["rhel"])
    assert f"{LATER}-1" in str(planned(node, **options).steps)
    assert node.read(PLACE.rpm_repositories["rhel"]) == text
    assert converge(node, **options).steps == ()
    assert node.loaded() == f"{LATER} open"


@pytest.mark.parametrize("signs", ["nobody", "other", "key"])
def test_lists_are_verified_before_the_repository_is_known(
    node: RpmMachine, manager: str, key: Key, other: Key, tmp_path: Path, signs: str
) -> None:
    folder = tmp_path / "repository"
    shutil.copytree(signed(key, PACKAGES[manager]), folder)
    if signer := {"other": other, "key": key}.get(signs):
        signer.gpg(["--armor", "--detach-sign", str(folder / "repodata/repomd.xml")])
    options = wanted(manager, key, key, url=f"file://{folder}", signed_metadata=True)
    before = node.installed()
    if signs == "key":
        assert f"{VERSION}-1" in str(planned(node, **options).steps)
        assert node.trusted() == ()
        assert converge(node, **options).steps == ()
        return
    for bring in (planned, converge):
        with pytest.raises(NodeError, match=r"(?s)repository.*(gpu-node-driver|for gpu\.node)"):
            bring(node, **options)
    there = {name: one for name, one in node.installed().items() if name != "gpg-pubkey"}
    assert there == before


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """Return the key of somebody else, of the kind that rpm can verify."""
    return Key(tmp_path_factory.mktemp("other") / "home")


@pytest.mark.parametrize("manager", ["zypper", pytest.param("dnf", marks=LONG)], indirect=True)
def test_files_come_back_and_a_key_that_rpm_had_before_stays(
    node: RpmMachine, manager: str, key: Key, tmp_path: Path
) -> None:
    path = tmp_path / "key.asc"
    path.write_text(key.armoured)
    assert node.run(["rpm", "--import", str(path)], check=False).rc == 0
    options = wanted(manager, key, key)
    converge(node, **options)
    ours = PLACE.rpm_repositories[node.family]
    text = node.read(ours) or ""
    node.write(ours, text.replace("gpgcheck=1", "gpgcheck=0"))
    node.remove(PLACE.rpm_key)
    assert converge(node, **options).steps == ()
    assert (node.read(ours), node.read(PLACE.rpm_key)) == (text, key.armoured)
    converge(node, state="absent")
    assert len(node.trusted()) == 1
