# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Secure Boot, and the key that DKMS signs modules with."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.kernel import (
    SECURE_BOOT,
)
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed

from tests.fakes.packages.debian import Debian, converge

DKMS, UBUNTU = "/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der"
ON, OFF = "\x06\0\0\0\x01", "\x06\0\0\0\0"


def test_driver_comes_where_the_key_is_enrolled_and_not_before() -> None:
    node = Debian()
    node.files |= {SECURE_BOOT: ON, DKMS: ""}
    answers = node.commands
    answers["mokutil", "--test-key", DKMS] = f"{DKMS} is not enrolled\n"
    with pytest.raises(NodeError, match=rf"mokutil --import {DKMS}"):
        converge(node)
    assert node.changes() == []
    answers["mokutil", "--test-key", DKMS] = Completed(1, f"{DKMS} is already enrolled\n", "")
    assert converge(node).steps == ()
