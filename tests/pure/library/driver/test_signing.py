# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Secure Boot, and the key that DKMS signs modules with."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import (
    CONFIG,
    SECURE_BOOT,
    signing_key,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.fakes import FakeHost

DKMS, UBUNTU = "/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der"
ON, OFF = "\x06\0\0\0\x01", "\x06\0\0\0\0"


def host(key: str = DKMS, words: str = "is not enrolled", rc: int = 0) -> FakeHost:
    return FakeHost(
        {SECURE_BOOT: ON, key: ""},
        {("mokutil", "--test-key", key): Completed(rc, f"{key} {words}\n", "")},
    )


@pytest.mark.parametrize(
    ("words", "rc", "state"),
    [
        ("is not enrolled", 0, "refused"),
        ("is already enrolled", 1, "enrolled"),
        ("is already in db", 1, "enrolled"),
        ("is already in the enrollment request", 1, "pending"),
        ("is blocked in dbx", 1, "blocked"),
        ("cannot be read", 1, "unknown"),
    ],
)
def test_words_of_mokutil(words: str, rc: int, state: str) -> None:
    assert signing_key(host(DKMS, words, rc)) == (DKMS, state)


def test_no_key_matters_without_secure_boot() -> None:
    assert signing_key(FakeHost()) is None
    machine = host()
    machine.files[SECURE_BOOT] = OFF
    assert (signing_key(machine), machine.ran) == (None, [])


def test_key_of_ubuntu_and_the_one_that_is_configured() -> None:
    machine = host(UBUNTU, "is already enrolled")
    machine.files[DKMS] = ""
    assert signing_key(machine) == (UBUNTU, "enrolled")
    machine.files[f"{CONFIG}.d/site.conf"] = (
        '# mok_certificate=/no\nmok_certificate="/etc/site.der"\n'
    )
    assert signing_key(machine) == ("/etc/site.der", "missing")


def test_machine_without_mokutil() -> None:
    machine = host()
    machine.commands.clear()
    assert signing_key(machine) == (DKMS, "unknown")
