# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver from a repository that the user names, through the genuine apt and gpg, in a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import OWN_PREFERENCES

from tests.fakes.packages.apt_nodes import AptNode, Repository, missing
from tests.fakes.packages.driver_runs import capability, converge, planned
from tests.fakes.packages.pgp_keys import Key

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing() or "-")]

NEWEST, OLDER = "580.95.05", "580.82.07"
PARTS = {
    "nvidia-kernel-open-dkms": ["Depends: dkms", "Conflicts: nvidia-kernel-dkms"],
    "nvidia-kernel-dkms": ["Depends: dkms", "Conflicts: nvidia-kernel-open-dkms"],
    "nvidia-driver-cuda": ["Depends: libcuda1 (= {}), libnvidia-ml1 (= {})"],
    "libcuda1": [],
    "libnvidia-ml1": [],
    "nvidia-persistenced": [],
    "nvidia-fabricmanager": [],
}


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory, stranger: Key) -> Repository:
    found = Repository(tmp_path_factory.mktemp("distribution") / "repo", stranger)
    found.add("dkms", "3.2")
    found.add("torch", "1", "Depends: libcuda1")
    # The distribution has newer packages of the same names: those of the repository are preferred.
    for name in ("libcuda1", "libnvidia-ml1", "nvidia-persistenced"):
        found.add(name, "999.1-1")
    found.publish()
    return found


def offer(found: Repository, *versions: str) -> Repository:
    """Add the driver in these versions, and publish the repository."""
    for version in versions:
        for name, relations in PARTS.items():
            found.add(name, version, *(one.replace("{}", version) for one in relations))
    found.publish()
    return found


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Iterator[Repository]:
    found = Repository(tmp_path_factory.mktemp("vendor") / "repo", key)
    found.add("dkms", "99")
    with offer(found, f"{NEWEST}-1", f"{OLDER}-1", "570.195.03-1").served():
        yield found


@pytest.fixture
def node(tmp_path: Path, distribution: Repository) -> AptNode:
    return AptNode(tmp_path / "node", distribution)


def wanted(vendor: Repository, **changes: Any) -> dict[str, Any]:
    values = {
        "url": vendor.url,
        "key": vendor.key.armoured,
        "key_fingerprints": [],
        "suite": "/",
        "components": [],
        "signed_metadata": False,
        **changes,
    }
    return {"source": "repository", "repository": values, "manage_sources": False}


def driver(node: AptNode) -> set[str]:
    return {version.split("-")[0] for name, version in node.installed().items() if name != "dkms"}


def test_repository_comes_with_its_key_and_goes(node: AptNode, vendor: Repository) -> None:
    left = converge(node, **wanted(vendor))
    assert (left.steps, left.reboot_required) == ((), ())
    assert driver(node) == {NEWEST}
    assert {"nvidia-kernel-open-dkms", "nvidia-driver-cuda", "libcuda1"} <= set(node.installed())
    assert node.installed()["dkms"] == "3.2", "only the driver is taken from there"
    assert f"Signed-By: {PLACE.apt_keys[1]}\n" in (node.read(PLACE.sources) or "")
    node.ran.clear()
    assert converge(node, **wanted(vendor)).steps == ()
    assert not [words for words in node.ran if "update" in words or "install" in words]
    converge(node, state="absent")
    assert node.installed() == {}
    assert [
        path for path in (PLACE.sources, PLACE.preferences, *PLACE.apt_keys) if node.read(path)
    ] == []
    assert RECORD not in node.files


def test_dependencies_follow_the_version_that_is_asked_for(
    node: AptNode, vendor: Repository
) -> None:
    converge(node, version="570", **wanted(vendor))
    assert driver(node) == {"570.195.03"}
    converge(node, version=OLDER, **wanted(vendor))
    assert driver(node) == {OLDER}


def test_lists_older_than_the_mirror_are_fetched_once(
    node: AptNode, tmp_path: Path, key: Key
) -> None:
    moving = Repository(tmp_path / "moving", key)
    with offer(moving, f"{NEWEST}-1", f"{OLDER}-1").served():
        converge(node, **wanted(moving))
        moving.lose(f"{OLDER}-1")
        offer(moving, f"{OLDER}-2")
        node.ran.clear()
        assert converge(node, version=OLDER, **wanted(moving)).steps == ()
        assert node.installed()["libcuda1"] == f"{OLDER}-2"
        assert [words[-1] for words in node.ran].count("update") == 1

        moving.lose(f"{NEWEST}-1")
        node._genuine(("apt-get", "clean"))
        before, held = (
            node.installed(),
            capability(node, **wanted(moving)).observe().software.packages,
        )
        node.ran.clear()
        with pytest.raises(
            NodeError, match=r"(?s)apt-get failed with status 100.* 404  File not found"
        ):
            converge(node, version=NEWEST, **wanted(moving))
        assert (
            node.installed(),
            capability(node, **wanted(moving)).observe().software.packages,
        ) == (
            before,
            held,
        )
        assert [words[-1] for words in node.ran].count("update") == 1
        assert node.read(OWN_PREFERENCES) is None


def test_change_of_module_type_and_fabric_manager(node: AptNode, vendor: Repository) -> None:
    switch = "/sys/bus/pci/devices/0000:07:00.0"
    node.files |= {f"{switch}/vendor": "0x10de\n", f"{switch}/class": "0x068000\n"}
    converge(node, **wanted(vendor))
    assert node.installed()["nvidia-fabricmanager"] == f"{NEWEST}-1"
    converge(node, kernel_modules="proprietary", **wanted(vendor))
    assert "nvidia-kernel-dkms" in node.installed()
    assert "nvidia-kernel-open-dkms" not in node.installed()


def test_drift_of_each_file_is_repaired(node: AptNode, vendor: Repository) -> None:
    converge(node, **wanted(vendor))
    before = {
        path: node.read(path) for path in (PLACE.sources, PLACE.preferences, PLACE.apt_keys[1])
    }
    for path, text in before.items():
        for damage in ("# emptied\n", None):
            node.remove(path)
            if damage:
                node.write(path, damage)
            assert converge(node, **wanted(vendor)).steps == ()
            assert node.read(path) == text


def test_check_mode_on_a_fresh_node_tries_the_repository_aside(
    node: AptNode, vendor: Repository
) -> None:
    one = capability(node, check_mode=True, **wanted(vendor))
    found = one.plan(one.observe())
    assert [step.action for step in found.steps][:2] == ["repository", "refresh"]
    (install,) = [step for step in found.steps if step.action == "install"]
    assert re.search(r"nvidia-driver-cuda \(\d", install.summary)
    assert node.read(PLACE.sources) is None
    assert "PGP" not in str(found.after) + str([step.describe() for step in found.steps])


def test_repository_that_another_key_signed_is_not_believed(
    node: AptNode, vendor: Repository, stranger: Key
) -> None:
    with pytest.raises(NodeError, match=r"have no nvidia-driver-cuda.*NO_PUBKEY"):
        converge(node, **wanted(vendor, key=stranger.armoured))
    assert node.installed() == {}
    assert converge(node, **wanted(vendor)).steps == ()


def test_key_on_the_node_must_be_the_one_that_is_meant(
    node: AptNode, vendor: Repository, key: Key, stranger: Key
) -> None:
    node.files["/root/key.gpg"] = key.binary
    spaced = f"{key.fingerprint[:20]} {key.fingerprint[20:].lower()}"
    pinned = wanted(vendor, key="/root/key.gpg", key_fingerprints=[spaced])
    assert converge(node, **pinned).steps == ()
    assert node.read(PLACE.apt_keys[1]) == key.binary
    node.files["/root/key.gpg"] = key.binary + stranger.binary
    with pytest.raises(InputError, match=f"in the file, which has {stranger.fingerprint} too"):
        converge(node, **pinned)
    del node.files["/root/key.gpg"]
    with pytest.raises(InputError, match=r"'/root/key.gpg'.*is there on the node"):
        converge(node, **pinned)


def test_change_of_the_key_leaves_no_old_one(node: AptNode, vendor: Repository, key: Key) -> None:
    converge(node, **wanted(vendor))
    node.files["/root/key.gpg"] = key.binary
    pinned = wanted(vendor, key="/root/key.gpg", key_fingerprints=[key.fingerprint])
    assert converge(node, **pinned).steps == ()
    assert [node.read(path) is None for path in PLACE.apt_keys] == [True, False]


CUDA = "/etc/apt/sources.list.d/cuda.list"


def put_entry(node: AptNode, text: str) -> None:
    """Have somebody write an entry, which both the role and apt read."""
    node.files[CUDA] = text
    (node.root / CUDA[1:]).write_text(text)


def test_entry_of_somebody_else_is_used(node: AptNode, vendor: Repository) -> None:
    key = node.root / "etc/apt/trusted.gpg.d/vendor.asc"
    key.write_text(vendor.key.armoured)
    put_entry(node, f"deb [signed-by={key}] {vendor.url}/ /\n")
    steps = planned(node, **wanted(vendor)).steps
    assert steps[0].summary.startswith(
        f"use the entry that apt has for the repository {vendor.url}"
    )
    assert converge(node, version="570", **wanted(vendor)).steps == ()
    assert driver(node) == {"570.195.03"}
    there = [path for path in PLACE.paths if node.read(path)]
    assert there == [PLACE.preferences]
    assert converge(node, version="570", **wanted(vendor)).steps == ()
    converge(node, state="absent")
    assert (node.installed(), node.read(PLACE.preferences)) == ({}, None)
    assert node.files[CUDA]


@pytest.mark.parametrize("option", ["trusted=yes", "allow-insecure=yes"])
def test_entry_that_no_key_verifies_is_refused(
    node: AptNode, vendor: Repository, option: str
) -> None:
    put_entry(node, f"deb [{option}] {vendor.url}/ /\n")
    for run in (planned, converge):
        with pytest.raises(NodeError, match=r"in another file .*is not verified there.*take the"):
            run(node, **wanted(vendor))
    assert node.read(PLACE.sources) is None


def test_preferences_of_the_user_come_before_ours(node: AptNode, vendor: Repository) -> None:
    pin = f"Package: *nvidia* libcuda1\nPin: version {OLDER}*\nPin-Priority: 1000\n"
    (node.root / "etc/apt/preferences.d/nvidia-driver-pinning").write_text(pin)
    assert converge(node, **wanted(vendor)).steps == ()
    assert driver(node) == {OLDER}
    assert converge(node, version=NEWEST, **wanted(vendor)).steps == ()
    assert driver(node) == {NEWEST}


def test_preferences_at_their_former_place_are_moved(node: AptNode, vendor: Repository) -> None:
    converge(node, **wanted(vendor))
    text = node.read(PLACE.preferences) or ""
    former, now = PLACE.all_preferences
    node.remove(now)
    node.write(former, text)
    assert converge(node, **wanted(vendor)).steps == ()
    assert (node.read(former), node.read(now)) == (None, text)
    node.write(former, text)
    converge(node, state="absent")
    assert [path for path in PLACE.paths if node.read(path)] == []


def test_way_back_to_the_distribution_forgets_the_repository(
    node: AptNode, vendor: Repository
) -> None:
    converge(node, **wanted(vendor))
    with pytest.raises(NodeError, match=r"no source of Debian trixie main|have no"):
        converge(node, source="distribution")
    assert node.read(PLACE.sources) is None
    assert driver(node) == {NEWEST}


def test_unknown_version_lists_what_the_repository_has(node: AptNode, vendor: Repository) -> None:
    with pytest.raises(InputError, match=rf"'999'.*{NEWEST}, {OLDER}, 570\.195\.03"):
        converge(node, version="999", **wanted(vendor))
