# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Secure Boot on a node: the firmware's switch, and the key that DKMS signs modules with."""

from __future__ import annotations

import typing as t

from ..._core.driver.secure_boot import DEFAULT_KEYS, SigningKey, configured_key, enrolment
from ..._host.api import Host

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
CONFIG = "/etc/dkms/framework.conf"
CONFIG_FOLDER = f"{CONFIG}.d"


def signing_key(host: Host) -> t.Optional[SigningKey]:
    """Return the key and whether the firmware knows it, None where Secure Boot is off."""
    efi = host.read_bytes(SECURE_BOOT)
    if not efi or efi[-1] != 1:
        return None
    names = (name for name in host.listdir(CONFIG_FOLDER) if name.endswith(".conf"))
    paths = [CONFIG, *(f"{CONFIG_FOLDER}/{name}" for name in names)]
    path = configured_key(host.read(one) or "" for one in paths)
    path = path or next((one for one in DEFAULT_KEYS if host.exists(one)), DEFAULT_KEYS[-1])
    if not host.exists(path):
        return SigningKey(path, "missing")
    done = host.run(["mokutil", "--test-key", path], check=False)
    return SigningKey(path, enrolment(done.out + done.err))
