# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a repository's name stands for on each system, and what cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.presets import (
    CUDA,
    DRIVER_PRESETS,
    FOLDERS,
    PINNED,
    TOOLKIT,
    TOOLKIT_KEY,
    TOOLKIT_PRESETS,
    System,
    expand,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages.repository import (
    FINGERPRINT,
    Place,
    files,
    parse,
)

NAMED = {"preset": "nvidia", "suite": "/", "components": [], "key_fingerprints": []}
MIRROR = "https://mirror.example.com/cuda"
SYSTEMS = [
    ("debian", "12", "x86_64", "debian12/x86_64", "3bf863cc"),
    ("debian", "13", "aarch64", "debian13/sbsa", "8793F200"),
    ("ubuntu", "22.04", "aarch64", "ubuntu2204/sbsa", "3bf863cc"),
    ("ubuntu", "24.04", "x86_64", "ubuntu2404/x86_64", "3bf863cc"),
    ("ubuntu", "26.04", "x86_64", "ubuntu2604/x86_64", "60DF8A40"),
    ("rhel", "8.10", "x86_64", "rhel8/x86_64", "D42D0685"),
    ("rocky", "9.6", "aarch64", "rhel9/sbsa", "D42D0685"),
    ("ol", "9.6", "x86_64", "rhel9/x86_64", "D42D0685"),
    ("fedora", "42", "x86_64", "fedora42/x86_64", "D42D0685"),
    ("fedora", "44", "x86_64", "fedora44/x86_64", "73CD9B30"),
    ("amzn", "2023", "aarch64", "amzn2023/sbsa", "D42D0685"),
    ("sles", "15.7", "aarch64", "sles15/sbsa", "D42D0685"),
    ("opensuse-leap", "15.6", "x86_64", "opensuse15/x86_64", "D42D0685"),
    ("sles", "16.0", "x86_64", "suse16/x86_64", "3A8B5622"),
    ("opensuse-leap", "16.0", "aarch64", "suse16/sbsa", "3A8B5622"),
]


def system(name: str, version: str, machine: str = "x86_64", family: str = "") -> System:
    return System(name, version, machine, family, f"{name} {version}")


def driver(where: System, **said: Any) -> dict[str, Any]:
    return dict(expand({**NAMED, **said}, DRIVER_PRESETS, lambda: where))


@pytest.mark.parametrize(("name", "version", "machine", "folder", "key"), SYSTEMS)
def test_preset_knows_layout_and_key_of_each_system(
    name: str, version: str, machine: str, folder: str, key: str
) -> None:
    found = parse(driver(system(name, version, machine)))
    assert (found.url, found.suite) == (f"{CUDA}/{folder}", "/")
    assert found.key == f"{CUDA}/{folder}/{key}.pub"
    assert found.key_fingerprints == (PINNED[key],)
    assert (found.signed_metadata, found.signed_packages) == (False, True)
    mirrored = parse(driver(system(name, version, machine), base_url=f"{MIRROR}/"))
    assert (mirrored.url, mirrored.key) == (f"{MIRROR}/{folder}", f"{MIRROR}/{folder}/{key}.pub")
    assert mirrored.key_fingerprints == found.key_fingerprints


def test_each_key_is_pinned_by_all_of_its_fingerprint_or_not_at_all() -> None:
    assert {key for key, _machines in FOLDERS.values()} == set(PINNED)
    for name, fingerprint in PINNED.items():
        assert fingerprint is None or FINGERPRINT.fullmatch(fingerprint)
        assert fingerprint is None or fingerprint.endswith(name.upper())


@pytest.mark.parametrize(
    ("family", "machine", "folder"),
    [
        ("debian", "x86_64", "deb/amd64"),
        ("debian", "aarch64", "deb/arm64"),
        ("rhel", "x86_64", "rpm/x86_64"),
        ("suse", "aarch64", "rpm/aarch64"),
    ],
)
@pytest.mark.parametrize(
    ("name", "channel"), [("nvidia", "stable"), ("nvidia-experimental", "experimental")]
)
def test_toolkit_s_preset_knows_both_formats_and_channels(
    family: str, machine: str, folder: str, name: str, channel: str
) -> None:
    where = system("any", "1", machine, family)
    found = parse(expand({**NAMED, "preset": name}, TOOLKIT_PRESETS, lambda: where))
    assert (found.url, found.key) == (f"{TOOLKIT}/{channel}/{folder}", f"{TOOLKIT}/gpgkey")
    assert found.key_fingerprints == (TOOLKIT_KEY,)
    assert (found.signed_metadata, found.signed_packages) == (True, False)


@pytest.mark.parametrize(
    ("said", "where", "words"),
    [
        ({"preset": "nvdia"}, ("debian", "12"), r"preset: 'nvdia'.*nvidia, or url and key of a"),
        ({"url": MIRROR}, ("debian", "12"), r"\.url: .*a mirror of it is named by base_url"),
        ({"base_url": "ftp://mirror"}, ("debian", "12"), r"base_url: 'ftp://mirror'.*https"),
        ({}, ("debian", "11"), r"'nvidia'.*debian12, .*debian 11 on x86_64; leave preset out, and"),
        ({}, ("linuxmint", "22"), r"preset: 'nvidia'.*this is linuxmint 22 on x86_64"),
        ({}, ("debian", "12", "ppc64le"), r"preset: 'nvidia'.*this is debian 12 on ppc64le"),
        ({}, ("fedora", "44", "aarch64"), r"preset: 'nvidia'.*this is fedora 44 on aarch64"),
        ({}, ("rocky", "10.0"), rf"key_fingerprints: \[\].*{CUDA}/rhel10/x86_64/CDF6BA43.pub"),
        ({"key": "none"}, ("debian", "12"), r"repository\.key: 'none'"),
    ],
)
def test_what_cannot_be_meant_is_named(
    said: dict[str, Any], where: tuple[str, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        parse(driver(system(*where), **said))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"base_url": MIRROR, "url": MIRROR}, r"base_url: .* preset with it, or url"),
        ({}, r"repository\.url: None.*or preset: nvidia"),
        ({"url": MIRROR}, r"repository\.key: None.*or preset: nvidia"),
    ],
)
def test_without_a_preset_url_and_key_are_needed(said: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(driver(system("debian", "12"), preset=None, signed_metadata=None, **said))


def test_what_is_said_beside_a_preset_takes_precedence() -> None:
    pinned = ["0" * 40]
    where = system("rocky", "10.0")
    found = parse(driver(where, key_fingerprints=pinned, signed_metadata=True, key="/root/key"))
    assert (found.key, found.key_fingerprints) == ("/root/key", tuple(pinned))
    assert found.signed_metadata
    assert found.signed_packages


def test_mirror_over_http_is_refused_by_the_name_that_the_user_wrote() -> None:
    found = parse(driver(system("rocky", "9.6"), base_url="http://mirror/cuda"))
    with pytest.raises(InputError, match=r"repository\.base_url: 'http://mirror/cuda.*plain_http"):
        files(found, Place.of("test", "Test", "test"), "rhel", ())
