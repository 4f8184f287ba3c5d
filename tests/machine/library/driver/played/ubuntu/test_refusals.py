# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What apt refuses is refused before anything is changed, in check mode too, with apt's words and whose it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError, NodeError

from tests.fakes.packages.debian import capability, converge
from tests.fakes.played.debs import Deb
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, NEWER, OLD

PIN = "Package: dkms\nPin: version *\nPin-Priority: -1\n"
FIRMWARE = "nvidia-firmware-570-server-570.195.03"


def broken() -> tuple[Deb, ...]:
    """Return an archive whose user space needs what nobody has."""
    return tuple(one for one in archive.A if not one.name.startswith("nvidia-firmware"))


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_apt_refuses_is_refused_in_the_plan(
    ubuntu: Callable[..., Ubuntu], check_mode: bool
) -> None:
    node = ubuntu(broken(), K85)
    node.enable()
    before = node.installed()
    one = capability(node, check_mode=check_mode)
    with pytest.raises(NodeError, match=r"(?s)apt finds no way.*nvidia-firmware-580-server"):
        one.plan(one.observe())
    assert node.installed() == before


def test_pin_that_is_in_the_way_is_named_with_its_file(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu(archive.C, K85)
    node.enable()
    node.put("etc/apt/preferences.d/house", PIN)
    one = capability(node, check_mode=True)
    with pytest.raises(NodeError, match=r"/etc/apt/preferences\.d/house pins dkms"):
        one.plan(one.observe())


def test_hold_of_another_that_is_in_the_way_is_named(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu(archive.H, K85)
    converge(node, version="570")
    node.run(["apt-mark", "hold", FIRMWARE])
    one = capability(node, version="570", check_mode=True)
    assert one.plan(one.observe()).steps == ()
    node.apt("install", "libnvidia-gl-570-server")
    node.run(["apt-mark", "hold", "libnvidia-gl-570-server"])
    one = capability(node, version="580", check_mode=True)
    with pytest.raises(NodeError, match=r"while libnvidia-gl-570-server is on hold"):
        one.plan(one.observe())


@pytest.mark.parametrize("lists", [True, False])
def test_preview_is_possible_where_the_run_is(ubuntu: Callable[..., Ubuntu], lists: bool) -> None:
    node = ubuntu(archive.A, K85)
    if lists:
        node.enable()
    one = capability(node, check_mode=True)
    assert [step.action for step in one.plan(one.observe()).steps][-5:-2] == [
        "install",
        "hold",
        "load",
    ]
    ran = [words for words in node.ran if words[:2] == ("apt-get", "--simulate")]
    assert bool(ran) is lists
    assert OLD in str(one.plan(one.observe()).after) or not lists


def test_preview_finds_a_version_that_only_fresh_lists_have(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.A, K85)
    converge(node)
    node.archive(archive.G2, lists=False)
    before = node.files()
    one = capability(node, version=NEWER, check_mode=True)
    (install, *_rest) = one.plan(one.observe()).steps
    assert archive.full(NEWER) in install.summary
    assert node.files() == before
    other = capability(node, version="580.1.1", check_mode=True)
    with pytest.raises(InputError, match=rf"'580\.1\.1' .*: {NEWER}, {OLD}"):
        other.plan(other.observe())


def test_preview_without_a_mirror_judges_by_the_lists_that_are_there(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.A, K85)
    node.enable()
    node.mirror.folder.rename(node.mirror.folder.with_name("gone"))
    one = capability(node, version=NEWER, check_mode=True)
    with pytest.raises(InputError, match=rf"'{NEWER}' .*: {OLD}"):
        one.plan(one.observe())


def test_advice_does_not_name_a_command_that_is_not_there(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    packages = (
        dataclasses.replace(one, files=()) if one.name.startswith("linux-modules-nvidia") else one
        for one in archive.A
    )
    node = ubuntu(packages, K85)
    with pytest.raises(NodeError, match=r"Module nvidia not found.*journalctl -k") as caught:
        converge(node)
    assert "dkms" not in str(caught.value)
