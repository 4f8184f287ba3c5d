# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that somebody else has installed is checked, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._driver.plan import plan

from tests.fakes.packages.driver_nodes import DESIRED, node

THERE: dict[str, Any] = {"loaded": ("580.95.05", "open"), "libraries": ("580.95.05",)}


def checked(changes: dict[str, Any], **desired: Any) -> Plan:
    wanted = dataclasses.replace(DESIRED, source="preinstalled", **desired)
    return plan(node(**{**THERE, **changes}), wanted, check_mode=False)


@pytest.mark.parametrize("version", ["", "580", "580.95", "580.95.05"])
@pytest.mark.parametrize("kind", ["auto", "open"])
def test_driver_that_will_do(version: str, kind: str) -> None:
    other = {"distribution": "nixos", "codename": "", "title": "NixOS"}
    found = checked(other, version=version, kernel_modules=kind)
    assert (found.steps, found.reboot_required) == ((), ())


@pytest.mark.parametrize(
    ("changes", "desired", "words"),
    [
        ({"loaded": None}, {}, "^no NVIDIA driver is loaded: .*Next step: install and load"),
        ({}, {"version": "58"}, "version: '58' is not valid: expected the version that is loaded"),
        ({}, {"kernel_modules": "proprietary"}, "expected the loaded kernel module type, open"),
        (
            {"gpus": (("0000:18:00.0", "volta"),)},
            {"kernel_modules": "open"},
            "do not run on the volta GPU",
        ),
        ({"libraries": ()}, {}, r"libnvidia-ml\.so is not on the node"),
    ],
)
def test_driver_that_will_not_do(
    changes: dict[str, Any], desired: dict[str, Any], words: str
) -> None:
    with pytest.raises(NodeError, match=words):
        checked(changes, **desired)


def test_libraries_of_another_version_ask_for_a_reboot() -> None:
    found = checked({"libraries": ("570.1", "580.82.07")})
    assert found.reboot_required == (
        "version 580.95.05 of the driver is loaded, the libraries are of 570.1, 580.82.07",
    )
