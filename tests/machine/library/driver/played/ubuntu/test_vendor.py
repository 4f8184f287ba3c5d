# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A change of branch in NVIDIA's repository for Ubuntu, whose names lose the branch after 580, on a played machine.

F12: suffixed names up to 580, none from 590 on, nothing pruned; rename table of NVIDIA's Driver Installation Guide.
That branches conflict as they do in Ubuntu's own packages (F7) is an assumption.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE

from tests.fakes.packages.apt_nodes import Repository
from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines
from tests.fakes.played.ubuntu.ubuntu_archive import K85

PARTS = ("libnvidia-compute", "nvidia-utils", "nvidia-compute-utils", "nvidia-kernel-common")
OLD, NEW = "580.95.05", "595.45.04"
DKMS = "Depends: dkms, nvidia-kernel-common{mark} (= {full})"


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("vendor")
    found = Repository(folder / "repo", Key(folder / "home"))
    for version, mark in ((OLD, "-580"), (NEW, "")):
        full = f"{version}-0ubuntu1"
        for name in PARTS:
            alone = f"Conflicts: {name}\nReplaces: {name}" + (f"\nProvides: {name}" if mark else "")
            found.add(f"{name}{mark}", full, alone)
        for end in ("-open", ""):
            found.add(f"nvidia-dkms{mark}{end}", full, DKMS.format(mark=mark, full=full))
    found.publish()
    return found


def named(vendor: Repository) -> dict[str, Any]:
    """Return the options that name the repository."""
    values = {"url": vendor.url, "key": vendor.key.armoured, "key_fingerprints": [], "suite": "/"}
    values |= {"components": [], "plain_http": False, "signed_metadata": False}
    return {"source": "repository", "repository": values, "load": False, "persistence": False}


def test_names_without_branch_follow_those_with_one_while_these_are_held(
    ubuntu: Machines, vendor: Repository
) -> None:
    node = ubuntu((archive.DKMS, *archive.kernel(K85)), K85)
    options = named(vendor)
    assert converge(node, version="580", **options).steps == ()
    assert "libnvidia-compute-580" in node.held()
    assert converge(node, version="595", **options).steps == ()
    assert node.installed()["libnvidia-compute"] == f"{NEW}-0ubuntu1"
    assert not [name for name in (*node.installed(), *node.held()) if "-580" in name]
    assert converge(node, version="580", **options).steps == ()
    assert "nvidia-dkms-open" not in node.installed()


def test_ubuntus_desktop_gives_way_to_nvidias_packages_and_comes_back(
    ubuntu: Machines, vendor: Repository
) -> None:
    tracking = archive.tracking(K85, OLD, ending="")
    modules = archive.prebuilt(K85, OLD, ending="")
    packages = (archive.DKMS, *archive.kernel(K85), *archive.driver(OLD, ""), *modules, *tracking)
    by_hand = ("nvidia-driver-580-open", "linux-modules-nvidia-580-open-generic")
    node = ubuntu.by_hand(packages, K85, *by_hand)
    before = node.installed()
    options = {**named(vendor), "version": "595"}
    with pytest.raises(NodeError, match="adopt: true"):
        converge(node, **options)
    assert node.installed() == before
    assert converge(node, adopt=True, **options).steps == ()
    assert node.installed()["libnvidia-compute"] == f"{NEW}-0ubuntu1"
    # What nothing needs any more and is not ours stays.
    left = [name for name in node.installed() if "-580" in name]
    assert left == [f"nvidia-firmware-580-{OLD}"]
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())


def test_driver_of_nvidias_repository_is_told_to_come_from_there(
    ubuntu: Machines, vendor: Repository
) -> None:
    node = ubuntu(archive.A, K85)
    node.enable()
    node.put("etc/apt/sources.list.d/cuda.list", f"deb [trusted=yes] {vendor.url} /\n")
    node.apt("update")
    node.apt("install", "nvidia-dkms-open", "nvidia-utils", "libnvidia-compute")
    before = node.installed()
    for options, words in (({}, "adopt: true"), ({"adopt": True}, "source: repository")):
        with pytest.raises(NodeError, match=r"would remove libnvidia-compute.*") as caught:
            planned(node, **options)
        assert words in caught.value.hint
        assert ("adopt" in caught.value.hint) is (not options)
    assert node.installed() == before


def test_entry_that_comes_beside_ours_and_stops_apt_takes_its_place(
    ubuntu: Machines, vendor: Repository
) -> None:
    node = ubuntu((archive.DKMS, *archive.kernel(K85)), K85)
    options = named(vendor)
    converge(node, version="580", **options)
    key = "etc/apt/trusted.gpg.d/cuda.asc"
    node.put(key, vendor.key.armoured)
    entry = f"deb [signed-by={node.at(f'/{key}')}] {vendor.url} /\n"
    node.put("etc/apt/sources.list.d/cuda.list", entry)
    assert node.run(["apt-get", "update"], check=False).rc == 100
    assert planned(node, version="580", **options).steps[0].action == "repository"
    assert converge(node, version="580", **options).steps == ()
    assert [path for path in PLACE.paths if node.exists(path)] == [PLACE.preferences]
    node.apt("update")
    converge(node, state="absent")
    assert not [name for name in node.installed() if "nvidia" in name]
    assert not node.exists(PLACE.preferences)
