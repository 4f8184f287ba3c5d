# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that somebody else has installed is checked, and gets the options that are asked for."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import Modules

from tests.fakes.packages.driver_nodes import DESIRED, node, plan_of, with_options

THERE: dict[str, Any] = {"driver": ("580.95.05", "open"), "libraries": ("580.95.05",)}


def checked(changes: dict[str, Any], **desired: Any) -> Plan:
    wanted = with_options(DESIRED, source="preinstalled", **desired)
    return plan_of(node(**{**THERE, **changes}), wanted)


@pytest.mark.parametrize("version", ["", "580", "580.95", "580.95.05"])
@pytest.mark.parametrize("kind", ["auto", "open"])
def test_driver_that_will_do(version: str, kind: str) -> None:
    other = {"distribution": "nixos", "codename": "", "title": "NixOS"}
    found = checked(other, version=version, kernel_modules=kind)
    assert (found.steps, found.reboot_required) == ((), ())


@pytest.mark.parametrize(
    ("changes", "desired", "words"),
    [
        ({"driver": None}, {}, "^no NVIDIA driver is loaded: .*Next step: install and load"),
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


OPTION = (("nvidia.NVreg_RestrictProfilingToAdminUsers", "0"),)
SHOWN = {"nvidia.NVreg_RestrictProfilingToAdminUsers": "1"}


@pytest.mark.parametrize("reload", ["never", "when_idle"])
def test_options_of_its_modules_are_written_all_the_same_and_the_next_load_is_asked_for(
    reload: str,
) -> None:
    there = {"modules": Modules(nouveau=True, images=("6.12.1",), options=SHOWN)}
    found = checked(there, module_options=OPTION, reload=reload)
    step, *more = found.steps
    assert "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n" in step.params["text"]
    assert "nouveau" not in step.params["text"]
    assert step.params["kernels"] == ("6.12.1",)
    words = "loaded with other options: NVreg_RestrictProfilingToAdminUsers is 1, not 0"
    if reload == "never":
        assert more == []
        assert words in found.reboot_required[0]
    else:
        assert words in more[0].summary
        assert found.reboot_required == ()
    own = {"modules": Modules(own=step.params["text"])}
    assert checked(own, module_options=OPTION).steps == ()
    assert [one.params["text"] for one in checked(own).steps] == [""]


def test_an_option_that_its_release_does_not_have_is_refused() -> None:
    with pytest.raises(NodeError, match=r"an option that the driver 580\.95\.05 has"):
        checked({}, module_options=(("nvidia.NVreg_ExcludeAllGpus", "1"),))
