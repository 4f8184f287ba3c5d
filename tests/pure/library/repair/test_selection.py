# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names by which evidence, resets and the quarantine choose GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import Seen
from ansible_collections.gpu.node.plugins.module_utils._repair.selection import (
    gpus_named,
    parse_pci_address,
)

FIRST = Seen("GPU-0a", "1650", "0000:18:00.0")
SECOND = Seen("GPU-0b", "1650", "0000:3b:00.0")  # on the same board
NAMELESS = Seen("", "", "0000:5e:00.0")
GPUS = (FIRST, SECOND, NAMELESS)


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("GPU-0a", [FIRST]),
        (" gpu-0A ", [FIRST]),
        ("00000000:3B:00.0", [SECOND]),
        ("3b:00", [SECOND]),
        ("5e:00.0", [NAMELESS]),
        ("1", [SECOND]),
        ("1650", [FIRST, SECOND]),
        ("3b:00.1", []),
        ("7", []),
        ("GPU-0c", []),
        ("", []),
        (" ", []),
    ],
)
def test_gpu_is_chosen_by_each_of_its_names(name: str, gpus: list[Seen]) -> None:
    assert gpus_named(name, GPUS, {0: FIRST, 1: SECOND}) == gpus


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("0001:3B:00.1", "0001:3b:00.1"),
        ("00010000:3b:00.0", "10000:3b:00.0"),
        ("3b:00.8", ""),
        ("3b:00.0 ", ""),
        ("GPU-1", ""),
    ],
)
def test_a_pci_address_is_read_as_sysfs_and_nvidia_smi_write_it(name: str, address: str) -> None:
    assert parse_pci_address(name) == address
