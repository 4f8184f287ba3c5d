# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A key beside the pinned one, hidden from our reading but not from the genuine apt's, rpm's or dnf's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError

from tests.fakes.packages.apt_nodes import AptNode, Repository
from tests.fakes.packages.apt_nodes import missing as missing_apt
from tests.fakes.packages.debian import capability, converge
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.packages.rpm_nodes import SYSTEMS, RpmNode, repository
from tests.fakes.packages.rpm_nodes import missing as missing_rpm

VERSION = "580.95.05"
PARTS = {
    "nvidia-kernel-open-dkms": ["Conflicts: nvidia-kernel-dkms"],
    "nvidia-kernel-dkms": ["Conflicts: nvidia-kernel-open-dkms"],
    "nvidia-driver-cuda": [],
    "libcuda1": [],
    "libnvidia-ml1": [],
    "nvidia-persistenced": [],
}
BLOCK = "PGP PUBLIC KEY BLOCK"


def as_message(pinned: Key, other: Key) -> str:
    return pinned.armoured + other.armoured.replace(BLOCK, "PGP MESSAGE")


def as_message_before(pinned: Key, other: Key) -> str:
    return other.armoured.replace(BLOCK, "PGP MESSAGE") + pinned.armoured


def as_signature(pinned: Key, other: Key) -> str:
    return pinned.armoured + other.armoured.replace(BLOCK, "PGP SIGNATURE")


def inside_headers(pinned: Key, other: Key) -> str:
    lines = other.armoured.split("\n")
    return pinned.armoured.replace("\n\n", "\n" + "\n".join(lines) + "\n\n", 1)


def without_an_end(pinned: Key, other: Key) -> str:
    return pinned.armoured + other.armoured.replace(f"-----END {BLOCK}-----\n", "")


def without_a_begin(pinned: Key, other: Key) -> str:
    return pinned.armoured + other.armoured.replace(f"-----BEGIN {BLOCK}-----\n", "")


def binary_behind(pinned: Key, other: Key) -> str:
    return pinned.armoured + other.binary


def binary_before(pinned: Key, other: Key) -> str:
    return other.binary + pinned.armoured


WAYS: list[Callable[[Key, Key], str]] = [
    as_message,
    as_message_before,
    as_signature,
    inside_headers,
    without_an_end,
    without_a_begin,
    binary_behind,
    binary_before,
]
ways = pytest.mark.parametrize("hide", WAYS, ids=lambda one: one.__name__)
with_apt = pytest.mark.skipif(bool(missing_apt()), reason=missing_apt() or "-")


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key(tmp_path_factory.mktemp("pinned") / "home", "ed25519")


@pytest.fixture(scope="module")
def smuggled(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key(tmp_path_factory.mktemp("smuggled") / "home")


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory, smuggled: Key) -> Repository:
    """Return a repository that somebody else has taken over, and signs with a key of his."""
    found = Repository(tmp_path_factory.mktemp("taken") / "repo", smuggled)
    for name, relations in PARTS.items():
        found.add(name, f"{VERSION}-1", *relations)
    found.publish()
    return found


@pytest.fixture(scope="module")
def taken_rpms(tmp_path_factory: pytest.TempPathFactory, smuggled: Key) -> Path:
    return repository(tmp_path_factory.mktemp("taken"), smuggled)


@pytest.fixture
def node(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, pinned: Key) -> AptNode:
    distribution = Repository(tmp_path_factory.mktemp("distribution") / "repo", pinned)
    distribution.publish()
    return AptNode(tmp_path / "node", distribution)


def wanted(url: str, key: str, pinned: Key) -> dict[str, Any]:
    values = {
        "url": url,
        "key": key,
        "key_fingerprints": [pinned.fingerprint],
        "suite": "/",
        "components": [],
        "signed_metadata": False,
    }
    return {"source": "repository", "repository": values, "manage_sources": False}


@pytest.mark.attack("key-smuggled-in")
@with_apt
@ways
@pytest.mark.parametrize("place", ["text", "file"])
def test_apt_takes_nothing_that_a_smuggled_key_has_signed(
    node: AptNode,
    taken: Repository,
    pinned: Key,
    smuggled: Key,
    hide: Callable[[Key, Key], str],
    place: str,
) -> None:
    key = text = hide(pinned, smuggled)
    if place == "file":
        key = "/root/nvidia.asc"
        node.files[key] = text
    with pytest.raises(NodeError) as caught:
        converge(node, **wanted(taken.url, key, pinned))
    assert node.installed() == {}
    assert isinstance(caught.value, InputError), "it is the key file that is refused, not the lists"
    assert caught.value.message.startswith("repository.key")


def packets(key: Key) -> list[tuple[int, bytes]]:
    """Return tag and body of a key's packets, which the genuine gpg writes with old heads."""
    data, found = key.binary.encode("utf-8", "surrogateescape"), []
    while data:
        octets = 1 << (data[0] & 3)
        size = int.from_bytes(data[1 : 1 + octets], "big")
        found.append(((data[0] >> 2) & 0xF, data[1 + octets : 1 + octets + size]))
        data = data[1 + octets + size :]
    return found


def with_subkey(pinned: Key, other: Key) -> str:
    """Return the pinned key with another as its subkey, bound by a signature that is about something else."""
    body = dict(packets(other))[6]
    binding = bytearray(dict(packets(pinned))[2])
    binding[1] = 0x18
    data = pinned.binary.encode("utf-8", "surrogateescape")
    for tag, one in ((14, body), (2, bytes(binding))):
        data += bytes([0x80 | tag << 2 | 1]) + len(one).to_bytes(2, "big") + one
    return data.decode("utf-8", "surrogateescape")


@pytest.mark.attack("key-smuggled-in")
@with_apt
def test_apt_takes_nothing_that_a_subkey_nobody_bound_has_signed(
    node: AptNode, taken: Repository, pinned: Key, smuggled: Key
) -> None:
    node.files["/root/nvidia.gpg"] = with_subkey(pinned, smuggled)
    with pytest.raises(NodeError):
        converge(node, **wanted(taken.url, "/root/nvidia.gpg", pinned))
    assert node.installed() == {}


@pytest.mark.attack("key-smuggled-in")
@with_apt
def test_apt_takes_what_the_pinned_key_has_signed(
    node: AptNode, pinned: Key, tmp_path: Path
) -> None:
    own = Repository(tmp_path / "own", pinned)
    for name, relations in PARTS.items():
        own.add(name, f"{VERSION}-1", *relations)
    own.publish()
    for key in (pinned.armoured, f"\n  {pinned.armoured}\n"):
        assert converge(node, **wanted(own.url, key, pinned)).steps == ()
    assert set(node.installed().values()) == {f"{VERSION}-1"}


HIDDEN = (as_message, without_an_end, with_subkey)


@pytest.mark.attack("key-smuggled-in")
@pytest.mark.parametrize(
    ("manager", "hide"),
    [
        ("dnf", as_message),
        *(("zypper", one) for one in HIDDEN),
        *(pytest.param("dnf", one, marks=pytest.mark.long) for one in HIDDEN[1:]),
    ],
)
def test_rpm_takes_nothing_that_a_smuggled_key_has_signed(
    manager: str,
    hide: Callable[[Key, Key], str],
    pinned: Key,
    smuggled: Key,
    taken_rpms: Path,
    tmp_path: Path,
) -> None:
    if missing_rpm(manager):
        pytest.skip(missing_rpm(manager))
    node = RpmNode(tmp_path, taken_rpms, SYSTEMS[manager])
    for path in tmp_path.glob("etc/**/test.repo"):
        path.unlink()
    node.files["/root/nvidia.asc"] = hide(pinned, smuggled)
    with pytest.raises(NodeError):
        converge(node, **wanted(f"file://{taken_rpms}", "/root/nvidia.asc", pinned))
    assert node.installed() == {}
    one = capability(node)
    trusted = [mark.split("-")[0].upper() for mark in one.observe() and one._node.manager.trusted()]
    assert not [mark for mark in trusted if not pinned.fingerprint.endswith(mark)]
