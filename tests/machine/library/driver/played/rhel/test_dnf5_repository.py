# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A signed repository that the user names, on a played Fedora whose dnf 5 and rpm 6 are genuine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.recorded import package_manager
from ansible_collections.gpu.node.plugins.module_utils._core.driver.names import PLACE
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError

from tests.fakes.packages.driver_runs import converge
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.played.rhel.played_rhel import Rhel
from tests.fakes.played.rhel.rhel_archive import VERSION, index
from tests.fakes.played.rhel.rhel_systems import FEDORA

FILES = (PLACE.rpm_key, PLACE.rpm_repositories["rhel"])


@pytest.fixture
def fedora(rhel: Callable[..., Rhel]) -> Rhel:
    node = rhel(FEDORA)
    node.switch("cuda", on=False)
    return node


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return Key(tmp_path / "home")


def wanted(node: Rhel, key: Key, signer: Key) -> dict[str, Any]:
    """Return the options that name a repository whose packages ``signer`` has signed."""
    folder = node.root / "vendor"
    shutil.copytree(node.repositories["cuda"], folder)
    signer.sign_rpms(folder)
    index(folder)
    values = {
        "url": f"file://{folder}",
        "key": key.armoured,
        "key_fingerprints": [key.fingerprint],
        "suite": "/",
        "components": [],
        "signed_metadata": False,
    }
    return {"source": "repository", "repository": values}


def trusted(node: Rhel) -> tuple[str, ...]:
    return package_manager("rhel", node, 0, "the driver").trusted()


def test_repository_comes_with_its_key_and_goes(fedora: Rhel, key: Key) -> None:
    options = wanted(fedora, key, key)
    assert converge(fedora, **options).steps == ()
    assert (fedora.loaded(), len(trusted(fedora))) == (f"{VERSION} open", 1)
    fedora.ran.clear()
    assert converge(fedora, **options).steps == ()
    assert not [words for words in fedora.ran if {"do", "makecache", "--import"} & {*words}]
    converge(fedora, state="absent")
    assert ([*fedora.installed()], trusted(fedora)) == (["kernel-core"], ())
    assert [fedora.read(path) for path in FILES] == [None, None]


def test_packages_that_another_key_signed_are_not_installed(
    fedora: Rhel, key: Key, tmp_path: Path
) -> None:
    stranger = Key(tmp_path / "stranger")
    with pytest.raises(NodeError, match=r"(?s)([Ss]ignature|key)"):
        converge(fedora, **wanted(fedora, key, stranger))
    assert "nvidia-driver-cuda" not in fedora.installed()
