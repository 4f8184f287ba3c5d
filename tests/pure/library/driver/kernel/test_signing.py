# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Secure Boot, and the key that DKMS signs modules with."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import (
    SigningKey,
    refuse_key,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import (
    CONFIG,
    SECURE_BOOT,
    SHIM_STATE,
    SIG_ENFORCE,
    signing_key,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._node.machine.facts import LOCKDOWN

from tests.fakes.library.fakes import FakeHost

DKMS, UBUNTU = "/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der"
ON, OFF = "\x06\0\0\0\x01", "\x06\0\0\0\0"


def path_and_state(key: SigningKey | None) -> tuple[str, str] | None:
    return key and key[:2]


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
    assert path_and_state(signing_key(host(DKMS, words, rc))) == (DKMS, state)


def test_no_key_matters_without_secure_boot() -> None:
    assert signing_key(FakeHost()) is None
    machine = host()
    machine.files[SECURE_BOOT] = OFF
    assert (signing_key(machine), machine.ran) == (None, [])


def test_key_of_ubuntu_and_the_one_that_is_configured() -> None:
    machine = host(UBUNTU, "is already enrolled")
    machine.files[DKMS] = ""
    assert path_and_state(signing_key(machine)) == (UBUNTU, "enrolled")
    machine.files[f"{CONFIG}.d/site.conf"] = (
        '# mok_certificate=/no\nmok_certificate="/etc/site.der"\n'
    )
    assert path_and_state(signing_key(machine)) == ("/etc/site.der", "missing")


def test_machine_without_mokutil() -> None:
    machine = host()
    machine.commands.clear()
    assert path_and_state(signing_key(machine)) == (DKMS, "unknown")


NO_EFI = "EFI variables are not supported on this system"
OPEN, CLOSED = "[none] integrity confidentiality\n", "none [integrity] confidentiality\n"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({SECURE_BOOT: ON}, "Secure Boot is on"),
        ({SECURE_BOOT: ON, SHIM_STATE: ON}, ""),  # mokutil --disable-validation
        ({SECURE_BOOT: ON, SHIM_STATE: ON, SIG_ENFORCE: "N\n", LOCKDOWN: OPEN}, ""),
        ({SECURE_BOOT: ON, SIG_ENFORCE: "N\n", LOCKDOWN: OPEN}, ""),
        ({SECURE_BOOT: ON, SIG_ENFORCE: "N\n", LOCKDOWN: CLOSED}, "Secure Boot is on"),
        (
            {SECURE_BOOT: OFF, SIG_ENFORCE: "Y\n", LOCKDOWN: OPEN},
            "the kernel takes signed modules alone (module.sig_enforce)",
        ),
        (
            {SIG_ENFORCE: "N\n", LOCKDOWN: CLOSED},
            "the kernel takes signed modules alone (lockdown: integrity)",
        ),
        ({LOCKDOWN: CLOSED}, "the kernel takes signed modules alone (lockdown: integrity)"),
        ({SIG_ENFORCE: "N\n", LOCKDOWN: OPEN}, ""),
    ],
)
def test_whether_signatures_are_enforced_is_asked_of_the_kernel(
    files: dict[str, str], reason: str
) -> None:
    machine = host()
    machine.files = {DKMS: "", **files}
    key = signing_key(machine)
    assert (key.enforcement.reason if key else "") == reason
    if key:
        with pytest.raises(NodeError) as refusal:
            refuse_key(key)
        assert refusal.value.message == reason


def test_a_machine_without_efi_is_not_sent_for_mokutil() -> None:
    machine = host(words=NO_EFI)
    machine.files = {DKMS: "", SIG_ENFORCE: "Y\n"}
    key = signing_key(machine)
    assert key is not None
    with pytest.raises(NodeError, match="the machine has no EFI variables") as refusal:
        refuse_key(key)
    assert refusal.value.hint.endswith("or boot without module.sig_enforce")
