# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A repository that the user names: what cannot be meant, its files, and the names in it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.apt import Source
from ansible_collections.gpu.node.plugins.module_utils._base.packages.pgp import read
from ansible_collections.gpu.node.plugins.module_utils._base.packages.repository import (
    RPM_FAMILIES,
    Known,
    files,
    is_trusted,
    step,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.desired import (
    parse_repository as parse,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.families.debian import DEBIAN
from ansible_collections.gpu.node.plugins.module_utils._driver.families.ubuntu import UBUNTU
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    PLACE,
    Names,
    Offer,
    Requirements,
)

from tests.fakes.packages.pgp_keys import EXAMPLE

MARK = "CB186C4F0609A697E4D52DFA6C722B0C1F1E27C18A56708F6525EC27BAD9ACC9"
VALUES: dict[str, Any] = {
    "url": "https://mirror/cuda/repos/debian12/x86_64",
    "key": EXAMPLE,
    "key_fingerprints": [],
    "suite": "/",
    "components": [],
    "signed_metadata": False,
}


def test_fingerprint_of_a_key_of_version_6() -> None:
    assert [one.fingerprint for one in read(EXAMPLE, "key")] == [MARK]


@pytest.mark.parametrize(
    "text", ["", "no key", EXAMPLE.replace("xioG", "####"), EXAMPLE[:60] + EXAMPLE[-40:]]
)
def test_what_is_no_key_is_named(text: str) -> None:
    with pytest.raises(InputError, match=r"repository\.key: .* expected an OpenPGP public key"):
        read(text, "repository.key")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"url": "ftp://mirror"}, r"repository\.url: 'ftp://mirror'"),
        ({"url": "https://me:secret@mirror/"}, "without a password"),
        ({"url": "https://mirror/\nURIs: x"}, r"repository\.url"),
        ({"suite": "../x/"}, r"repository\.suite"),
        ({"suite": "stable"}, "none for the flat repository 'stable', and at least one"),
        ({"components": ["main"]}, "none for the flat repository"),
        ({"suite": "stable", "components": ["a b"]}, r"repository\.components: 'a b'"),
        ({"key": "nvidia.asc"}, r"repository\.key: 'nvidia\.asc'"),
        ({"key": "/root/nvidia.asc"}, r"repository\.key_fingerprints: \[\].*a file may change"),
        ({"key_fingerprints": ["3BF863CC"]}, r"'3BF863CC' is not valid: expected 40 or 64"),
    ],
)
def test_repository_that_cannot_be_meant(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse({**VALUES, **changes}, "repository")


def test_source_and_repository_go_together() -> None:
    with pytest.raises(InputError, match=r"repository: None .* its url and its key"):
        parse(None, "repository")
    with pytest.raises(InputError, match="source to be repository with it"):
        parse(VALUES, "distribution")
    assert parse(None, "distribution") is None


def test_a_repository_becomes_sources_and_preferences_of_apt() -> None:
    found = parse({**VALUES, "suite": "stable", "components": ["main"]}, "repository")
    assert found is not None
    texts = files(found, PLACE, "debian", read(EXAMPLE, "key"))
    assert "Suites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/" in texts[PLACE.sources]
    assert 'Package: *\nPin: origin "mirror"\nPin-Priority: 400\n' in texts[PLACE.preferences]


def test_other_repositories_on_the_disk_keep_their_priority() -> None:
    found = parse({**VALUES, "url": "file:///srv/driver"}, "repository")
    assert found is not None
    assert (
        "Package: *\n" not in files(found, PLACE, "ubuntu", read(EXAMPLE, "key"))[PLACE.preferences]
    )


@pytest.mark.parametrize("family", RPM_FAMILIES)
def test_a_repository_becomes_a_repo_file(family: str) -> None:
    found = parse({**VALUES, "signed_metadata": True}, "repository")
    assert found is not None
    texts = files(found, PLACE, family, read(EXAMPLE, "key"))
    assert (
        f"\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file://{PLACE.rpm_key}\n"
        in texts[PLACE.rpm_repositories[family]]
    )


def test_repository_in_another_file_of_apt_is_used() -> None:
    repository = parse(VALUES, "repository")
    other = Source(VALUES["url"], "/", (), "/usr/share/keyrings/cuda-archive-keyring.gpg")
    use = step(repository, PLACE, "debian", Known({PLACE.sources: "x"}), [other])
    assert use is not None
    assert use.params["files"].keys() == {PLACE.preferences}
    assert use.params["stale"] == (PLACE.sources,)
    role = dataclasses.replace(other, signed_by="/etc/apt/keyrings/gpu-node-container-toolkit.gpg")
    with pytest.raises(NodeError, match=r"another role of gpu\.node has written it"):
        step(repository, PLACE, "debian", Known(), [role])
    own = dataclasses.replace(other, signed_by=PLACE.apt_keys[1])
    assert PLACE.sources in step(repository, PLACE, "debian", Known(), [own]).params["files"]  # type: ignore[union-attr]


def test_rpm_knows_keys_by_the_end_of_their_fingerprint() -> None:
    assert is_trusted(MARK, ["bad9acc9-6387f7e3"])
    assert is_trusted(MARK, [f"{MARK.lower()}-6387f7e3"])
    assert not is_trusted(MARK, ["6387f7e3-bad9acc9", ""])


def named(offered: tuple[str, ...], wanted: str, installed: tuple[str, ...] = ()) -> Names:
    offer = Offer(frozenset(offered), installed=dict.fromkeys(installed, "1"))
    return UBUNTU.names(
        offer, Requirements(Version(wanted), "open", "6.8.0-40-generic", repository=True)
    )


BRANCHED = (
    "nvidia-dkms-570-open",
    "nvidia-dkms-580",
    "nvidia-dkms-580-open",
    "nvidia-utils-580",
    "nvidia-compute-utils-580",
)
UNIFIED = ("nvidia-dkms", "nvidia-dkms-open", "nvidia-persistenced", "libnvidia-compute")


@pytest.mark.parametrize(
    ("offered", "wanted", "installed", "kernel"),
    [
        (BRANCHED, "", (), "nvidia-dkms-580-open"),
        (BRANCHED, "570.195.03", (), "nvidia-dkms-570-open"),
        (BRANCHED, "", ("nvidia-dkms-570-open",), "nvidia-dkms-570-open"),
        ((*BRANCHED, *UNIFIED), "", (), "nvidia-dkms-open"),
        ((*BRANCHED, *UNIFIED), "595", (), "nvidia-dkms-open"),
        ((*BRANCHED, *UNIFIED), "580", (), "nvidia-dkms-580-open"),
        ((), "", (), "nvidia-dkms-open"),
    ],
)
def test_names_for_ubuntu_follow_what_is_offered(
    offered: tuple[str, ...], wanted: str, installed: tuple[str, ...], kernel: str
) -> None:
    found = named(offered, wanted, installed)
    assert found.modules.by_type["open"] == kernel
    assert not [name for name in found.relevant if "server" in name]


def test_unknown_branch_for_ubuntu_keeps_those_that_are_offered() -> None:
    found = named(BRANCHED, "999")
    assert (found.branch, found.branches) == ("999", ("580", "570"))


def test_persistence_daemon_for_ubuntu_is_found_under_either_name() -> None:
    assert named(UNIFIED, "").persistenced == "nvidia-persistenced"
    assert named(BRANCHED, "").persistenced == "nvidia-compute-utils-580"


@pytest.mark.parametrize(
    ("offered", "wanted", "fabric"),
    [
        (("nvidia-fabricmanager", "nvidia-fabricmanager-570"), "570", "nvidia-fabricmanager-570"),
        (("nvidia-fabricmanager", "nvidia-fabricmanager-570"), "580", "nvidia-fabricmanager"),
        (("nvidia-fabric-manager",), "", "nvidia-fabric-manager"),
        ((), "580", ""),
    ],
)
def test_fabric_manager_under_the_name_that_is_offered(
    offered: tuple[str, ...], wanted: str, fabric: str
) -> None:
    switched = Requirements(Version(wanted), nvswitch=True)
    assert DEBIAN.names(Offer(frozenset(offered)), switched).fabric == fabric
