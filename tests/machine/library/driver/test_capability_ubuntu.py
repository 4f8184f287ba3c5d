# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver of Ubuntu 24.04 through genuine apt, on lists of its packages written by hand after public facts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.packages.apt import OWN_SOURCES

from tests.fakes.packages.debian import GPU, capability, converge
from tests.fakes.packages.ubuntu import DKMS, OS_RELEASE, PARTS, PREBUILT, SET, VERSIONS, Ubuntu


def ready() -> Ubuntu:
    """Return a node whose own sources have the driver, and whose lists are there."""
    host = Ubuntu()
    host.files["/etc/apt/sources.list"] = (
        "deb http://mirror/ubuntu noble main restricted multiverse\n"
    )
    host.update()
    return host


def test_newer_release_keeps_the_names() -> None:
    host = Ubuntu()
    host.codename = "resolute"
    host.files["/etc/os-release"] = OS_RELEASE.replace("noble", "resolute").replace(
        "24.04.3", "26.04"
    )
    host.files["/etc/apt/sources.list"] = "deb http://mirror/ubuntu resolute main universe\n"
    assert converge(host).steps == ()
    assert host.ours() == SET | {PREBUILT}
    assert "Suites: resolute\n" in host.files[OWN_SOURCES]


def test_kernel_without_prebuilt_modules_gets_them_from_dkms() -> None:
    host = Ubuntu()
    host.offers.pop(PREBUILT)
    converge(host)
    assert host.ours() == SET | {DKMS, "dkms"}
    host.offers[PREBUILT] = ["6.8.0-85.85"]
    host.update()
    assert converge(host).steps == ()
    assert PREBUILT not in host.packages


def test_pin_names_the_source_package_of_the_branch() -> None:
    host = ready()
    one = capability(host, version="580.82.07")
    install = next(step for step in one.plan(one.observe()).steps if step.action == "install")
    assert install.params["pins"] == {"src:nvidia-graphics-drivers-580-server": VERSIONS["580"][1]}
    assert install.params["packages"]["nvidia-utils-580-server"] == VERSIONS["580"][1]
    assert install.params["packages"][PREBUILT] == "6.8.0-85.85"


@pytest.mark.parametrize("wanted", ["535", "535.274.02", "535.274.02-0ubuntu0.24.04.1"])
def test_branch_is_read_from_the_version(wanted: str) -> None:
    host = Ubuntu()
    assert converge(host, version=wanted).steps == ()
    assert host.packages["nvidia-utils-535-server"][0] == VERSIONS["535"][0]
    # An empty version keeps the branch that is there.
    assert converge(host).steps == ()
    assert not any("580" in name for name in host.packages)


def test_prebuilt_modules_of_another_kernel_stay() -> None:
    host = Ubuntu()
    converge(host)
    host.files["/proc/sys/kernel/osrelease"] = "6.8.0-90-generic\n"
    host.files["/lib/modules/6.8.0-90-generic/build"] = ""
    newer = PREBUILT.replace("85", "90")
    host.offers[newer] = ["6.8.0-90.91"]
    host.update()
    assert converge(host).steps == ()
    assert {PREBUILT, newer} <= set(host.packages)
    assert converge(host, kernel_modules="proprietary").steps == ()
    assert not {PREBUILT, newer} & set(host.packages)


@pytest.mark.parametrize("wanted", ["590", "999"])
def test_unknown_branch_lists_those_that_are_offered(wanted: str) -> None:
    with pytest.raises(InputError, match=rf"'{wanted}' .*open kernel modules: 580, 570, 535"):
        converge(Ubuntu(), version=wanted)


def test_unknown_version_of_a_branch_lists_its_versions() -> None:
    with pytest.raises(InputError, match=r"580\.1.*: 580\.95\.05, 580\.82\.07"):
        converge(Ubuntu(), version="580.1")


def test_mirror_without_the_components_is_reported() -> None:
    host = Ubuntu()
    host.offers = {}
    with pytest.raises(NodeError, match="sources offer no libnvidia-cfg1-<branch>-server"):
        converge(host)


def test_prebuilt_modules_are_signed_and_others_are_not() -> None:
    host = ready()
    host.files[SECURE_BOOT] = "\x06\0\0\0\x01"
    assert capability(host).plan(capability(host).observe()).steps[0].action == "install"
    host.offers.pop(PREBUILT)
    host.update()
    with pytest.raises(NodeError, match="Secure Boot is on"):
        capability(host).plan(capability(host).observe())


def test_check_mode_on_a_fresh_node_does_not_know_the_branch_yet() -> None:
    host = Ubuntu()
    one = capability(host, check_mode=True)
    found = one.plan(one.observe())
    assert found.after["packages"]["nvidia-utils-<branch>-server"].startswith("the newest")
    assert host.changes() == []


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"components": ["nvidia-dkms-580-server"]}, "kernel_modules chooses them"),
        ({"components": ["nvidia-utils-580-server"]}, "persistence to be false"),
    ],
)
def test_components_that_cannot_be_meant(params: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        converge(Ubuntu(), **params)


def test_release_that_is_not_supported_names_those_that_are() -> None:
    host = Ubuntu()
    host.files["/etc/os-release"] = OS_RELEASE.replace("noble", "oracular")
    with pytest.raises(NodeError, match=r"Ubuntu 22\.04 \(jammy\), Ubuntu 24\.04 \(noble\)"):
        converge(host)


def test_old_gpu_gets_the_newest_branch_that_runs_it() -> None:
    host = ready()
    for name in (*PARTS, "nvidia-dkms"):
        host.offers[f"{name}-595-server"] = ["595.71.05-0ubuntu0.24.04.1"]
    host.update()
    host.files[f"{GPU}/device"] = "0x1db1\n"
    converge(host)
    assert host.packages["nvidia-dkms-580-server"][0] == VERSIONS["580"][0]
    with pytest.raises(NodeError, match="580 is the last branch for volta GPUs"):
        converge(host, version="595")
