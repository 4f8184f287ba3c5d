# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Secure Boot on a played Ubuntu: prebuilt modules are signed, those of DKMS need an enrolled key."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, NEW, NEWER, OLD

# Where Ubuntu's shim-signed keeps the key that DKMS signs with.
KEY = "/var/lib/shim-signed/mok/MOK.der"


def locked(node: Ubuntu, words: str = "") -> None:
    """Turn Secure Boot on; with words there is a key, of which mokutil says so."""
    node.enable()
    node.put(SECURE_BOOT[1:], "\x06\0\0\0\x01")
    if words:
        node.put(KEY[1:], "key")
        node.answers["mokutil"] = Completed(1, f"{KEY} {words}\n", "")


def refused(node: Ubuntu, words: str, **options: object) -> None:
    """See that a run and its preview are refused, and that nothing changes."""
    before = node.installed(), node.held(), node.loaded()
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=words):
            planned(node, check_mode=check_mode, **options)
    assert (node.installed(), node.held(), node.loaded()) == before


def test_prebuilt_modules_need_no_key(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    locked(node)
    assert planned(node).steps
    assert converge(node).steps == ()
    assert node.works()
    assert not [words for words in node.ran if words[0] == "mokutil"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", r"DKMS has no key.*install dkms and mokutil, then: make one"),
        ("is not enrolled", r"not enrolled.*install mokutil, then: mokutil --import"),
        ("is already in the enrollment request", r"reboot and confirm it on the console"),
    ],
)
def test_modules_of_dkms_are_refused_without_an_enrolled_key(
    ubuntu: Machines, words: str, expected: str
) -> None:
    node = ubuntu(archive.C, K85)
    locked(node, words)
    refused(node, rf"Secure Boot is on.*{expected}")
    assert converge(node, secure_boot="ignore").steps == ()


def test_modules_of_dkms_come_with_an_enrolled_key(ubuntu: Machines) -> None:
    node = ubuntu(archive.C, K85)
    locked(node, "is already enrolled")
    assert converge(node).steps == ()
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)


def test_signed_modules_do_not_give_way_to_those_of_dkms(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    locked(node)
    converge(node)
    node.archive(archive.G)  # the modules are not built for it yet
    refused(node, "Secure Boot is on", version=NEWER)
    assert converge(node, version="580", update=True).steps == ()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    node.archive(archive.G2)
    assert converge(node, version="580", update=True).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)
